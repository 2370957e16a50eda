"""How far sweeps are, from the database alone: for a second terminal, also after the orchestrator
was killed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

import sqlalchemy as sa

from scalemark.host.process_identity import is_alive
from scalemark.records.devices import DeviceKind
from scalemark.records.outcomes import Outcome, State
from scalemark.records.placement import Placement, ProcessIdentity
from scalemark.records.trial import width_name
from store import schema
from store.database import reading
from store.reading.queries import check_sweep
from store.sweeps.ledger import placement_of, process_of
from store.sweeps.shared import SharedStatus, status_of

NUM_LAST = 5
_OPEN = (State.PENDING, State.CLAIMED, State.RUNNING)
_Sweep, _Repeat, _Attempt, _Trial = (
    schema.SweepRow,
    schema.RepeatRow,
    schema.AttemptRow,
    schema.TrialRow,
)
_Orchestrator = schema.OrchestratorRow


class SweepState(StrEnum):
    """How a sweep stands."""

    RUNNING = "running"
    FINISHED = "finished"
    ENDED = "ended"  # with something left to run
    KILLED = "killed"


@dataclass(frozen=True, slots=True, kw_only=True)
class OrchestratorStatus:
    """Who runs a sweep, or did last: ended; or else running, or killed, which only who can look at
    its process can tell.
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
        """The trial in one word and the beginning of its id."""
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
    verdict: str | None  # on the measurement
    duration_s: float | None  # none when nobody saw it end


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Of the trials of a sweep that take about as long: what is open of them, and what those took
    that are completed.
    """

    model: str
    num_gpus: int
    hosts: int
    num_open: int  # pending, claimed and running repeats
    num_timed: int  # completed attempts of this sweep with a known duration
    mean_duration_s: float | None  # of these


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepStatus:
    """Where one sweep stands."""

    name: str
    reason: str
    command: str
    started_at: datetime
    finished_at: datetime | None  # none while something is left to run
    counts: Counter[State]  # repeats
    orchestrator: OrchestratorStatus | None  # the newest; none in imported and rebuilt sweeps
    running: Sequence[RunningRepeat]  # oldest first
    last_finished: Sequence[FinishedRepeat]  # newest first, NUM_LAST at most
    paces: Sequence[Pace]
    shared: SharedStatus | None = None  # with all its agents; none of a sweep of one host

    @property
    def num_done(self) -> int:
        """The number of repeats that need no more attempts, without those that were skipped."""
        left = sum(self.counts[state] for state in (*_OPEN, State.SKIPPED))
        return self.counts.total() - left

    @property
    def num_failed(self) -> int:
        return self.num_done - self.counts[State.COMPLETED]

    @property
    def state(self) -> SweepState:
        """How the sweep stands, as far as its processes on this host and its leases tell."""
        if self.finished_at is not None:
            return SweepState.FINISHED
        if self.shared is not None:
            return _shared_state(self.shared)
        runner = self.orchestrator
        if runner is None or runner.ended_at is not None:
            return SweepState.ENDED
        alive = is_alive(runner.process, runner.heartbeat_at)
        return SweepState.RUNNING if alive else SweepState.KILLED


def _shared_state(shared: SharedStatus) -> SweepState:
    if any(map(shared.is_alive, shared.agents)):
        return SweepState.RUNNING
    all_ended = all(agent.ended_at for agent in shared.agents)
    return SweepState.ENDED if all_ended else SweepState.KILLED


def sweep_status(engine: sa.Engine, sweep: str | None = None) -> list[SweepStatus]:
    """Of the sweep of this name; without one, of all that have an orchestrator which has not ended,
    else of the newest, if any.

    Raises StoreError when there is no such sweep.
    """
    if sweep is not None:
        check_sweep(engine, sweep)
    with reading(engine) as connection:
        return [_status(connection, row) for row in _chosen(connection, sweep)]


def _chosen(connection: sa.Connection, sweep: str | None) -> Sequence[sa.RowMapping]:
    statement = sa.select(*_Sweep.__table__.columns)
    if sweep is not None:
        return connection.execute(statement.where(_Sweep.name == sweep)).mappings().all()
    unended = sa.select(_Orchestrator.sweep_id).where(_Orchestrator.ended_at.is_(None))
    found = (
        connection.execute(statement.where(_Sweep.id.in_(unended)).order_by(_Sweep.id))
        .mappings()
        .all()
    )
    if found:
        return found
    last_begun = (
        sa.select(sa.func.max(_Orchestrator.started_at))
        .where(_Orchestrator.sweep_id == _Sweep.id)
        .scalar_subquery()
    )
    newest_first = statement.order_by(
        sa.func.coalesce(last_begun, _Sweep.started_at).desc(), _Sweep.id.desc()
    )
    return connection.execute(newest_first.limit(1)).mappings().all()


def _status(connection: sa.Connection, row: sa.RowMapping) -> SweepStatus:
    sweep_id = row["id"]
    counts = (
        sa.select(_Repeat.state, sa.func.count())
        .where(_Repeat.sweep_id == sweep_id)
        .group_by(_Repeat.state)
    )
    return SweepStatus(
        **{name: row[name] for name in ("name", "reason", "command", "started_at", "finished_at")},
        counts=Counter({State(state): num for state, num in connection.execute(counts)}),
        orchestrator=_orchestrator(connection, sweep_id),
        shared=None if row["settings"] is None else status_of(connection, sweep_id),
        running=_running(connection, sweep_id),
        last_finished=_last_finished(connection, sweep_id),
        paces=_paces(connection, sweep_id),
    )


def _orchestrator(connection: sa.Connection, sweep_id: int) -> OrchestratorStatus | None:
    statement = (
        sa.select(*_Orchestrator.__table__.columns, schema.MachineRow.key.label("machine_key"))
        .join(schema.MachineRow, schema.MachineRow.id == _Orchestrator.machine_id)
        .where(_Orchestrator.sweep_id == sweep_id)
        .order_by(_Orchestrator.id.desc())
        .limit(1)
    )
    row = connection.execute(statement).mappings().one_or_none()
    if row is None:
        return None
    told = {name: row[name] for name in ("machine_key", "started_at", "heartbeat_at", "ended_at")}
    return OrchestratorStatus(process=process_of(row), **told)


_LABEL = (_Trial.model, _Trial.strategy, _Trial.num_gpus, _Trial.hosts, _Trial.device_kind)


def _running(connection: sa.Connection, sweep_id: int) -> list[RunningRepeat]:
    attempt = (
        _Repeat.num_attempts.label("attempt"),
        _Repeat.started_at,
        _Repeat.run_dir,
        _Repeat.placement,
    )
    statement = (
        sa.select(_Repeat.trial_id, *_LABEL, _Repeat.repeat, *attempt)
        .join(_Trial, _Trial.id == _Repeat.trial_id)
        .where(_Repeat.sweep_id == sweep_id, _Repeat.state == State.RUNNING)
        .order_by(_Repeat.started_at, _Repeat.id)
    )
    rows: list[dict[str, Any]] = [dict(row) for row in connection.execute(statement).mappings()]
    return [RunningRepeat(**row | {"placement": placement_of(row["placement"])}) for row in rows]


def _last_finished(connection: sa.Connection, sweep_id: int) -> list[FinishedRepeat]:
    end = (
        _Attempt.outcome,
        _Attempt.message,
        schema.MeasurementRow.throughput,
        schema.MeasurementRow.verdict,
    )
    statement = (
        sa.select(
            _Attempt.trial_id,
            *_LABEL,
            _Attempt.repeat,
            _Attempt.attempt,
            *end,
            _Attempt.started_at,
            _Attempt.duration_s,
        )
        .join(_Trial, _Trial.id == _Attempt.trial_id)
        .outerjoin(schema.MeasurementRow, schema.MeasurementRow.attempt_id == _Attempt.id)
        .where(_Attempt.sweep_id == sweep_id, _Attempt.deleted_at.is_(None))
        .order_by(_Attempt.id.desc())
        .limit(NUM_LAST)
    )
    rows: list[dict[str, Any]] = [dict(row) for row in connection.execute(statement).mappings()]
    return [FinishedRepeat(**row | {"outcome": Outcome(row["outcome"])}) for row in rows]


def _paces(connection: sa.Connection, sweep_id: int) -> list[Pace]:
    kind = (_Trial.model, _Trial.num_gpus, _Trial.hosts)
    open_ = (
        sa.select(*kind, sa.func.count())
        .join(_Repeat, _Repeat.trial_id == _Trial.id)
        .where(_Repeat.sweep_id == sweep_id, _Repeat.state.in_(_OPEN))
        .group_by(*kind)
    )
    timed = (
        sa.select(*kind, sa.func.count(), sa.func.avg(_Attempt.duration_s))
        .join(_Attempt, _Attempt.trial_id == _Trial.id)
        .where(
            _Attempt.sweep_id == sweep_id,
            _Attempt.outcome == Outcome.COMPLETED,
            _Attempt.duration_s.is_not(None),
        )
        .where(_Attempt.deleted_at.is_(None))
        .group_by(*kind)
    )
    num_open = {
        (model, num_gpus, hosts): num for model, num_gpus, hosts, num in connection.execute(open_)
    }
    took = {
        (model, num_gpus, hosts): (num, mean_s)
        for model, num_gpus, hosts, num, mean_s in connection.execute(timed)
    }
    return [
        Pace(
            model=model,
            num_gpus=num_gpus,
            hosts=hosts,
            num_open=num_open.get((model, num_gpus, hosts), 0),
            num_timed=num_timed,
            mean_duration_s=mean_s,
        )
        for model, num_gpus, hosts in sorted(num_open.keys() | took.keys())
        for num_timed, mean_s in [took.get((model, num_gpus, hosts), (0, None))]
    ]
