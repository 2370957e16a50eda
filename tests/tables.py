"""All that a database holds, without the numbers of its rows: two databases with the same content are equal."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa

from store import schema
from store.database import open_for_reading, open_for_writing, reading, writing
from store.reading.listing import listing
from store.reading.queries import Row, queried, selected

_KEYS = {
    "sweep_id": ("sweeps", ("uid",)),
    "machine_id": ("machines", ("key",)),
    "environment_id": ("environments", ("key",)),
    "placement_id": ("placements", ("key",)),
    "op_placement_id": ("op_placements", ("key",)),
    "repeat_id": ("repeats", ("sweep_id", "trial_id", "repeat")),
    "attempt_id": ("attempts", ("sweep_id", "trial_id", "repeat", "attempt")),
}
NOT_COMPARED = (
    "database_info",
    "orchestrators",
)  # no two databases have the same; a process of one host is of no use elsewhere


@contextmanager
def opened(url: str) -> Iterator[sa.Connection]:
    """To read, and closed after."""
    engine = open_for_reading(url)
    try:
        with reading(engine) as connection:
            yield connection
    finally:
        engine.dispose()


def asked(ask: Callable[..., Any], engine: sa.Engine, *args: Any, **options: Any) -> Any:
    """What a query of store.reading answers."""
    with reading(engine) as connection:
        return ask(connection, *args, **options)


def query(engine: sa.Engine, sql: str) -> tuple[list[str], list[Any]]:
    """Columns and rows of any statement that only reads."""
    with queried(engine, sql) as (columns, rows):
        return columns, list(rows)


def list_attempts(engine: sa.Engine) -> list[Row]:
    """All attempts, oldest first."""
    return selected(engine, asked(listing, engine))


@contextmanager
def changing(url: str) -> Iterator[sa.Connection]:
    """One transaction in which anything can be done."""
    engine = open_for_writing(url)
    try:
        with writing(engine) as connection:
            yield connection
    finally:
        engine.dispose()


def contents(url: str, *without: str) -> dict[str, list[dict[str, Any]]]:
    """Table -> rows, sorted; `without`: tables, or columns as "sweeps.origin"."""
    with opened(url) as connection:
        tables = {
            table.name: _rows(connection, table)
            for table in schema.Base.metadata.sorted_tables
            if table.name not in NOT_COMPARED
        }
    named: dict[str, dict[int, Any]] = {}
    for table, columns in dict.fromkeys(_KEYS.values()):
        named[table] = {
            row["id"]: tuple(
                named[_KEYS[column][0]][row[column]] if column in _KEYS else row[column]
                for column in columns
            )
            for row in tables[table]
        }
    found: dict[str, list[dict[str, Any]]] = {}
    for table, rows in tables.items():
        if table not in without:
            reported = [
                _named(row, named, {name for name in row if f"{table}.{name}" in without})
                for row in rows
            ]
            found[table] = sorted(reported, key=repr)
    return found


def _rows(connection: sa.Connection, table: sa.Table) -> list[dict[str, Any]]:
    return [dict(row) for row in connection.execute(sa.select(table)).mappings()]


def _named(
    row: dict[str, Any], named: dict[str, dict[int, Any]], without: set[str]
) -> dict[str, Any]:
    return {
        name: named[_KEYS[name][0]][value] if name in _KEYS and value is not None else value
        for name, value in row.items()
        if name not in ("id", "orchestrator_id") or (name == "id" and isinstance(value, str))
        if name not in without
    }
