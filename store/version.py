"""Creates the tables of a new database, checks its version, and adds axes to an older one."""

from __future__ import annotations

import uuid
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.sql.visitors import replacement_traverse

from scalemark.host.own_code import typed
from scalemark.records.references import published
from scalemark.records.trial import AXES
from store.errors import DamagedError, StoreError
from store.rows import add_references, insert_all
from store.schema import Base, InfoRow, TrialRow
from store.trial_rows import missing_columns
from store.views import create_views

SCHEMA = "5"  # version of the tables, in `database_info`: to be raised with every change of them

_OUR_TABLES = frozenset({"sweeps", "trials", "attempts"})

VERSION_QUERY = "SELECT value FROM database_info WHERE name = 'schema'"

# what to do, in every message about damage
MAKE_AGAIN = f"restore a backup, or make it again with `{typed('store')} rebuild RUNS`"
IF_DAMAGED = f"it is damaged: move it away with its -wal and -shm, then {MAKE_AGAIN}"


def create(connection: sa.Connection) -> None:
    """Create tables, views and published figures in an empty database, inside the caller's
    transaction.
    """
    Base.metadata.create_all(connection, checkfirst=False)
    create_views(connection)
    version = {"name": "schema", "value": SCHEMA}
    insert_all(connection, InfoRow, [version, {"name": "id", "value": uuid.uuid4().hex}])
    add_references(connection, published())


def check_is_ours(name: str, tables: set[str]) -> None:
    """Raise StoreError when another program made a database of these tables, or a scalemark that
    did not note its version.
    """
    has_info = InfoRow.__tablename__ in tables
    if len(tables & _OUR_TABLES) < (1 if has_info else 2):
        first = ", ".join(sorted(tables)[:3])
        raise StoreError(
            f"{name}: a database of another program (it has {first}); name another file"
        )
    if not has_info:
        check_version(name, None, tables)


def check_version(name: str, schema: object, tables: set[str]) -> None:
    """Raise StoreError for a database of another version, and DamagedError for one that lacks a
    table of this one.
    """
    if schema == SCHEMA:
        if missing := sorted(Base.metadata.tables.keys() - tables):
            raise DamagedError(f"{name}: the table {missing[0]} is missing; {IF_DAMAGED}")
        return
    if isinstance(schema, str) and schema.isdecimal() and int(schema) > int(SCHEMA):
        raise StoreError(
            f"{name}: written by a newer scalemark (schema {schema}, this one knows {SCHEMA}); "
            "upgrade scalemark"
        )
    version = "no version of a schema" if schema is None else f"schema {str(schema)[:40]!r}"
    raise StoreError(
        f"{name}: it has {version}, this scalemark reads {SCHEMA}: it is damaged, or of a version "
        f"that was never released; move it away, then {MAKE_AGAIN}"
    )


def fill_in_defaults(engine: sa.Engine) -> sa.Engine:
    """Make every statement of this engine find the default where `trials` has no such column."""
    with engine.connect() as connection:
        missing = missing_columns(connection)
    if missing:
        event.listen(engine, "begin", _look)
        event.listen(engine, "before_execute", _fill_in, retval=True)
    return engine


def _look(connection: sa.Connection) -> None:
    """Look again in every transaction: another program may have added the column meanwhile."""
    connection.info[_MISSING] = set()
    connection.info[_MISSING] = missing_columns(connection)


def _fill_in(
    connection: sa.Connection, statement: Any, several: Any, values: Any, _options: Any
) -> tuple[Any, Any, Any]:
    missing = connection.info.get(_MISSING)
    if not missing or not isinstance(statement, sa.Select):
        return statement, several, values

    def replaced(element: Any, **_: Any) -> Any:
        if not isinstance(element, sa.Column) or element.name not in missing:
            return None
        if element.table.name != TrialRow.__tablename__:
            return None
        return sa.literal(AXES[element.name].default).label(element.name)

    return replacement_traverse(statement, {}, replaced), several, values


_MISSING = "scalemark_missing_axes"
