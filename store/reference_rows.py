"""Adds references to a database: those that are not there yet."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict

import sqlalchemy as sa

from scalemark.records.references import Reference
from store.rows import insert_all
from store.schema import ReferenceRow


def add_references(connection: sa.Connection, references: Iterable[Reference]) -> int:
    """Add them within the caller's transaction; return how many were not there yet."""
    new = {reference.key: reference for reference in references}
    if new:
        for key in connection.scalars(sa.select(ReferenceRow.key)):
            new.pop(key, None)
    rows = [{"key": key, **asdict(reference)} for key, reference in new.items()]
    insert_all(connection, ReferenceRow, rows)
    return len(rows)
