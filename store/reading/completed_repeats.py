"""Reads how fast completed repeats were, to decide which others are still worth running."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from scalemark.records.measurement import IMAGES
from store.database import reading
from store.filters.selection import deleted_at
from store.schema import (
    AttemptRow,
    EnvironmentRow,
    MachineRow,
    MeasurementRow,
    SweepRow,
)
from store.sweeps.repeat_states import in_chunks


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletedRepeat:
    """One process that measured a trial to its end."""

    throughput: float
    item: str = IMAGES  # what is counted per second


def completed_repeats(
    engine: sa.Engine,
    trial_ids: Sequence[str],
    machine_key: str,
    software_key: str,
    *,
    shares_host: bool = False,
    after: int = 0,
    since: datetime | None = None,
) -> dict[str, tuple[CompletedRepeat, ...]]:
    """Return by trial id the repeats that `store.reading.queries.num_completed` counts, oldest
    first; trials without any are missing. `after` leaves out attempts up to this id: see
    `last_attempt`; `since` those that were started earlier.
    """
    machines = sa.select(MachineRow.id).where(MachineRow.key == machine_key)
    statement = (
        _completed()
        .join(EnvironmentRow, EnvironmentRow.id == AttemptRow.environment_id)
        .where(
            AttemptRow.machine_id.in_(machines),
            AttemptRow.shares_host.in_((False, True) if shares_host else (False,)),
            AttemptRow.started_at >= since if since is not None else sa.true(),
            EnvironmentRow.software_key == software_key,
            AttemptRow.id > after,
        )
    )
    return _by_trial(engine, statement, trial_ids)


def completed_repeats_of_sweep(
    engine: sa.Engine, trial_ids: Sequence[str], sweep: str
) -> dict[str, tuple[CompletedRepeat, ...]]:
    """Return the same of the repeats that a sweep has completed, with whatever software."""
    statement = _completed().join(SweepRow, SweepRow.id == AttemptRow.sweep_id)
    return _by_trial(engine, statement.where(SweepRow.name == sweep), trial_ids)


def _completed() -> sa.Select[str, float, str]:
    return (
        sa.select(AttemptRow.trial_id, MeasurementRow.throughput, MeasurementRow.item)
        .join(MeasurementRow, MeasurementRow.attempt_id == AttemptRow.id)
        .where(AttemptRow.outcome == "completed", MeasurementRow.throughput > 0, deleted_at(False))
        .order_by(AttemptRow.id)
    )


def _by_trial(
    engine: sa.Engine, statement: sa.Select[str, float, str], trial_ids: Sequence[str]
) -> dict[str, tuple[CompletedRepeat, ...]]:
    found: dict[str, tuple[CompletedRepeat, ...]] = {}
    with reading(engine) as connection:
        for ids in in_chunks(trial_ids):
            for trial_id, throughput, item in connection.execute(
                statement.where(AttemptRow.trial_id.in_(ids))
            ):
                repeat = CompletedRepeat(throughput=throughput, item=item)
                found[trial_id] = (*found.get(trial_id, ()), repeat)
    return found


def last_attempt(engine: sa.Engine) -> int:
    """Return the id of the newest attempt; 0 when there is none."""
    with reading(engine) as connection:
        return connection.scalar(sa.select(sa.func.max(AttemptRow.id))) or 0
