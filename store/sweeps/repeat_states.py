"""Changes states of repeats inside the caller's transaction, each with its event: no change is ever
made without.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, TypeVar

import sqlalchemy as sa

from scalemark.records.outcomes import State
from store import schema

REMOVED = "the attempt was removed for good"
"""Detail of an event, which tells that the row of its attempt is not there any more."""

CONTINUED = "continued"
"""Detail of the event by which a later command opens a repeat again."""

_Item = TypeVar("_Item")
_CHUNK = 500  # values in one statement; SQLite takes no more than 32,766


def change(
    connection: sa.Connection,
    which: Sequence[sa.ColumnElement[bool]],
    state: State,
    at: datetime,
    detail: str = "",
    **values: Any,
) -> bool:
    """Give those repeats for which all of `which` holds a state and other values. False when there
    are none of these.
    """
    table = schema.RepeatRow
    statement = (
        sa.update(table)
        .where(*which)
        .values(state=state, **values)
        .returning(table.id, table.num_attempts)
    )
    changed = connection.execute(statement).all()
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
    """As `change`, of many repeats that are named."""
    for ids in in_chunks(repeat_ids):
        change(connection, (schema.RepeatRow.id.in_(ids), *which), state, at, detail, **values)


def add_pending(connection: sa.Connection, repeats: Sequence[dict[str, Any]], at: datetime) -> None:
    """New ones, with their first event."""
    table = schema.RepeatRow
    rows = [
        repeat | {"state": State.PENDING, "reason": "", "num_attempts": 0} for repeat in repeats
    ]
    if rows:
        added = connection.execute(
            sa.insert(table).returning(table.id, table.num_attempts), rows
        ).all()
        _add_events(connection, State.PENDING, at, "", added)


def tell_removed(
    connection: sa.Connection, attempts: Sequence[tuple[int, int, str]], at: datetime
) -> None:
    """That these attempts, told by repeat, number and the state of the repeat, are not there any
    more. The state stays.
    """
    for repeat_id, attempt, state in attempts:
        _add_events(connection, state, at, REMOVED, [(repeat_id, attempt)])


def in_chunks(items: Sequence[_Item]) -> Iterator[Sequence[_Item]]:
    """As many at a time as one statement takes."""
    return (items[begin : begin + _CHUNK] for begin in range(0, len(items), _CHUNK))


def _add_events(
    connection: sa.Connection,
    state: str,
    at: datetime,
    detail: str,
    repeats: Iterable[tuple[int, int] | sa.Row[int, int]],
) -> None:
    """`repeats` holds ids and numbers of the attempt, 0 before the first."""
    table = schema.EventRow
    last = sa.select(sa.func.coalesce(sa.func.max(table.number), 0)).where(
        table.repeat_id == sa.bindparam("of_repeat")
    )
    number = last.scalar_subquery() + 1
    statement = sa.insert(table).values(
        repeat_id=sa.bindparam("of_repeat"),
        number=number,
        attempt=sa.bindparam("of_attempt"),
        at_unix_us=at,
        state=state,
        detail=detail,
    )
    rows = [{"of_repeat": repeat_id, "of_attempt": attempt} for repeat_id, attempt in repeats]
    if rows:
        connection.execute(statement, rows)
