"""Compacts a database, and removes for good what was deleted."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from store import schema
from store.database import locate, open_existing, reading, writing
from store.errors import StoreError
from store.sweeps.repeat_states import in_chunks, tell_removed


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    """The size of a database before and after."""

    before_bytes: int
    after_bytes: int


def compact(url: str) -> Compacted:
    """Raises StoreError when there is no database, LockedError while another process writes."""
    database = locate(url)
    database.check_writable()
    with database.explained():
        if not database.is_made():
            raise StoreError(
                f"{database.name}: no such database, or an empty one; there is nothing to compact"
            )
        before = database.size_bytes()
        database.compact()
        return Compacted(before_bytes=before, after_bytes=database.size_bytes())


def num_deleted(url: str) -> int:
    """Count attempts that `python -m store delete` marked. Raises StoreError when there is no
    database.
    """
    engine = open_existing(url)
    if engine is None:
        raise StoreError(
            f"{locate(url).name}: no such database, or an empty one; nothing is deleted in it"
        )
    count = sa.select(sa.func.count()).select_from(schema.AttemptRow).where(_DELETED)
    with reading(engine) as connection:
        return connection.scalar(count) or 0


def remove_deleted(url: str, at: datetime) -> int:
    """Remove attempts that were marked, with all that hangs on them; return how many.

    Their repeats keep state and events, with one more that says so. A sweep that is repeated counts
    attempts, not repeats, and so measures again.
    """
    database = locate(url)
    with database.explained():
        engine = database.writer()
    try:
        with writing(engine) as connection:
            return _remove_deleted(connection, at)
    finally:
        engine.dispose()


_DELETED = schema.AttemptRow.deleted_at.is_not(None)


def _remove_deleted(connection: sa.Connection, at: datetime) -> int:
    table, repeats = schema.AttemptRow, schema.RepeatRow
    of_repeat = (
        (repeats.sweep_id == table.sweep_id)
        & (repeats.trial_id == table.trial_id)
        & (repeats.repeat == table.repeat)
    )
    statement = (
        sa.select(table.id, table.attempt, repeats.id, repeats.state)
        .outerjoin(repeats, of_repeat)
        .where(_DELETED)
    )
    found = connection.execute(statement.order_by(table.id)).all()
    of_repeats = [(row[2], row[1], row[3]) for row in found if row[2] is not None]
    tell_removed(connection, of_repeats, at)
    for ids in in_chunks([row[0] for row in found]):
        for part in (schema.TagRow, schema.NoteRow, schema.StepArraysRow, schema.MeasurementRow):
            connection.execute(sa.delete(part).where(part.attempt_id.in_(ids)))
        connection.execute(sa.delete(table).where(table.id.in_(ids)))
    return len(found)
