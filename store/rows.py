"""Inserts rows inside the caller's transaction, and those of figures that others measured."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import sqlalchemy as sa

from scalemark.records.references import Reference, ReferenceKind
from store import schema
from store.schema import ReferenceRow


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


_Item = TypeVar("_Item")


_CHUNK = 500  # values in one statement; SQLite takes no more than 32,766


def in_chunks(items: Sequence[_Item]) -> Iterator[Sequence[_Item]]:
    """Return as many at a time as one statement takes."""
    return (items[begin : begin + _CHUNK] for begin in range(0, len(items), _CHUNK))


def add_references(connection: sa.Connection, references: Iterable[Reference]) -> int:
    """Add them within the caller's transaction; return how many were not there yet."""
    new = {reference.key: reference for reference in references}
    for keys in in_chunks(list(new)):
        for known in connection.scalars(
            sa.select(ReferenceRow.key).where(ReferenceRow.key.in_(keys))
        ):
            del new[known]
    rows = [{"key": key, **reference.values} for key, reference in new.items()]
    insert_all(connection, ReferenceRow, rows)
    return len(rows)


Chosen = Callable[[Sequence[Mapping[str, Any]]], Iterable[int]]
"""Returns the positions of the rows that are meant."""


def remove_references(connection: sa.Connection, chosen: Chosen) -> tuple[int, int]:
    """Remove the references that are chosen, within the caller's transaction; return how many, and
    how many stay because they come with scalemark.
    """
    statement = sa.select(ReferenceRow.__table__).order_by(ReferenceRow.id)
    ids: list[int] = []
    num_kept = 0
    for rows in connection.execute(statement).mappings().partitions(_AT_A_TIME):
        part = [dict(row) for row in rows]
        for position in chosen(part):
            if part[position]["origin"] == ReferenceKind.PUBLISHED:
                num_kept += 1
            else:
                ids.append(part[position]["id"])
    for some in in_chunks(ids):
        connection.execute(sa.delete(ReferenceRow).where(ReferenceRow.id.in_(some)))
    return len(ids), num_kept


_AT_A_TIME = 10_000  # rows that are looked at together
