"""Where repeats stand follows from their attempts and their events, and somebody looks after those
in flight.
"""

from __future__ import annotations

from collections.abc import Iterator

import sqlalchemy as sa

from scalemark.cli.progress import Progress
from scalemark.records.outcomes import IN_FLIGHT, Outcome, State
from store.checks.finding import MADE_BY_HAND, Finding
from store.checks.measurements import problem_of_json
from store.checks.streaming import as_text, streamed
from store.schema import AttemptRow, EventRow, OrchestratorRow, RepeatRow, SweepRow
from store.sweeps.ledger import placement_of
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


def events(connection: sa.Connection, progress: Progress) -> Iterator[Finding]:
    """Repeats whose last event is not their state, or which lack events. Imported ones may have
    none.
    """
    counted = (
        sa.select(
            EventRow.repeat_id,
            sa.func.count().label("num"),
            sa.func.max(EventRow.number).label("last"),
        )
        .group_by(EventRow.repeat_id)
        .subquery()
    )
    statement = (
        sa.select(
            RepeatRow.id,
            RepeatRow.state,
            EventRow.state.label("told"),
            counted.c.num,
            counted.c.last,
        )
        .outerjoin(counted, counted.c.repeat_id == RepeatRow.id)
        .outerjoin(
            EventRow, (EventRow.repeat_id == RepeatRow.id) & (EventRow.number == counted.c.last)
        )
        .where(
            (EventRow.state.is_(None) & RepeatRow.orchestrator_id.is_not(None))
            | (EventRow.state != RepeatRow.state)
            | (counted.c.num != counted.c.last)
        )
    )
    for row in streamed(connection, statement, "events", progress):
        if row["told"] == row["state"]:
            yield _finding(
                row, f"its events are {row['num']}, and the last has number {row['last']}"
            )
        else:
            yield _finding(row, f"{row['state']}, but its last event is {row['told'] or 'missing'}")


def in_flight(connection: sa.Connection, progress: Progress) -> Iterator[Finding]:
    """Repeats that nobody will ever close, and placements of running ones that cannot be read."""
    columns = (
        RepeatRow.id,
        RepeatRow.state,
        as_text(RepeatRow.placement).label("placement"),
        OrchestratorRow.ended_at,
    )
    statement = (
        sa.select(*columns, OrchestratorRow.id.label("orchestrator"))
        .outerjoin(OrchestratorRow, OrchestratorRow.id == RepeatRow.orchestrator_id)
        .where(RepeatRow.state.in_(IN_FLIGHT))
    )
    for row in streamed(connection, statement, "repeats", progress):
        if row["orchestrator"] is None:
            yield _finding(row, f"{row['state']}, but by no orchestrator")
        elif row["ended_at"] is not None:
            yield _finding(
                row, f"{row['state']}, but its orchestrator {row['orchestrator']} has ended"
            )
        if what := problem_of_json(row["placement"], placement_of):
            yield _finding(row, f"placement: {what}")


def _finding(row: sa.RowMapping, what: str) -> Finding:
    return Finding(table="repeats", row=str(row["id"]), what=what, remedy=MADE_BY_HAND)
