"""Tables, columns, indices and views are those that the migrations make. What a user added is left
alone.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import sqlalchemy as sa

from scalemark.cli.progress import Progress
from store.checks.finding import Finding
from store.upgrade import run_migrations

_Parts = dict[str, str]  # name -> what it is
_REMEDY = (
    "another program changed it: take a backup, or `python -m store check --salvage OUT`, which "
    "makes it anew"
)


def tables(connection: sa.Connection, revision: str, progress: Progress) -> Iterator[Finding]:
    progress("schema", 0, 0)
    wanted = _made(revision)
    with warnings.catch_warnings():
        # of definitions that make no sense: they are told as findings
        warnings.simplefilter("ignore", sa.exc.SAWarning)
        found = _told(connection)
    same_engine = connection.dialect.name == "sqlite"  # in which it is made for comparison
    for table in sorted(wanted.tables.keys() - found.tables.keys()):
        yield _finding(table, "", "the table is missing")
    for view in sorted(wanted.views.keys() - found.views.keys()):
        yield _finding(view, "", "the view is missing")
    for table in sorted(wanted.tables.keys() & found.tables.keys()):
        for kind in _KINDS if same_engine else _OF_BOTH:
            yield from _compared(
                table, kind, found.tables[table][kind], wanted.tables[table][kind], same_engine
            )
    for view in sorted(wanted.views.keys() & found.views.keys()):
        if same_engine and found.views[view] != wanted.views[view]:
            yield _finding(view, "", "the view asks for something else than it should")


def _compared(
    table: str, kind: str, found: _Parts, wanted: _Parts, same_engine: bool
) -> Iterator[Finding]:
    for name in sorted(wanted.keys() - found.keys()):
        yield _finding(table, name, f"the {kind} is missing")
    for name in sorted(wanted.keys() & found.keys()):
        if same_engine and wanted[name] != found[name]:
            yield _finding(table, name, f"the {kind} is {found[name]}; wanted {wanted[name]}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Schema:
    tables: dict[str, dict[str, _Parts]]  # table -> kind of part -> the parts
    views: dict[str, str]


@cache
def _made(revision: str) -> _Schema:
    """By the migrations, in memory."""
    engine = sa.create_engine("sqlite://")
    try:
        with engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA legacy_alter_table = ON")  # as an upgrade has it
            run_migrations(connection, revision)
            return _told(connection)
    finally:
        engine.dispose()


def _told(connection: sa.Connection) -> _Schema:
    inspector = sa.inspect(connection)
    kinds = _KINDS if connection.dialect.name == "sqlite" else _OF_BOTH
    return _Schema(
        tables={
            table: {kind: read(inspector, table) for kind, read in kinds.items()}
            for table in inspector.get_table_names()
        },
        views={
            view: _spaced(inspector.get_view_definition(view))
            for view in inspector.get_view_names()
        },
    )


def _columns(inspector: sa.Inspector, table: str) -> _Parts:
    return {
        column["name"]: f"{column['type']}{'' if column['nullable'] else ' NOT NULL'}"
        for column in inspector.get_columns(table)
    }


def _indices(inspector: sa.Inspector, table: str) -> _Parts:
    return {
        str(index["name"]): f"{index['column_names']}, unique: {bool(index['unique'])}"
        for index in inspector.get_indexes(table)
    }


def _checks(inspector: sa.Inspector, table: str) -> _Parts:
    return {
        str(check["name"]): _spaced(check["sqltext"])
        for check in inspector.get_check_constraints(table)
    }


def _keys(inspector: sa.Inspector, table: str) -> _Parts:
    found = {"primary": str(inspector.get_pk_constraint(table)["constrained_columns"])}
    for key in inspector.get_foreign_keys(table):
        found[f"foreign {key['constrained_columns']}"] = (
            f"{key['referred_table']}{key['referred_columns']}"
        )
    for unique in inspector.get_unique_constraints(table):
        found[f"unique {unique['column_names']}"] = ""
    return found


_OF_BOTH = {"column": _columns, "index": _indices}
_KINDS = _OF_BOTH | {"check": _checks, "key": _keys}  # which the engines tell differently


def _spaced(sql: str | None) -> str:
    return " ".join((sql or "").split())


def _finding(table: str, row: str, what: str) -> Finding:
    return Finding(table=table, row=row, what=what, remedy=_REMEDY)
