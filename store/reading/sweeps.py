"""Reads the sweeps of a database: all of them, what they asked for and left, where they ran, and
their processes with dates and software, for histories.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from scalemark.records.machine import DeviceKind
from scalemark.records.outcomes import Outcome, State, Verdict
from scalemark.records.references import Origin
from store.database import reading
from store.filters.selection import attempt_ids, deleted_at, repeat_conditions
from store.reading.queries import Row, check_sweep, selected
from store.schema import (
    AttemptRow,
    EnvironmentRow,
    GpuRow,
    LeftOutRow,
    MachineRow,
    MeasurementRow,
    RepeatRow,
    SweepRow,
    SweepTrialRow,
    TagRow,
    TrialRow,
)
from store.sweeps.sweep_status import SweepState, sweep_status
from store.trial_rows import free_values

_Kind = tuple[str, str, int]  # model, engine, number of trials


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedSweep:
    """A sweep, and how much of what it asked for there is."""

    sweep: str
    started_at: datetime
    finished_at: datetime | None  # None while something is left to run
    models: tuple[str, ...]
    engines: tuple[str, ...]
    num_trials: int  # asked for, also where they were finished earlier
    num_attempts: int  # its own, without deleted ones
    num_completed: int  # of these
    reason: str
    command: str


def every_sweep(engine: sa.Engine) -> list[ListedSweep]:
    """Raises StoreError when the database cannot be read."""
    trial = TrialRow.__table__.columns
    kinds = (
        sa.select(SweepTrialRow.sweep_id, trial["model"], trial["engine"], sa.func.count())
        .join(TrialRow, TrialRow.id == SweepTrialRow.trial_id)
        .group_by(SweepTrialRow.sweep_id, trial["model"], trial["engine"])
    )
    ended = (
        sa.select(AttemptRow.sweep_id, AttemptRow.outcome, sa.func.count())
        .where(deleted_at(False))
        .group_by(AttemptRow.sweep_id, AttemptRow.outcome)
    )
    of_sweep: dict[int, list[_Kind]] = defaultdict(list)
    outcomes: dict[int, dict[str, int]] = defaultdict(dict)
    with reading(engine) as connection:
        for sweep_id, model, of_engine, num in connection.execute(kinds):
            of_sweep[sweep_id].append((model, of_engine, num))
        for sweep_id, outcome, num in connection.execute(ended):
            outcomes[sweep_id][outcome] = num
        sweeps = connection.execute(sa.select(SweepRow.__table__).order_by(SweepRow.id.desc()))
        rows = sweeps.mappings().all()
    return [
        ListedSweep(
            sweep=row["name"],
            started_at=row["started_at"],
            finished_at=row["finished_at"],
            models=_sorted(model for model, _, _ in of_sweep[row["id"]]),
            engines=_sorted(of_engine for _, of_engine, _ in of_sweep[row["id"]]),
            num_trials=sum(num for _, _, num in of_sweep[row["id"]]),
            num_attempts=sum(outcomes[row["id"]].values()),
            num_completed=outcomes[row["id"]].get(Outcome.COMPLETED, 0),
            reason=row["reason"],
            command=row["command"],
        )
        for row in rows
    ]


def _sorted(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(names)))


def newest_sweeps(engine: sa.Engine, origin: str, most: int) -> list[str]:
    """Return the names of the sweeps that asked for trials of an origin, the newest first."""
    is_simulated = TrialRow.device_kind == DeviceKind.SIMULATED_GPU
    of_origin = is_simulated if origin == Origin.SIMULATED else ~is_simulated
    asked = sa.select(SweepTrialRow.sweep_id).join(TrialRow, TrialRow.id == SweepTrialRow.trial_id)
    chosen = SweepRow.id.in_(asked.where(of_origin))
    names = sa.select(SweepRow.name).where(chosen).order_by(SweepRow.id.desc()).limit(most)
    with reading(engine) as connection:
        return list(connection.scalars(names))


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
    newest = {attempt.trial_id: attempt.outcome for attempt in ended}
    return WithoutNumber(
        outcomes=tuple(newest.values()),
        first_attempt=ended[0].id if ended else None,
        num_not_run=num_not_run,
    )


def machines(engine: sa.Engine, keys: Sequence[str]) -> list[Row]:
    """Return the machines of these keys, with `gpus`: names, memory, capability and bus of each."""
    columns = MachineRow.__table__.columns
    rows = selected(
        engine, sa.select(*columns).where(MachineRow.key.in_(keys)).order_by(MachineRow.id)
    )
    named = ("name", "memory_bytes", "compute_capability", "pci_bus_id")
    for machine in rows:
        gpus = sa.select(*(GpuRow.__table__.columns[name] for name in named)).where(
            GpuRow.machine_id == machine["id"]
        )
        machine["gpus"] = selected(engine, gpus.order_by(GpuRow.position))
    return rows


def sweeps(engine: sa.Engine, names: Sequence[str]) -> list[Row]:
    """Return the sweeps of these names, oldest first, with `left_out`: overrides and reason of each
    cell that was left out.
    """
    columns = (
        SweepRow.id,
        SweepRow.name,
        SweepRow.reason,
        SweepRow.command,
        SweepRow.started_at,
        SweepRow.finished_at,
    )
    rows = selected(
        engine,
        sa.select(*columns, SweepRow.origin).where(SweepRow.name.in_(names)).order_by(SweepRow.id),
    )
    for sweep in rows:
        cells = sa.select(LeftOutRow.overrides, LeftOutRow.reason).where(
            LeftOutRow.sweep_id == sweep["id"]
        )
        sweep["left_out"] = selected(engine, cells.order_by(LeftOutRow.overrides))
    return rows


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
