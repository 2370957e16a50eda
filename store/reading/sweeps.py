"""Reads the sweeps of a database: how far they are, what they asked for, and what they left."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from statistics import fmean
from typing import Any

import sqlalchemy as sa

from scalemark.host.processes import ProcessIdentity, is_alive
from scalemark.records.attempt import Placement
from scalemark.records.machine import DeviceKind
from scalemark.records.measurement import Outcome, State
from scalemark.records.references import Origin
from scalemark.records.trial import width_name
from store.database import reading
from store.filters import attempt_ids, deleted_at, repeat_conditions
from store.ledger import num_in_states, placement_of, process_of
from store.reading.queries import Row, check_sweep, columns_of, rows_of, selected
from store.schema import (
    AttemptRow,
    LeftOutRow,
    MeasurementRow,
    OrchestratorRow,
    RepeatRow,
    SweepRow,
    SweepTrialRow,
    TagRow,
    TrialRow,
)


def measured_by(connection: sa.Connection, sweep: str) -> Sequence[str]:
    """Return the sweeps that have attempts of the trials that one asked for, the newest first."""
    asked = sa.select(SweepTrialRow.trial_id).join(SweepRow, SweepRow.id == SweepTrialRow.sweep_id)
    attempts = sa.select(AttemptRow.sweep_id).where(
        AttemptRow.trial_id.in_(asked.where(SweepRow.name == sweep)), deleted_at(False)
    )
    names = sa.select(SweepRow.name).where(SweepRow.id.in_(attempts))
    return connection.scalars(names.order_by(SweepRow.id.desc()).limit(NUM_LAST)).all()


NUM_LAST = 5
_OPEN = (State.PENDING, State.CLAIMED, State.RUNNING)
_LABEL = tuple(columns_of(TrialRow, "model strategy num_gpus hosts device_kind").values())


class SweepState(StrEnum):
    """The state of a sweep."""

    RUNNING = "running"
    FINISHED = "finished"
    ENDED = "ended"  # with something left to run
    KILLED = "killed"


@dataclass(frozen=True, slots=True, kw_only=True)
class OrchestratorStatus:
    """The process that runs a sweep, or did last. Only its host can tell whether it was killed."""

    process: ProcessIdentity
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
        simulated = ""
        if self.device_kind == DeviceKind.SIMULATED_GPU:
            simulated = "simulated "
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
        if is_program:
            return self.command
        return f"python {self.command}"

    @property
    def eta_s(self) -> float | None:
        """The seconds left, with as many at a time as run now."""
        if self.left_s is None:
            return None
        return self.left_s / max(1, len(self.running))

    @property
    def state(self) -> SweepState:
        """Judge by the processes on this host."""
        if self.finished_at is not None:
            return SweepState.FINISHED
        runner = self.orchestrator
        if runner is None or runner.ended_at is not None:
            return SweepState.ENDED
        alive = is_alive(runner.process, runner.heartbeat_at)
        if alive:
            return SweepState.RUNNING
        return SweepState.KILLED


def sweep_status(engine: sa.Engine, sweep: str | None = None) -> list[SweepStatus]:
    """Return the status of a sweep; without a name, of all that have an orchestrator which has not
    ended, else of the newest, if any.

    Raises StoreError when there is no such sweep.
    """
    with reading(engine) as connection:
        if sweep is not None:
            check_sweep(connection, sweep)
        return [_status(connection, row) for row in _chosen(connection, sweep)]


def _chosen(connection: sa.Connection, sweep: str | None) -> list[dict[str, Any]]:
    statement = sa.select(SweepRow.__table__)
    if sweep is not None:
        return rows_of(connection, statement.where(SweepRow.name == sweep))
    unended = sa.select(OrchestratorRow.sweep_id).where(OrchestratorRow.ended_at.is_(None))
    running = rows_of(connection, statement.where(SweepRow.id.in_(unended)).order_by(SweepRow.id))
    if running:
        return running
    last_begun = (
        sa.select(sa.func.max(OrchestratorRow.started_at))
        .where(OrchestratorRow.sweep_id == SweepRow.id)
        .scalar_subquery()
    )
    begun = sa.func.coalesce(last_begun, SweepRow.started_at)
    return rows_of(connection, statement.order_by(begun.desc(), SweepRow.id.desc()).limit(1))


def _status(connection: sa.Connection, row: dict[str, Any]) -> SweepStatus:
    sweep_id = row["id"]
    newest = sa.select(OrchestratorRow.__table__).order_by(OrchestratorRow.id.desc()).limit(1)
    orchestrator = None
    for runner in rows_of(connection, newest.where(OrchestratorRow.sweep_id == sweep_id)):
        orchestrator = OrchestratorStatus(
            process=process_of(runner),
            heartbeat_at=runner["heartbeat_at"],
            ended_at=runner["ended_at"],
        )
    running = []
    for repeat in rows_of(connection, _RUNNING.where(RepeatRow.sweep_id == sweep_id)):
        repeat["placement"] = placement_of(repeat["placement"])
        running.append(RunningRepeat(**repeat))
    last_finished = []
    for repeat in rows_of(connection, _LAST_FINISHED.where(AttemptRow.sweep_id == sweep_id)):
        repeat["outcome"] = Outcome(repeat["outcome"])
        last_finished.append(FinishedRepeat(**repeat))
    named = ("name", "reason", "command", "started_at", "finished_at")
    return SweepStatus(
        **{name: row[name] for name in named},
        counts=num_in_states(connection, sweep_id),
        orchestrator=orchestrator,
        running=running,
        last_finished=last_finished,
        left_s=_left_s(connection, sweep_id),
    )


_RUNNING = (
    sa.select(
        *columns_of(RepeatRow, "trial_id repeat started_at run_dir placement").values(),
        *_LABEL,
        RepeatRow.num_attempts.label("attempt"),
    )
    .join(TrialRow, TrialRow.id == RepeatRow.trial_id)
    .where(RepeatRow.state == State.RUNNING)
    .order_by(RepeatRow.started_at, RepeatRow.id)
)
_LAST_FINISHED = (
    sa.select(
        *columns_of(AttemptRow, "trial_id repeat attempt outcome message").values(),
        *_LABEL,
        *columns_of(MeasurementRow, "throughput item verdict").values(),
        *columns_of(AttemptRow, "started_at duration_s").values(),
    )
    .join(TrialRow, TrialRow.id == AttemptRow.trial_id)
    .outerjoin(MeasurementRow, MeasurementRow.attempt_id == AttemptRow.id)
    .where(AttemptRow.deleted_at.is_(None))
    .order_by(AttemptRow.id.desc())
    .limit(NUM_LAST)
)


def _left_s(connection: sa.Connection, sweep_id: int) -> float | None:
    """Return the seconds that the open repeats would take one after the other."""
    kind = (TrialRow.model, TrialRow.num_gpus, TrialRow.hosts)
    timed = (
        sa.select(*kind, sa.func.avg(AttemptRow.duration_s))
        .join(AttemptRow, AttemptRow.trial_id == TrialRow.id)
        .where(
            AttemptRow.sweep_id == sweep_id,
            AttemptRow.outcome == Outcome.COMPLETED,
            AttemptRow.duration_s.is_not(None),
            AttemptRow.deleted_at.is_(None),
        )
        .group_by(*kind)
    )
    waiting = (
        sa.select(*kind, sa.func.count())
        .join(RepeatRow, RepeatRow.trial_id == TrialRow.id)
        .where(RepeatRow.sweep_id == sweep_id, RepeatRow.state.in_(_OPEN))
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


def newest_sweeps(connection: sa.Connection, most: int, origin: str | None = None) -> list[str]:
    """Return the names of the sweeps made last, the newest first, that asked for `origin`."""
    names = sa.select(SweepRow.name).order_by(SweepRow.id.desc()).limit(most)
    if origin is not None:
        is_simulated = TrialRow.device_kind == DeviceKind.SIMULATED_GPU
        of_origin = is_simulated if origin == Origin.SIMULATED else ~is_simulated
        asked = sa.select(SweepTrialRow.sweep_id).join(TrialRow)
        names = names.where(SweepRow.id.in_(asked.where(of_origin)))
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
        num_left = dict(connection.execute(left.group_by(RepeatRow.trial_id)).all())
        ended_later = sa.select(AttemptRow.trial_id, sa.func.count()).where(
            AttemptRow.sweep_id > row.id,
            AttemptRow.outcome != Outcome.INTERRUPTED,
            deleted_at(False),
        )
        num_later = dict(connection.execute(ended_later.group_by(AttemptRow.trial_id)).all())
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


def sweeps(engine: sa.Engine, names: Sequence[str]) -> list[Row]:
    """Return the sweeps of these names, oldest first, with `left_out`: overrides and reason of each
    cell that was left out.
    """
    columns = columns_of(SweepRow, "id name reason command started_at finished_at origin")
    statement = sa.select(*columns.values()).where(SweepRow.name.in_(names)).order_by(SweepRow.id)
    rows = selected(engine, statement)
    for sweep in rows:
        cells = sa.select(LeftOutRow.overrides, LeftOutRow.reason).where(
            LeftOutRow.sweep_id == sweep["id"]
        )
        sweep["left_out"] = selected(engine, cells.order_by(LeftOutRow.overrides))
    return rows


ACCEPTED = "accepted"
"""The tag of a sweep whose throughput is intended from then on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BegunSweep:
    """What histories need of a sweep."""

    name: str
    started_at: datetime
    is_accepted: bool  # it has the tag


def begun_sweeps(connection: sa.Connection) -> dict[int, BegunSweep]:
    """Return all sweeps by their ids."""
    is_accepted = SweepRow.id.in_(sa.select(TagRow.sweep_id).where(TagRow.tag == ACCEPTED))
    statement = sa.select(SweepRow.id, SweepRow.name, SweepRow.started_at, is_accepted)
    sweeps_begun = {}
    for sweep_id, name, started_at, accepted in connection.execute(statement):
        sweeps_begun[sweep_id] = BegunSweep(
            name=name, started_at=started_at, is_accepted=bool(accepted)
        )
    return sweeps_begun
