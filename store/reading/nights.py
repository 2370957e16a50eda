"""Reads the processes of all sweeps with their dates and software, for histories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from scalemark.records.machine import DeviceKind
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
"""The tag of a sweep whose throughput is intended from then on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Processes:
    """The completed attempts that may be quoted, oldest sweep first, and the rows they refer to."""

    rows: Sequence[Any]  # the columns of `_STATEMENT`
    trials: Mapping[str, Row]
    machines: Mapping[int, Row]
    environments: Mapping[int, Row]
    accepted: frozenset[int]  # ids of sweeps with the tag


def processes(
    engine: sa.Engine, filters: Sequence[str], *, simulated: bool, sweep: str | None = None
) -> Processes:
    """Read the processes that match the filters; with `sweep`, of trials that it asked for.

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
        columns = [column for column in TrialRow.__table__.columns if column.name != "spec"]
        tagged = sa.select(TagRow.sweep_id).where(TagRow.tag == ACCEPTED)
        return Processes(
            rows=connection.execute(_STATEMENT.where(*conditions)).all(),
            trials=_by_id(connection, sa.select(*columns, *free_values(connection))),
            machines=_by_id(connection, sa.select(*MachineRow.__table__.columns)),
            environments=_by_id(connection, sa.select(*EnvironmentRow.__table__.columns)),
            accepted=frozenset(connection.scalars(tagged)),
        )


_STATEMENT = (
    sa.select(
        AttemptRow.trial_id,
        AttemptRow.sweep_id,
        AttemptRow.machine_id,
        AttemptRow.environment_id,
        AttemptRow.shares_host,
        SweepRow.name.label("sweep"),
        SweepRow.started_at,
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


def _by_id(connection: sa.Connection, statement: sa.Select[Any]) -> dict[Any, Row]:
    return {row[0]: dict(row._mapping) for row in connection.execute(statement)}
