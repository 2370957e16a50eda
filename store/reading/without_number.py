"""Reads the trials that filters choose and that have no number: how they ended, and which were
never run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from scalemark.records.machine import DeviceKind
from scalemark.records.outcomes import Outcome
from store.database import reading
from store.filters.selection import attempt_ids, deleted_at, repeat_conditions
from store.reading.not_run import LEFT
from store.schema import AttemptRow, RepeatRow, SweepRow, SweepTrialRow, TrialRow


@dataclass(frozen=True, slots=True, kw_only=True)
class WithoutNumber:
    """The trials without a completed attempt."""

    outcomes: tuple[str, ...]  # of the newest attempt of each that ended
    first_attempt: int | None  # the oldest of these
    num_not_run: int  # that a sweep of this database has still to run


def without_number(
    engine: sa.Engine, filters: Sequence[str], *, simulated: bool, sweep: str | None = None
) -> WithoutNumber:
    """Read them; none counts as not run where a filter asks for what only an attempt has, as its
    host. Raises StoreError for an unknown filter.
    """
    kind = TrialRow.device_kind == DeviceKind.SIMULATED_GPU
    of_trials = [kind if simulated else ~kind]
    if sweep is not None:
        asked_for = sa.select(SweepTrialRow.trial_id).join(SweepRow).where(SweepRow.name == sweep)
        of_trials.append(TrialRow.id.in_(asked_for))
    counts = (deleted_at(False), AttemptRow.outcome != Outcome.INTERRUPTED)
    chosen = [*counts, *([AttemptRow.id.in_(attempt_ids(filters))] if filters else [])]
    completed = sa.select(AttemptRow.trial_id).where(
        *chosen, AttemptRow.outcome == Outcome.COMPLETED
    )
    failed = sa.select(AttemptRow.id, AttemptRow.trial_id, AttemptRow.outcome).join(TrialRow)
    failed = failed.where(*chosen, *of_trials, AttemptRow.trial_id.not_in(completed))
    left = sa.select(RepeatRow.trial_id).join(SweepRow).join(TrialRow).distinct()
    left = left.where(RepeatRow.state.in_(LEFT), SweepRow.origin == "", *of_trials)
    left = left.where(RepeatRow.trial_id.not_in(sa.select(AttemptRow.trial_id).where(*counts)))
    conditions = repeat_conditions(filters)
    with reading(engine) as connection:
        ended = connection.execute(failed.order_by(AttemptRow.id)).all()
        num_not_run = 0
        if conditions is not None:
            num_not_run = len(connection.scalars(left.where(*conditions)).all())
    newest = {one.trial_id: one.outcome for one in ended}
    return WithoutNumber(
        outcomes=tuple(newest.values()),
        first_attempt=ended[0].id if ended else None,
        num_not_run=num_not_run,
    )
