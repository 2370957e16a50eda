"""Adds references to a database: those that are not there yet."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from itertools import islice

import sqlalchemy as sa

from scalemark.records.references import Reference
from store.rows import insert_all
from store.schema import ReferenceRow

_AT_ONCE = 500  # rows a statement: databases limit the number of parameters


def add_references(connection: sa.Connection, references: Iterable[Reference]) -> int:
    """Within the caller's transaction; returns how many were not there yet."""
    num_new = 0
    remaining = iter(references)
    while chunk := {reference.key: reference for reference in islice(remaining, _AT_ONCE)}:
        known = set(
            connection.scalars(sa.select(ReferenceRow.key).where(ReferenceRow.key.in_(chunk)))
        )
        new = [
            {"key": key, **asdict(reference)}
            for key, reference in chunk.items()
            if key not in known
        ]
        insert_all(connection, ReferenceRow, new)
        num_new += len(new)
    return num_new
