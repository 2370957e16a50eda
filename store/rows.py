"""Inserts rows inside the caller's transaction."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from store import schema


def find_or_insert(
    connection: sa.Connection, table: type[schema.MachineRow] | type[schema.EnvironmentRow], key: str, values: dict[str, Any]
) -> int:
    found = connection.scalar(sa.select(table.id).where(table.key == key))
    return found if found is not None else inserted_id(connection, table, values | {"key": key})


def insert_all(connection: sa.Connection, table: type[schema.Base], rows: list[dict[str, Any]]) -> None:
    if rows:
        connection.execute(sa.insert(table), rows)


def inserted_id(connection: sa.Connection, table: type[schema.Base], values: dict[str, Any]) -> int:
    (row_id,) = connection.execute(sa.insert(table).values(values)).inserted_primary_key or (None,)
    assert isinstance(row_id, int)
    return row_id
