"""Reads the processes of all sweeps with their dates and software, for histories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import sqlalchemy as sa

from scalemark.records.devices import DeviceKind
from scalemark.records.outcomes import Outcome, Verdict
from store.database import reading
from store.filters.selection import attempt_ids, deleted_at
from store.reading.queries import Row, check_sweep
from store.schema import (
    AttemptRow,
    EnvironmentRow,
    MachineRow,
    MeasurementRow,
    SweepRow,
    SweepTrialRow,
    TagRow,
    TrialRow,
)
from store.trial_rows import free_values

ACCEPTED = "accepted"
"""The tag of a sweep whose numbers are as they shall be from now on."""


class Process(NamedTuple):
    """One completed attempt that may be quoted."""

    trial_id: str
    sweep_id: int
    machine_id: int
    environment_id: int | None
    shares_host: bool
    throughput: float
    item: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepHead:
    """The columns of a sweep that a history shows."""

    name: str
    started_at: datetime
    is_imported: bool
    is_accepted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Processes:
    """All processes that were chosen, by the beginning of their sweeps, and what they share."""

    rows: Sequence[Process]
    sweeps: Mapping[int, SweepHead]
    trials: Mapping[str, Row]
    machines: Mapping[int, Row]
    environments: Mapping[int, Row]


def processes(
    engine: sa.Engine, filters: Sequence[str], *, simulated: bool, sweep: str | None = None
) -> Processes:
    """Read the processes for which the filters hold, with `sweep` of trials that it asked for.

    Raises StoreError for an unknown filter or sweep.
    """
    is_simulated = TrialRow.device_kind == DeviceKind.SIMULATED_GPU
    conditions = [deleted_at(False), is_simulated if simulated else ~is_simulated]
    if filters:
        conditions.append(AttemptRow.id.in_(attempt_ids(filters)))
    if sweep is not None:
        check_sweep(engine, sweep)
        asked_for = sa.select(SweepTrialRow.trial_id).join(SweepRow).where(SweepRow.name == sweep)
        conditions.append(AttemptRow.trial_id.in_(asked_for))
    with reading(engine) as connection:
        found = connection.execute(_STATEMENT.where(*conditions))
        columns = [column for column in TrialRow.__table__.columns if column.name != "spec"]
        return Processes(
            rows=[Process(*row) for row in found],
            sweeps=_sweeps(connection),
            trials=_by_first(connection, sa.select(*columns, *free_values(connection))),
            machines=_by_first(connection, sa.select(*MachineRow.__table__.columns)),
            environments=_by_first(connection, sa.select(*EnvironmentRow.__table__.columns)),
        )


_STATEMENT = (
    sa.select(
        AttemptRow.trial_id,
        AttemptRow.sweep_id,
        AttemptRow.machine_id,
        AttemptRow.environment_id,
        AttemptRow.shares_host,
        MeasurementRow.throughput,
        MeasurementRow.item,
    )
    .join(MeasurementRow, MeasurementRow.attempt_id == AttemptRow.id)
    .join(TrialRow, TrialRow.id == AttemptRow.trial_id)
    .join(SweepRow, SweepRow.id == AttemptRow.sweep_id)
    .where(
        AttemptRow.outcome == Outcome.COMPLETED,
        MeasurementRow.throughput > 0,
        MeasurementRow.throughput < 1e300,
        sa.or_(MeasurementRow.verdict.is_(None), MeasurementRow.verdict != Verdict.INVALID),
    )
    .order_by(SweepRow.started_at, AttemptRow.id)
)


def _sweeps(connection: sa.Connection) -> dict[int, SweepHead]:
    accepted = set(connection.scalars(sa.select(TagRow.sweep_id).where(TagRow.tag == ACCEPTED)))
    columns = (SweepRow.id, SweepRow.name, SweepRow.started_at, SweepRow.origin)
    return {
        row.id: SweepHead(
            name=row.name,
            started_at=row.started_at,
            is_imported=bool(row.origin),
            is_accepted=row.id in accepted,
        )
        for row in connection.execute(sa.select(*columns).order_by(SweepRow.id))
    }


def _by_first(connection: sa.Connection, statement: sa.Select[Any]) -> dict[Any, Row]:
    """Return rows by their first column, which is their id."""
    found = connection.execute(statement)
    names = list(found.keys())
    return {row[0]: dict(zip(names, row, strict=True)) for row in found}
