"""Checks that where repeats stand follows from their attempts."""

from __future__ import annotations

from collections.abc import Iterator

import sqlalchemy as sa

from scalemark.cli.progress import Progress
from scalemark.records.outcomes import Outcome, State
from store.checks.finding import MADE_BY_HAND, Finding
from store.checks.streaming import streamed
from store.schema import AttemptRow, EventRow, RepeatRow, SweepRow
from store.sweeps.repeat_states import REMOVED

_IS_LAST = (
    (AttemptRow.trial_id == RepeatRow.trial_id)
    & (AttemptRow.sweep_id == RepeatRow.sweep_id)
    & (AttemptRow.repeat == RepeatRow.repeat)
)


def outcomes(connection: sa.Connection, progress: Progress) -> Iterator[Finding]:
    """Repeats that have ended otherwise than their last attempt."""
    statement = (
        sa.select(RepeatRow.id, RepeatRow.state, AttemptRow.outcome)
        .join(AttemptRow, _IS_LAST & (AttemptRow.attempt == RepeatRow.num_attempts))
        .where(RepeatRow.state.in_(list(Outcome)), RepeatRow.state != AttemptRow.outcome)
    )
    for row in streamed(connection, statement, "repeats", progress):
        yield _finding(row, f"{row['state']}, but its last attempt is {row['outcome']}")


def attempts_of_each(connection: sa.Connection, progress: Progress) -> Iterator[Finding]:
    """Repeats with more or fewer attempts than they count: a running one is not there yet, removed
    ones have an event.

    Of what is imported only a part may have been chosen.
    """
    running = sa.case((RepeatRow.state == State.RUNNING, 1), else_=0)
    there = sa.select(sa.func.count()).select_from(AttemptRow).where(_IS_LAST).scalar_subquery()
    of_repeat = (EventRow.repeat_id == RepeatRow.id, EventRow.detail == REMOVED)
    removed = sa.select(sa.func.count()).select_from(EventRow).where(*of_repeat).scalar_subquery()
    columns = (
        RepeatRow.id,
        (RepeatRow.num_attempts - running).label("wanted"),
        (there + removed).label("found"),
        SweepRow.origin,
    )
    every = sa.select(*columns).join(SweepRow, SweepRow.id == RepeatRow.sweep_id).subquery()
    differ = (every.c.wanted < every.c.found) | (
        (every.c.wanted > every.c.found) & (every.c.origin == "")
    )
    for row in streamed(connection, sa.select(every).where(differ), "repeats", progress):
        yield _finding(row, f"it has {row['found']} attempts that ended; it counts {row['wanted']}")


def _finding(row: sa.RowMapping, what: str) -> Finding:
    return Finding(table="repeats", row=str(row["id"]), what=what, remedy=MADE_BY_HAND)
