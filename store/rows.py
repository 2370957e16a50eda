"""Inserts rows inside the caller's transaction."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import sqlalchemy as sa

from store import schema


def digest(told: object) -> str:
    """Of canonical JSON: the key of a row that many others share."""
    return hashlib.sha256(
        json.dumps(told, sort_keys=True, separators=(",", ":")).encode()
    ).hexdigest()[:16]


def find_or_insert(
    connection: sa.Connection,
    table: type[schema.MachineRow]
    | type[schema.EnvironmentRow]
    | type[schema.PlacementRow]
    | type[schema.OpPlacementRow],
    key: str,
    values: dict[str, Any],
) -> int:
    found = connection.scalar(sa.select(table.id).where(table.key == key))
    return found if found is not None else inserted_id(connection, table, values | {"key": key})


def insert_all(
    connection: sa.Connection, table: type[schema.Base], rows: list[dict[str, Any]]
) -> None:
    if rows:
        connection.execute(sa.insert(table), rows)


def inserted_id(connection: sa.Connection, table: type[schema.Base], values: dict[str, Any]) -> int:
    (row_id,) = connection.execute(sa.insert(table).values(values)).inserted_primary_key or (None,)
    assert isinstance(row_id, int)
    return row_id
