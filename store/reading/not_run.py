"""Reads what a sweep has still to run, and by which command."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from scalemark.records.outcomes import Outcome, State
from store.database import reading
from store.filters.selection import deleted_at
from store.schema import AttemptRow, RepeatRow, SweepRow, SweepTrialRow
from store.sweeps.sweep_status import SweepState, sweep_status

LEFT = (State.PENDING, State.CLAIMED, State.RUNNING, State.INTERRUPTED)
"""States of repeats that are still to run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotRun:
    """The trials of a sweep of which a repeat is left."""

    sweep: str
    num_trials: int  # of which no later sweep has run as many as are left
    num_asked_for: int  # trials of the sweep
    command: str  # goes on with it
    is_running: bool


def not_run(engine: sa.Engine, sweep: str) -> NotRun | None:
    """Return None where nothing is left, and for a sweep that was imported: its command is of
    another machine. Raises StoreError when there is no such sweep.
    """
    (status,) = sweep_status(engine, sweep)
    if status.finished_at is not None:
        return None
    with reading(engine) as connection:
        row = connection.execute(
            sa.select(SweepRow.id, SweepRow.origin).where(SweepRow.name == sweep)
        ).one()
        left = sa.select(RepeatRow.trial_id, sa.func.count()).where(
            RepeatRow.sweep_id == row.id, RepeatRow.state.in_(LEFT)
        )
        num_left = _by_trial(connection, left.group_by(RepeatRow.trial_id))
        ended_later = sa.select(AttemptRow.trial_id, sa.func.count()).where(
            AttemptRow.sweep_id > row.id,
            AttemptRow.outcome != Outcome.INTERRUPTED,
            deleted_at(False),
        )
        num_later = _by_trial(connection, ended_later.group_by(AttemptRow.trial_id))
        asked_for = sa.select(sa.func.count()).where(SweepTrialRow.sweep_id == row.id)
        num_asked_for = connection.scalar(asked_for) or 0
    num_trials = sum(num > num_later.get(trial, 0) for trial, num in num_left.items())
    if not num_trials or row.origin:
        return None
    return NotRun(
        sweep=sweep,
        num_trials=num_trials,
        num_asked_for=num_asked_for,
        command=status.typed_command,
        is_running=status.state is SweepState.RUNNING,
    )


def _by_trial(connection: sa.Connection, counts: sa.Select[str, int]) -> dict[str, int]:
    return dict(connection.execute(counts).all())
