"""Adds references to a database, those that are not there yet, and removes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from scalemark.records.references import Reference, ReferenceKind
from store.rows import insert_all
from store.schema import ReferenceRow
from store.sweeps.repeat_states import in_chunks


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
