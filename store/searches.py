"""Reads how the attempts of a search for the largest batch ended, and keeps them out of results."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from scalemark.records.measurement import Outcome
from store.database import open_for_writing, reading, writing
from store.filters import deleted_at
from store.rows import in_chunks
from store.schema import (
    AttemptRow,
    EnvironmentRow,
    MachineRow,
    MeasurementRow,
    OrchestratorRow,
    PlacementRow,
    RepeatRow,
    SweepRow,
)

SEARCH = ".search"
"""How the name of a sweep ends that looks for the largest value of an axis."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How an attempt ended, for a search; numbers are None where it did not complete."""

    outcome: Outcome
    is_of_search: bool
    throughput: float | None
    low: float | None  # of the throughput, where an interval is known
    high: float | None
    item: str | None
    peak_bytes: int | None  # of a device, or of the host where devices have no memory of their own


def ended(
    engine: sa.Engine,
    trial_ids: Sequence[str],
    machine_key: str,
    software_key: str,
    *,
    shares_host: bool,
    host_memory_bytes: int | None,
    after: int = 0,
) -> dict[str, list[Ended]]:
    """Return by trial id how its attempts under this memory limit ended, oldest first, also those
    that a search deleted.
    """
    # an attempt that lacked memory early has no environment: its sweep knows the software
    key = sa.func.coalesce(EnvironmentRow.software_key, OrchestratorRow.software_key)
    peak = sa.func.coalesce(
        MeasurementRow.peak_device_memory_bytes, MeasurementRow.peak_host_memory_bytes
    )
    is_of_search = SweepRow.name.like(f"%{SEARCH}")
    is_its_repeat = sa.and_(
        RepeatRow.sweep_id == AttemptRow.sweep_id,
        RepeatRow.trial_id == AttemptRow.trial_id,
        RepeatRow.repeat == AttemptRow.repeat,
    )
    statement = (
        sa.select(
            AttemptRow.trial_id,
            AttemptRow.outcome,
            is_of_search.label("is_of_search"),
            MeasurementRow.throughput,
            MeasurementRow.throughput_low,
            MeasurementRow.throughput_high,
            MeasurementRow.item,
            peak.label("peak_bytes"),
        )
        .join(MachineRow, MachineRow.id == AttemptRow.machine_id)
        .join(SweepRow, SweepRow.id == AttemptRow.sweep_id)
        .join(PlacementRow, PlacementRow.id == AttemptRow.placement_id)
        .join(RepeatRow, is_its_repeat)
        .join(OrchestratorRow, OrchestratorRow.id == RepeatRow.orchestrator_id)
        .outerjoin(EnvironmentRow, EnvironmentRow.id == AttemptRow.environment_id)
        .outerjoin(MeasurementRow, MeasurementRow.attempt_id == AttemptRow.id)
        .where(
            MachineRow.key == machine_key,
            key == software_key,
            AttemptRow.shares_host.in_((False, True) if shares_host else (False,)),
            PlacementRow.host_memory_bytes.is_not_distinct_from(host_memory_bytes),
            sa.or_(deleted_at(False), is_of_search),
            AttemptRow.id > after,
        )
        .order_by(AttemptRow.id)
    )
    found: dict[str, list[Ended]] = {}
    with reading(engine) as connection:
        for ids in in_chunks(trial_ids):
            chosen = statement.where(AttemptRow.trial_id.in_(ids))
            for row in connection.execute(chosen):
                end = Ended(
                    outcome=Outcome(row.outcome),
                    is_of_search=row.is_of_search,
                    throughput=row.throughput,
                    low=row.throughput_low,
                    high=row.throughput_high,
                    item=row.item,
                    peak_bytes=row.peak_bytes,
                )
                found.setdefault(row.trial_id, []).append(end)
    return found


def delete_of_searches(url: str, trial_ids: Sequence[str], at: datetime) -> None:
    """Delete the attempts of searches at these trials, so that their few steps count nowhere."""
    searches = sa.select(SweepRow.id).where(SweepRow.name.like(f"%{SEARCH}"))
    update = sa.update(AttemptRow).where(AttemptRow.sweep_id.in_(searches), deleted_at(False))
    engine = open_for_writing(url)
    with writing(engine) as connection:
        for ids in in_chunks(trial_ids):
            connection.execute(update.where(AttemptRow.trial_id.in_(ids)).values(deleted_at=at))
    engine.dispose()
