"""Checks that attempts have what was measured, and that repeats stand where their attempts left
them.
"""

from __future__ import annotations

from collections.abc import Iterator

import sqlalchemy as sa

from scalemark.cli.progress import Progress
from scalemark.host.own_code import typed
from scalemark.records.outcomes import Outcome, State
from store.checks.finding import Finding, made_by_hand, streamed
from store.schema import AttemptRow, EventRow, MeasurementRow, RepeatRow, StepArraysRow, SweepRow
from store.sweeps.repeat_states import REMOVED

_REBUILD = f"`{typed('store')} rebuild` reads its run folder, which may still have them"


def unmeasured(connection: sa.Connection, progress: Progress) -> Iterator[Finding]:
    """Find completed attempts without a measurement."""
    statement = (
        sa.select(AttemptRow.id)
        .outerjoin(MeasurementRow, MeasurementRow.attempt_id == AttemptRow.id)
        .where(AttemptRow.outcome == Outcome.COMPLETED, MeasurementRow.attempt_id.is_(None))
    )
    for row in streamed(connection, statement, "attempts", progress):
        what = "completed, and without a measurement"
        yield Finding(table="attempts", row=str(row["id"]), what=what, remedy=_REBUILD)


def without_steps(connection: sa.Connection, progress: Progress) -> Iterator[Finding]:
    """Find measurements without their steps; what was imported may have come without, and what a
    program reported has none.
    """
    statement = (
        sa.select(MeasurementRow.attempt_id, MeasurementRow.num_steps)
        .join(AttemptRow, AttemptRow.id == MeasurementRow.attempt_id)
        .join(SweepRow, SweepRow.id == AttemptRow.sweep_id)
        .outerjoin(StepArraysRow, StepArraysRow.attempt_id == MeasurementRow.attempt_id)
        .where(
            StepArraysRow.attempt_id.is_(None),
            SweepRow.origin == "",
            MeasurementRow.reported.is_(False),
        )
    )
    for row in streamed(connection, statement, "measurements", progress):
        what = f"it has no steps; its measurement was made of {row['num_steps']}"
        row_id = str(row["attempt_id"])
        yield Finding(table="measurements", row=row_id, what=what, remedy=_REBUILD)


_IS_LAST = (
    (AttemptRow.trial_id == RepeatRow.trial_id)
    & (AttemptRow.sweep_id == RepeatRow.sweep_id)
    & (AttemptRow.repeat == RepeatRow.repeat)
)


def outcomes(connection: sa.Connection, progress: Progress) -> Iterator[Finding]:
    """Find repeats that have ended otherwise than their last attempt."""
    statement = (
        sa.select(RepeatRow.id, RepeatRow.state, AttemptRow.outcome)
        .join(AttemptRow, _IS_LAST & (AttemptRow.attempt == RepeatRow.num_attempts))
        .where(RepeatRow.state.in_(list(Outcome)), RepeatRow.state != AttemptRow.outcome)
    )
    for row in streamed(connection, statement, "repeats", progress):
        what = f"{row['state']}, but its last attempt is {row['outcome']}"
        yield made_by_hand("repeats", row["id"], what)


def attempts_of_each(connection: sa.Connection, progress: Progress) -> Iterator[Finding]:
    """Find repeats with more or fewer attempts than they count: a running one is not there yet,
    removed ones have an event, and of what is imported only a part may have been chosen.
    """
    num = sa.select(sa.func.count())
    running = sa.case((RepeatRow.state == State.RUNNING, 1), else_=0)
    there = num.select_from(AttemptRow).where(_IS_LAST).scalar_subquery()
    of_repeat = (EventRow.repeat_id == RepeatRow.id, EventRow.detail == REMOVED)
    removed = num.select_from(EventRow).where(*of_repeat).scalar_subquery()
    columns = (
        RepeatRow.id,
        (RepeatRow.num_attempts - running).label("wanted"),
        (there + removed).label("found"),
        SweepRow.origin,
    )
    every = sa.select(*columns).join(SweepRow, SweepRow.id == RepeatRow.sweep_id).subquery()
    has_fewer = (every.c.wanted > every.c.found) & (every.c.origin == "")
    differ = (every.c.wanted < every.c.found) | has_fewer
    for row in streamed(connection, sa.select(every).where(differ), "repeats", progress):
        what = f"it has {row['found']} attempts that ended; it counts {row['wanted']}"
        yield made_by_hand("repeats", row["id"], what)
