"""Reads how fast completed repeats were, to decide which others are still worth running."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from scalemark.records.measurement import IMAGES
from scalemark.records.trial import TrialSpec
from store.database import reading
from store.filters.selection import deleted_at, id_begins_with
from store.schema import (
    AttemptRow,
    EnvironmentRow,
    MachineRow,
    MeasurementRow,
    SweepRow,
    TrialRow,
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
    statement = (
        _completed()
        .join(EnvironmentRow, EnvironmentRow.id == AttemptRow.environment_id)
        .where(
            _counts_here(machine_key, shares_host, since),
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


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherRun:
    """One process that measured a trial with other code or software."""

    spec: TrialSpec
    software: Mapping[str, Any]  # as `scalemark.host.software.describe` gives it


def runs_of_other_software(
    engine: sa.Engine,
    named: str,
    trial_id: str,
    machine_key: str,
    software_key: str,
    *,
    since: datetime,
) -> list[OtherRun]:
    """Return the runs, oldest first, of a trial and of those whose ids begin as `named` that
    `completed_repeats` would count if they were of this trial with this software.
    """
    is_counted = sa.and_(TrialRow.id == trial_id, EnvironmentRow.software_key == software_key)
    statement = (
        sa.select(TrialRow.spec, EnvironmentRow.description)
        .select_from(AttemptRow)
        .join(MeasurementRow, MeasurementRow.attempt_id == AttemptRow.id)
        .join(TrialRow, TrialRow.id == AttemptRow.trial_id)
        .join(EnvironmentRow, EnvironmentRow.id == AttemptRow.environment_id)
        .where(
            _is_completed(),
            _counts_here(machine_key, False, since),
            sa.or_(id_begins_with(named), TrialRow.id == trial_id),
            ~is_counted,
        )
        .order_by(AttemptRow.id)
    )
    with reading(engine) as connection:
        return [
            OtherRun(spec=TrialSpec.from_json(spec), software=description)
            for spec, description in connection.execute(statement)
        ]


def _completed() -> sa.Select[str, float, str]:
    return (
        sa.select(AttemptRow.trial_id, MeasurementRow.throughput, MeasurementRow.item)
        .join(MeasurementRow, MeasurementRow.attempt_id == AttemptRow.id)
        .where(_is_completed())
        .order_by(AttemptRow.id)
    )


def _is_completed() -> sa.ColumnElement[bool]:
    return sa.and_(
        AttemptRow.outcome == "completed", MeasurementRow.throughput > 0, deleted_at(False)
    )


def _counts_here(
    machine_key: str, shares_host: bool, since: datetime | None
) -> sa.ColumnElement[bool]:
    """Return the condition that a completed repeat counts on a machine, whatever its software."""
    machines = sa.select(MachineRow.id).where(MachineRow.key == machine_key)
    return sa.and_(
        AttemptRow.machine_id.in_(machines),
        AttemptRow.shares_host.in_((False, True) if shares_host else (False,)),
        AttemptRow.started_at >= since if since is not None else sa.true(),
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
