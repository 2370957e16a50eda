"""Reads how fast completed repeats were, to decide which others are still worth running, and which
trials a race stopped early, too far behind to lead after all repeats.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from scalemark.records.measurement import IMAGES
from scalemark.records.outcomes import State
from store.database import reading
from store.filters.selection import deleted_at
from store.schema import (
    AttemptRow,
    EnvironmentRow,
    MachineRow,
    MeasurementRow,
    OrchestratorRow,
    RepeatRow,
    SweepRow,
)
from store.sweeps.repeat_states import in_chunks

_PUT_OUT = ("race: % behind %", "race: % slower than %")
"""As sweeper.race.judge words it, and worded it once; who failed, or needs no more repeats, is
reported otherwise.
"""


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


def raced_out(engine: sa.Engine) -> dict[tuple[str, str], str]:
    """Return the reason by trial id and machine key. The last sweep with repeats of a trial
    decides: one that did not race stops nobody.
    """
    last = (
        sa.select(RepeatRow.trial_id, sa.func.max(RepeatRow.sweep_id).label("sweep_id"))
        .group_by(RepeatRow.trial_id)
        .subquery()
    )
    statement = (
        sa.select(RepeatRow.trial_id, MachineRow.key, RepeatRow.reason)
        .join(
            last,
            sa.and_(last.c.trial_id == RepeatRow.trial_id, last.c.sweep_id == RepeatRow.sweep_id),
        )
        .join(OrchestratorRow, OrchestratorRow.sweep_id == RepeatRow.sweep_id)
        .join(MachineRow, MachineRow.id == OrchestratorRow.machine_id)
        .where(RepeatRow.state == State.SKIPPED, sa.or_(*map(RepeatRow.reason.like, _PUT_OUT)))
        .distinct()
    )
    with reading(engine) as connection:
        return {
            (trial_id, machine): reason
            for trial_id, machine, reason in connection.execute(statement)
        }
