"""Reads how far sweeps are from the database alone: for a second terminal, also after the
orchestrator was killed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from statistics import fmean
from typing import Any

import sqlalchemy as sa

from scalemark.host.processes import is_alive
from scalemark.records.attempt import Placement, ProcessIdentity
from scalemark.records.machine import DeviceKind
from scalemark.records.outcomes import Outcome, State
from scalemark.records.trial import width_name
from store import schema
from store.database import reading
from store.reading.queries import check_sweep
from store.sweeps.ledger import placement_of, process_of
from store.sweeps.repeat_states import num_in_states

NUM_LAST = 5
_OPEN = (State.PENDING, State.CLAIMED, State.RUNNING)
_Sweep, _Orchestrator = schema.SweepRow, schema.OrchestratorRow
_Repeat, _Attempt, _Trial = schema.RepeatRow, schema.AttemptRow, schema.TrialRow
_LABEL = (_Trial.model, _Trial.strategy, _Trial.num_gpus, _Trial.hosts, _Trial.device_kind)


class SweepState(StrEnum):
    """The state of a sweep."""

    RUNNING = "running"
    FINISHED = "finished"
    ENDED = "ended"  # with something left to run
    KILLED = "killed"


@dataclass(frozen=True, slots=True, kw_only=True)
class OrchestratorStatus:
    """The process that runs a sweep, or did last. Whether one that has not ended was killed shows
    only on its host.
    """

    process: ProcessIdentity
    machine_key: str
    started_at: datetime
    heartbeat_at: datetime
    ended_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatStatus:
    """One repeat of a sweep, with its newest attempt."""

    trial_id: str
    model: str
    strategy: str
    num_gpus: int
    hosts: int
    device_kind: str  # a DeviceKind
    repeat: int
    attempt: int
    started_at: datetime

    @property
    def label(self) -> str:
        """Name the trial in one word and the beginning of its id."""
        simulated = "simulated " if self.device_kind == DeviceKind.SIMULATED_GPU else ""
        width = width_name(self.num_gpus, self.hosts)
        return f"{simulated}{self.model}-{self.strategy}-{width} {self.trial_id[:8]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningRepeat(RepeatStatus):
    """An attempt that runs, if its orchestrator does."""

    run_dir: str
    placement: Placement


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedRepeat(RepeatStatus):
    """An attempt that has ended."""

    outcome: Outcome
    message: str  # why it did not complete
    throughput: float | None
    item: str | None  # what is counted per second
    verdict: str | None  # on the measurement
    duration_s: float | None  # none when nobody saw it end


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepStatus:
    """The progress of one sweep."""

    name: str
    reason: str
    command: str
    started_at: datetime
    finished_at: datetime | None  # none while something is left to run
    counts: Counter[State]  # repeats
    orchestrator: OrchestratorStatus | None  # the newest; none in imported and rebuilt sweeps
    running: Sequence[RunningRepeat]  # oldest first
    last_finished: Sequence[FinishedRepeat]  # newest first, NUM_LAST at most
    # what is open, one after the other, would take: as long as its like that was completed; what
    # has no like, the mean of all; None while nothing was completed
    left_s: float | None

    @property
    def typed_command(self) -> str:
        """The command as it was typed: scalemark sweep ..., or sweep.py ... after python."""
        is_program = self.command.startswith("scalemark ")
        return self.command if is_program else f"python {self.command}"

    @property
    def num_done(self) -> int:
        """The number of repeats that completed or failed: who repeats the command runs those that
        were interrupted.
        """
        left = sum(self.counts[state] for state in (*_OPEN, State.SKIPPED, State.INTERRUPTED))
        return self.counts.total() - left

    @property
    def num_failed(self) -> int:
        return self.num_done - self.counts[State.COMPLETED]

    @property
    def eta_s(self) -> float | None:
        """The seconds left, with as many at a time as run now."""
        return None if self.left_s is None else self.left_s / max(1, len(self.running))

    @property
    def state(self) -> SweepState:
        """Judge by the processes on this host."""
        if self.finished_at is not None:
            return SweepState.FINISHED
        runner = self.orchestrator
        if runner is None or runner.ended_at is not None:
            return SweepState.ENDED
        alive = is_alive(runner.process, runner.heartbeat_at)
        return SweepState.RUNNING if alive else SweepState.KILLED


def sweep_status(engine: sa.Engine, sweep: str | None = None) -> list[SweepStatus]:
    """Return the status of a sweep; without a name, of all that have an orchestrator which has not
    ended, else of the newest, if any.

    Raises StoreError when there is no such sweep.
    """
    if sweep is not None:
        check_sweep(engine, sweep)
    with reading(engine) as connection:
        return [_status(connection, row) for row in _chosen(connection, sweep)]


def _chosen(connection: sa.Connection, sweep: str | None) -> Sequence[sa.RowMapping]:
    statement = sa.select(_Sweep.__table__)
    if sweep is not None:
        return connection.execute(statement.where(_Sweep.name == sweep)).mappings().all()
    unended = sa.select(_Orchestrator.sweep_id).where(_Orchestrator.ended_at.is_(None))
    running = statement.where(_Sweep.id.in_(unended)).order_by(_Sweep.id)
    unended_sweeps = connection.execute(running).mappings().all()
    if unended_sweeps:
        return unended_sweeps
    last_begun = (
        sa.select(sa.func.max(_Orchestrator.started_at))
        .where(_Orchestrator.sweep_id == _Sweep.id)
        .scalar_subquery()
    )
    begun = sa.func.coalesce(last_begun, _Sweep.started_at)
    newest = statement.order_by(begun.desc(), _Sweep.id.desc()).limit(1)
    return connection.execute(newest).mappings().all()


def _status(connection: sa.Connection, row: sa.RowMapping) -> SweepStatus:
    sweep_id = row["id"]
    return SweepStatus(
        name=row["name"],
        reason=row["reason"],
        command=row["command"],
        started_at=row["started_at"],
        finished_at=row["finished_at"],
        counts=num_in_states(connection, sweep_id),
        orchestrator=_orchestrator(connection, sweep_id),
        running=_running(connection, sweep_id),
        last_finished=_last_finished(connection, sweep_id),
        left_s=_left_s(connection, sweep_id),
    )


def _orchestrator(connection: sa.Connection, sweep_id: int) -> OrchestratorStatus | None:
    machines = schema.MachineRow
    statement = (
        sa.select(_Orchestrator.__table__, machines.key.label("machine_key"))
        .join(machines, machines.id == _Orchestrator.machine_id)
        .where(_Orchestrator.sweep_id == sweep_id)
        .order_by(_Orchestrator.id.desc())
    )
    row = connection.execute(statement.limit(1)).mappings().one_or_none()
    if row is None:
        return None
    return OrchestratorStatus(
        process=process_of(row),
        machine_key=row["machine_key"],
        started_at=row["started_at"],
        heartbeat_at=row["heartbeat_at"],
        ended_at=row["ended_at"],
    )


def _running(connection: sa.Connection, sweep_id: int) -> list[RunningRepeat]:
    statement = (
        sa.select(
            _Repeat.trial_id,
            *_LABEL,
            _Repeat.repeat,
            _Repeat.num_attempts.label("attempt"),
            _Repeat.started_at,
            _Repeat.run_dir,
            _Repeat.placement,
        )
        .join(_Trial, _Trial.id == _Repeat.trial_id)
        .where(_Repeat.sweep_id == sweep_id, _Repeat.state == State.RUNNING)
        .order_by(_Repeat.started_at, _Repeat.id)
    )
    repeats = []
    for row in connection.execute(statement).mappings():
        values: dict[str, Any] = dict(row)
        repeats.append(RunningRepeat(**values | {"placement": placement_of(row["placement"])}))
    return repeats


def _last_finished(connection: sa.Connection, sweep_id: int) -> list[FinishedRepeat]:
    measured = schema.MeasurementRow
    statement = (
        sa.select(
            _Attempt.trial_id,
            *_LABEL,
            _Attempt.repeat,
            _Attempt.attempt,
            _Attempt.outcome,
            _Attempt.message,
            measured.throughput,
            measured.item,
            measured.verdict,
            _Attempt.started_at,
            _Attempt.duration_s,
        )
        .join(_Trial, _Trial.id == _Attempt.trial_id)
        .outerjoin(measured, measured.attempt_id == _Attempt.id)
        .where(_Attempt.sweep_id == sweep_id, _Attempt.deleted_at.is_(None))
        .order_by(_Attempt.id.desc())
        .limit(NUM_LAST)
    )
    repeats = []
    for row in connection.execute(statement).mappings():
        values: dict[str, Any] = dict(row)
        repeats.append(FinishedRepeat(**values | {"outcome": Outcome(row["outcome"])}))
    return repeats


def _left_s(connection: sa.Connection, sweep_id: int) -> float | None:
    """Return the seconds that the open repeats would take one after the other."""
    kind = (_Trial.model, _Trial.num_gpus, _Trial.hosts)
    timed = (
        sa.select(*kind, sa.func.avg(_Attempt.duration_s))
        .join(_Attempt, _Attempt.trial_id == _Trial.id)
        .where(
            _Attempt.sweep_id == sweep_id,
            _Attempt.outcome == Outcome.COMPLETED,
            _Attempt.duration_s.is_not(None),
            _Attempt.deleted_at.is_(None),
        )
        .group_by(*kind)
    )
    waiting = (
        sa.select(*kind, sa.func.count())
        .join(_Repeat, _Repeat.trial_id == _Trial.id)
        .where(_Repeat.sweep_id == sweep_id, _Repeat.state.in_(_OPEN))
        .group_by(*kind)
    )
    mean_s: dict[Any, float] = {}
    for *key, seconds in connection.execute(timed):
        mean_s[tuple(key)] = seconds
    if not mean_s:
        return None
    usual_s, left_s = fmean(mean_s.values()), 0.0
    for *key, num_open in connection.execute(waiting):
        left_s += num_open * mean_s.get(tuple(key), usual_s)
    return left_s
