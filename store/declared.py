"""Declares tables by annotated classes as SQLAlchemy's ORM does, whose import and mappings take a
third of the start of `list`; nothing here needs them.

Type checkers see the ORM's own names, see `store.schema`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, ClassVar

import sqlalchemy as sa

_TYPES: dict[Any, Any] = {int: sa.Integer, float: sa.Double, bool: sa.Boolean}
# as Mapped[dict[str, Any] | None]; annotations are text
_MAPPED = re.compile(r"Mapped\[(?P<kind>\w+)(\[.*?\])?(?P<optional> \| None)?\]")


class mapped_column:  # noqa: N801  # the ORM's name
    """The arguments of a column, whose name is that of the attribute."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        self._arguments, self._keywords = arguments, keywords

    def named(self, name: str, kind: Any = None, *, nullable: bool = True) -> sa.Column[Any]:
        """Make the column, of this type where the arguments have none."""
        arguments = []
        for argument in self._arguments:
            # tables share the columns of a base class, and a foreign key belongs to one column
            is_key = isinstance(argument, sa.ForeignKey)
            arguments.append(sa.ForeignKey(argument.target_fullname) if is_key else argument)
        if not arguments or isinstance(arguments[0], sa.ForeignKey):
            arguments.insert(0, kind)
        return sa.Column(name, *arguments, **{"nullable": nullable, **self._keywords})


class DeclarativeBase:
    """A class below makes a table of each class below it: its attributes are the columns, and
    statements take it for its table.
    """

    metadata: ClassVar[sa.MetaData]
    __tablename__: ClassVar[str]
    type_annotation_map: ClassVar[dict[Any, Any]]
    __table__: ClassVar[sa.Table]

    def __init_subclass__(cls) -> None:
        if "type_annotation_map" in vars(cls):
            cls.metadata = sa.MetaData()
            return
        given = getattr(cls, "__table_args__", ())
        *constraints, options = (given,) if isinstance(given, dict) else (*given, {})
        if constraints and isinstance(constraints[-1], dict):
            options = constraints.pop()
        columns = list(_columns(cls))
        cls.__table__ = sa.Table(cls.__tablename__, cls.metadata, *columns, *constraints, **options)
        for column in columns:
            setattr(cls, column.name, column)

    @classmethod
    def __clause_element__(cls) -> sa.Table:
        return cls.__table__


def _columns(cls: type[DeclarativeBase]) -> Iterator[sa.Column[Any]]:
    """Make the columns of a class and of those above it, annotated ones first: the ORM's order."""
    types = {
        kind.__name__: of_sql for kind, of_sql in {**_TYPES, **cls.type_annotation_map}.items()
    }
    for part in cls.__mro__:
        own = vars(part)
        annotated = {}
        for name, annotation in own.get("__annotations__", {}).items():
            if mapped := _MAPPED.fullmatch(annotation):
                annotated[name] = mapped
        for name, mapped in annotated.items():
            declared = own.get(name, mapped_column())
            yield declared.named(name, types[mapped["kind"]], nullable=bool(mapped["optional"]))
        for name, declared in own.items():
            if isinstance(declared, mapped_column) and name not in annotated:
                yield declared.named(name)
