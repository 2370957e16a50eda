"""Reads how the attempts of a search for the largest batch ended, and keeps them out of results."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from store.database import open_for_writing, writing
from store.filters import deleted_at
from store.reading.queries import Row, selected
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
_IS_OF_SEARCH = SweepRow.name.like(f"%{SEARCH}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """What must be equal for what is known of a trial to answer a search."""

    machine_key: str
    software_key: str
    shares_host: bool
    host_memory_bytes: int | None
    after: int = 0  # attempts up to this id do not count


def ended(engine: sa.Engine, trial_ids: Sequence[str], where: Where) -> dict[str, list[Row]]:
    """Return by trial id how its attempts ended, oldest first, also those that a search deleted:
    outcome, is_of_search, and numbers, which are None where it did not complete.
    """
    found: dict[str, list[Row]] = defaultdict(list)
    statement = _attempts(where)
    for ids in in_chunks(trial_ids):
        for row in selected(engine, statement.where(AttemptRow.trial_id.in_(ids))):
            found[row["trial_id"]].append(row)
    return found


def _attempts(where: Where) -> sa.Select[*tuple[Any, ...]]:
    # an attempt that lacked memory early has no environment: its sweep knows the software
    key = sa.func.coalesce(EnvironmentRow.software_key, OrchestratorRow.software_key)
    measured = MeasurementRow
    # of a device, or of the host where devices have no memory of their own
    peak = sa.func.coalesce(measured.peak_device_memory_bytes, measured.peak_host_memory_bytes)
    is_its_repeat = sa.and_(
        RepeatRow.sweep_id == AttemptRow.sweep_id,
        RepeatRow.trial_id == AttemptRow.trial_id,
        RepeatRow.repeat == AttemptRow.repeat,
    )
    return (
        sa.select(
            *(AttemptRow.trial_id, AttemptRow.outcome, _IS_OF_SEARCH.label("is_of_search")),
            *(measured.throughput, measured.throughput_low, measured.throughput_high),
            *(measured.item, peak.label("peak_bytes")),
        )
        .join(MachineRow, MachineRow.id == AttemptRow.machine_id)
        .join(SweepRow, SweepRow.id == AttemptRow.sweep_id)
        .join(PlacementRow, PlacementRow.id == AttemptRow.placement_id)
        .join(RepeatRow, is_its_repeat)
        .join(OrchestratorRow, OrchestratorRow.id == RepeatRow.orchestrator_id)
        .outerjoin(EnvironmentRow, EnvironmentRow.id == AttemptRow.environment_id)
        .outerjoin(MeasurementRow, MeasurementRow.attempt_id == AttemptRow.id)
        .where(
            MachineRow.key == where.machine_key,
            key == where.software_key,
            AttemptRow.shares_host.in_((False, True) if where.shares_host else (False,)),
            PlacementRow.host_memory_bytes.is_not_distinct_from(where.host_memory_bytes),
            sa.or_(deleted_at(False), _IS_OF_SEARCH),
            AttemptRow.id > where.after,
        )
        .order_by(AttemptRow.id)
    )


def delete_of_searches(url: str, trial_ids: Sequence[str], at: datetime) -> None:
    """Delete the attempts of searches at these trials, so that their few steps count nowhere."""
    searches = sa.select(SweepRow.id).where(_IS_OF_SEARCH)
    update = sa.update(AttemptRow).where(AttemptRow.sweep_id.in_(searches), deleted_at(False))
    engine = open_for_writing(url)
    with writing(engine) as connection:
        for ids in in_chunks(trial_ids):
            connection.execute(update.where(AttemptRow.trial_id.in_(ids)).values(deleted_at=at))
    engine.dispose()
