"""Changes states of repeats inside the caller's transaction, each with its event."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from scalemark.records.outcomes import State
from store import schema
from store.rows import in_chunks, inserted_ids

REMOVED = "the attempt was removed for good"
"""Detail of the event of an attempt whose row earlier versions removed."""

CONTINUED = "continued"
"""Detail of the event by which a later command opens a repeat again."""


def change(
    connection: sa.Connection,
    which: Sequence[sa.ColumnElement[bool]],
    state: State,
    at: datetime,
    detail: str = "",
    **values: Any,
) -> bool:
    """Give a state and other values to the repeats for which all of `which` holds. False when there
    are none of these.
    """
    table = schema.RepeatRow
    statement = sa.update(table).where(*which).values(state=state, **values)
    changed = connection.execute(statement.returning(table.id, table.num_attempts)).all()
    _add_events(connection, state, at, detail, changed)
    return bool(changed)


def change_all(
    connection: sa.Connection,
    repeat_ids: Sequence[int],
    which: Sequence[sa.ColumnElement[bool]],
    state: State,
    at: datetime,
    detail: str = "",
    **values: Any,
) -> None:
    """Change many repeats, as `change` does."""
    for ids in in_chunks(repeat_ids):
        change(connection, (schema.RepeatRow.id.in_(ids), *which), state, at, detail, **values)


def add_pending(connection: sa.Connection, repeats: Sequence[dict[str, Any]], at: datetime) -> None:
    """Add repeats with their first event."""
    new = {"state": State.PENDING, "reason": "", "num_attempts": 0}
    ids = inserted_ids(connection, schema.RepeatRow, [repeat | new for repeat in repeats])
    _add_events(connection, State.PENDING, at, "", [(repeat_id, 0) for repeat_id in ids])


def num_in_states(connection: sa.Connection, sweep_id: int) -> Counter[State]:
    """Count the repeats of a sweep."""
    table = schema.RepeatRow
    counts = sa.select(table.state, sa.func.count()).where(table.sweep_id == sweep_id)
    rows = connection.execute(counts.group_by(table.state))
    return Counter({State(state): num for state, num in rows})


def _add_events(
    connection: sa.Connection,
    state: str,
    at: datetime,
    detail: str,
    repeats: Iterable[tuple[int, int] | sa.Row[int, int]],
) -> None:
    """Add an event to each: `repeats` are ids with the attempt's number, 0 before the first."""
    table = schema.EventRow
    last = sa.select(sa.func.coalesce(sa.func.max(table.number), 0))
    of_repeat = last.where(table.repeat_id == sa.bindparam("of_repeat"))
    statement = sa.insert(table).values(
        repeat_id=sa.bindparam("of_repeat"),
        number=of_repeat.scalar_subquery() + 1,
        attempt=sa.bindparam("of_attempt"),
        at_unix_us=at,
        state=state,
        detail=detail,
    )
    rows = [{"of_repeat": repeat_id, "of_attempt": attempt} for repeat_id, attempt in repeats]
    if rows:
        connection.execute(statement, rows)
