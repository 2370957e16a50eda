"""Adds references to a database: those that are not there yet."""

from __future__ import annotations

from collections.abc import Iterable

import sqlalchemy as sa

from scalemark.records.references import Reference
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
