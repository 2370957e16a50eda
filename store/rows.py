"""Inserts rows inside the caller's transaction."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from store import schema


def digest(value: object) -> str:
    """Return a digest of canonical JSON: the key of a row that many others share."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def find_or_insert(
    connection: sa.Connection,
    table: type[schema.EnvironmentRow] | type[schema.PlacementRow] | type[schema.OpPlacementRow],
    key: str,
    values: dict[str, Any],
) -> int:
    row_id = connection.scalar(sa.select(table.id).where(table.key == key))
    return row_id if row_id is not None else inserted_id(connection, table, values | {"key": key})


def insert_all(
    connection: sa.Connection, table: type[schema.Base], rows: Sequence[dict[str, Any]]
) -> None:
    if rows:
        connection.execute(sa.insert(table), rows)


def inserted_ids(
    connection: sa.Connection,
    table: type[schema.AttemptRow] | type[schema.RepeatRow],
    rows: Sequence[dict[str, Any]],
) -> list[int]:
    """Insert rows and return the ids that the database gave them, in the same order."""
    if not rows:
        return []
    statement = sa.insert(table).returning(table.id, sort_by_parameter_order=True)
    return list(connection.scalars(statement, rows))


def inserted_id(connection: sa.Connection, table: type[schema.Base], values: dict[str, Any]) -> int:
    (row_id,) = connection.execute(sa.insert(table).values(values)).inserted_primary_key or (None,)
    assert isinstance(row_id, int)
    return row_id
