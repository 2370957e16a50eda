"""Changes the states of a sweep's repeats: every change is one transaction, written before it is
acted upon.

```
  pending ──► claimed ──► running ──► completed | failed | out_of_memory | timed_out | hung
     ▲ │                                   │        | unsupported | invalid
     │ └──► skipped                        │ interrupted
     └── tried again ◄─────────────────────┘
```

Whoever changes a claimed or running repeat names itself and the attempt: who was thought dead and
comes back changes nothing.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from enum import Enum, auto
from typing import Any

import sqlalchemy as sa

from scalemark.host.processes import ProcessIdentity
from scalemark.records.attempt import Placement
from scalemark.records.measurement import IN_FLIGHT, Outcome, State
from store import schema
from store.database import reading, writing
from store.errors import StoreError
from store.rows import FinishedAttempt, add_attempts, in_chunks

FINISHED_ELSEWHERE = "enough repeats of it are completed"
KILLED = "its orchestrator was killed"
_Repeat = schema.RepeatRow
_Orchestrator = schema.OrchestratorRow


class ClaimResult(Enum):
    """The answer to asking for a repeat."""

    TAKEN = auto()  # it is ours to run
    BUSY = auto()  # another sweep is running a repeat that would do as well: ask again
    GONE = auto()  # nothing is left to do: another sweep completed it, or took it


class LostError(Exception):
    """Another orchestrator took this one for dead, and may run the same: kill what still runs."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}: another orchestrator took this one for dead; repeat the command")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenRepeat:
    """A repeat that waits to be run."""

    repeat_id: int
    trial_id: str
    repeat: int
    num_attempts: int  # made so far


@dataclass(frozen=True, slots=True, kw_only=True)
class Abandoned:
    """A repeat that a dead orchestrator had claimed or was running."""

    repeat_id: int
    sweep_id: int
    trial_id: str
    repeat: int
    attempt: int
    machine_id: int
    owner: ProcessIdentity
    orchestrator_id: int
    state: State
    started_at: datetime | None  # as what follows, when it was running
    run_dir: str | None
    placement: Placement | None
    pid: int | None  # none when it died between writing and starting
    start_ticks: int | None


@dataclass(eq=False)
class Ledger:
    """The states of one sweep, as the one orchestrator that runs it may change them.

    `wanted_repeats` of each trial are enough, whichever sweep on this machine and software made
    them; None counts none of others. What ran side by side is enough only for a sweep that
    `shares_host` itself. Raises StoreError from every method when the database cannot be used, and
    LostError, with nothing written, where a method says so: when another orchestrator took this one
    for dead.
    """

    engine: sa.Engine
    sweep_id: int
    orchestrator_id: int
    machine_id: int
    software_key: str
    wanted_repeats: int | None
    shares_host: bool

    def open_repeats(self) -> list[OpenRepeat]:
        """Return all that this orchestrator is to run and nobody has claimed, in planned order."""
        links = schema.SweepTrialRow
        statement = (
            sa.select(
                _Repeat.id.label("repeat_id"),
                _Repeat.trial_id,
                _Repeat.repeat,
                _Repeat.num_attempts,
            )
            .join(
                links, (links.sweep_id == _Repeat.sweep_id) & (links.trial_id == _Repeat.trial_id)
            )
            .where(
                _Repeat.sweep_id == self.sweep_id,
                _Repeat.state == State.PENDING,
                _Repeat.orchestrator_id == self.orchestrator_id,
            )
            .order_by(links.position, _Repeat.repeat)
        )
        with reading(self.engine) as connection:
            return [OpenRepeat(**row) for row in connection.execute(statement).mappings()]

    def claim(self, repeat: OpenRepeat) -> ClaimResult:
        """Raises LostError."""
        pending = self._own(repeat.repeat_id, State.PENDING)
        claimed = self._own(repeat.repeat_id, State.CLAIMED)
        with writing(self.engine) as connection:
            self._check_not_ended(connection)
            if connection.scalar(sa.select(_Repeat.id).where(*claimed)) is not None:
                return ClaimResult.TAKEN  # by an earlier try, whose answer was lost
            if self.wanted_repeats is not None:
                missing = self.wanted_repeats - self._num_completed(connection, repeat.trial_id)
                if missing <= 0:
                    change(connection, pending, State.SKIPPED, reason=FINISHED_ELSEWHERE)
                    return ClaimResult.GONE
                if self._num_in_flight(connection, repeat.trial_id) >= missing:
                    return ClaimResult.BUSY
            # of an earlier attempt nothing may seem to run
            taken = change(connection, pending, State.CLAIMED, **NO_ATTEMPT)
        if taken:
            return ClaimResult.TAKEN
        return ClaimResult.GONE

    def run(self, repeat: OpenRepeat, run_dir: str, placement: Placement, at: datetime) -> int:
        """Return the number of the attempt, before its process is started. Raises LostError."""
        attempt = repeat.num_attempts + 1
        claimed = (
            *self._own(repeat.repeat_id, State.CLAIMED),
            _Repeat.num_attempts == repeat.num_attempts,
        )
        begun = (
            *self._own(repeat.repeat_id, State.RUNNING),
            _Repeat.num_attempts == attempt,
            _Repeat.run_dir == run_dir,
        )
        values = {
            "num_attempts": attempt,
            "started_at": at,
            "run_dir": run_dir,
            "placement": asdict(placement),
        }
        with writing(self.engine) as connection:
            changed = change(connection, claimed, State.RUNNING, **NO_ATTEMPT | values)
            # it may have been written before, and the answer was lost
            if not changed and not exists(connection, begun):
                raise LostError(f"repeat {repeat.repeat} of trial {repeat.trial_id[:8]}")
        return attempt

    def started(self, repeat_id: int, pid: int, start_ticks: int) -> None:
        """Write down the process, so that it can be found when this is killed. Raises LostError."""
        running = sa.update(_Repeat).where(*self._own(repeat_id, State.RUNNING))
        with writing(self.engine) as connection:
            changed = connection.execute(running.values(pid=pid, start_ticks=start_ticks))
            if changed.rowcount != 1:
                raise LostError(f"process {pid}")

    def finish(self, repeat_id: int, attempt: FinishedAttempt, *, again: bool = False) -> None:
        """Write the attempt with all it measured, and the repeat's next state: the outcome, or
        pending when it is to be run `again`. Raises LostError.
        """
        running = (*self._own(repeat_id, State.RUNNING), _Repeat.num_attempts == attempt.attempt)
        outcome = State(attempt.result.outcome)
        with writing(self.engine) as connection:
            if not change(connection, running, outcome, **NO_ATTEMPT):
                if self._is_recorded(connection, attempt):
                    return  # by an earlier try, whose answer was lost
                raise LostError(
                    f"attempt {attempt.attempt} of repeat {attempt.repeat} of trial "
                    f"{attempt.trial_id[:8]}"
                )
            if again:
                change(connection, self._own(repeat_id, outcome), State.PENDING)
            add_attempts(connection, self.sweep_id, [(self.machine_id, attempt)])

    def give_back(self, repeat_id: int) -> None:
        """Open a repeat again that was claimed, but not started after all."""
        claimed = self._own(repeat_id, State.CLAIMED)
        with writing(self.engine) as connection:
            change(connection, claimed, State.PENDING)

    def skip(self, repeat_ids: Iterable[int], reason: str) -> None:
        """Skip those of these repeats that are pending; the others are left as they are."""
        own = _Repeat.orchestrator_id == self.orchestrator_id
        pending = (_Repeat.state == State.PENDING, own)
        ids = list(repeat_ids)
        with writing(self.engine) as connection:
            change_all(connection, ids, pending, State.SKIPPED, reason=reason)

    def beat(self, at: datetime) -> None:
        """Tell the others that this orchestrator lives. Raises LostError."""
        with writing(self.engine) as connection:
            self._check_not_ended(connection)
            own = _Orchestrator.id == self.orchestrator_id
            connection.execute(sa.update(_Orchestrator).where(own).values(heartbeat_at=at))

    def end(self, at: datetime, *, finished: bool) -> None:
        """End this orchestrator; `finished`: the sweep has nothing left to run.

        Nothing is written when others have taken this one for dead: the sweep may be another's by
        now.
        """
        own = (_Orchestrator.id == self.orchestrator_id, _Orchestrator.ended_at.is_(None))
        end = sa.update(_Orchestrator).where(*own).values(ended_at=at)
        sweeps = schema.SweepRow
        with writing(self.engine) as connection:
            if connection.execute(end).rowcount == 1 and finished:
                finish = sa.update(sweeps).where(sweeps.id == self.sweep_id)
                connection.execute(finish.values(finished_at=at))

    def _is_recorded(self, connection: sa.Connection, attempt: FinishedAttempt) -> bool:
        """Raises LostError when it may be by who took this one for dead."""
        self._check_not_ended(connection)
        row = schema.AttemptRow
        same = (
            row.sweep_id == self.sweep_id,
            row.trial_id == attempt.trial_id,
            row.repeat == attempt.repeat,
            row.attempt == attempt.attempt,
        )
        return exists(connection, same)

    def _own(self, repeat_id: int, state: State) -> tuple[sa.ColumnElement[bool], ...]:
        return (
            _Repeat.id == repeat_id,
            _Repeat.state == state,
            _Repeat.orchestrator_id == self.orchestrator_id,
        )

    def _check_not_ended(self, connection: sa.Connection) -> None:
        """Raises LostError: nobody would ever close what an ended orchestrator claims."""
        own = _Orchestrator.id == self.orchestrator_id
        if connection.scalar(sa.select(_Orchestrator.ended_at).where(own)) is not None:
            raise LostError(f"orchestrator {self.orchestrator_id}")

    @property
    def _good_enough(self) -> tuple[bool, ...]:
        """The values of `shares_host` whose numbers count for this sweep."""
        if self.shares_host:
            return (False, True)
        return (False,)

    def _num_completed(self, connection: sa.Connection, trial_id: str) -> int:
        attempts, environments = schema.AttemptRow, schema.EnvironmentRow
        statement = (
            sa.select(sa.func.count())
            .select_from(attempts)
            .join(environments, environments.id == attempts.environment_id)
            .where(
                attempts.trial_id == trial_id,
                attempts.outcome == Outcome.COMPLETED,
                attempts.machine_id == self.machine_id,
                environments.software_key == self.software_key,
                attempts.shares_host.in_(self._good_enough),
                attempts.deleted_at.is_(None),
            )
        )
        return connection.scalar(statement) or 0

    def _num_in_flight(self, connection: sa.Connection, trial_id: str) -> int:
        """Count over all sweeps on this machine and software."""
        statement = (
            sa.select(sa.func.count())
            .select_from(_Repeat)
            .join(_Orchestrator, _Orchestrator.id == _Repeat.orchestrator_id)
            .where(
                _Repeat.trial_id == trial_id,
                sa.text(f"repeats.{schema.IN_FLIGHT}"),  # as its index says it
                _Orchestrator.machine_id == self.machine_id,
                _Orchestrator.software_key == self.software_key,
                _Orchestrator.shares_host.in_(self._good_enough),
                _Orchestrator.ended_at.is_(None),  # who has ended completes nothing
            )
        )
        return connection.scalar(statement) or 0


def exists(connection: sa.Connection, which: Sequence[sa.ColumnElement[bool]]) -> bool:
    return bool(connection.scalar(sa.select(sa.exists().where(*which))))


def unended(engine: sa.Engine) -> list[tuple[int, ProcessIdentity, datetime]]:
    """Return orchestrators that did not say that they ended: id, process, last heartbeat."""
    which = _Orchestrator.ended_at.is_(None)
    statement = sa.select(_Orchestrator.__table__).where(which).order_by(_Orchestrator.id)
    with reading(engine) as connection:
        rows = connection.execute(statement)
        return [(row["id"], process_of(row), row["heartbeat_at"]) for row in rows.mappings()]


def abandoned(engine: sa.Engine, orchestrator_ids: Sequence[int]) -> list[Abandoned]:
    """Return what these orchestrators had claimed or were running."""
    owner = [getattr(_Orchestrator, field.name) for field in fields(ProcessIdentity)]
    is_owner = (_Orchestrator.id == _Repeat.orchestrator_id) & (
        _Orchestrator.sweep_id == _Repeat.sweep_id
    )
    statement = (
        sa.select(
            *_Repeat.__table__.columns,
            *(column.label(f"owner_{column.key}") for column in owner),
            _Orchestrator.machine_id,
        )
        .join(_Orchestrator, is_owner)
        .where(_Orchestrator.id.in_(orchestrator_ids), _Repeat.state.in_(IN_FLIGHT))
        .order_by(_Repeat.id)
    )
    with reading(engine) as connection:
        return [_abandoned(row) for row in connection.execute(statement).mappings()]


def close_abandoned(engine: sa.Engine, repeat: Abandoned, finished: FinishedAttempt | None) -> bool:
    """Record what became of it: `finished` is what its run folder held, None when it was not
    running but claimed only.

    What was interrupted or not begun is pending again, for who continues its sweep. False, and
    nothing is written, when somebody else has closed it already.
    """
    as_found = (
        _Repeat.id == repeat.repeat_id,
        _Repeat.orchestrator_id == repeat.orchestrator_id,
        _Repeat.num_attempts == repeat.attempt,
    )
    in_state = (*as_found, _Repeat.state == repeat.state)
    with writing(engine) as connection:
        if repeat.state is State.CLAIMED:
            return change(connection, in_state, State.PENDING)
        if finished is None:
            raise ValueError(f"{repeat}: it was running; wanted what its run folder held")
        outcome = State(finished.result.outcome)
        if not change(connection, in_state, outcome, **NO_ATTEMPT):
            return False
        if outcome is State.INTERRUPTED:
            change(connection, as_found, State.PENDING)
        add_attempts(connection, repeat.sweep_id, [(repeat.machine_id, finished)])
        return True


def refuses_a_row(error: Exception) -> bool:
    """Tell whether an error is about values that were to be stored, not the database itself."""
    cause = error.__cause__ if isinstance(error, StoreError) else error
    if isinstance(cause, sa.exc.ProgrammingError) and getattr(cause.orig, "sqlstate", None):
        return False  # the server says so: a right or a table is missing
    return (
        isinstance(cause, (ValueError, TypeError, OverflowError, *_REFUSALS))
        or type(cause) is sa.exc.StatementError
    )


_REFUSALS = (
    sa.exc.DataError,
    sa.exc.IntegrityError,
    sa.exc.InterfaceError,
    sa.exc.ProgrammingError,
)


def end_abandoned(engine: sa.Engine, orchestrator_ids: Iterable[int], at: datetime) -> None:
    """End orchestrators that were found dead, once what they ran is closed. Who has taken more
    since is left for the next look.
    """
    dead = (
        _Orchestrator.id.in_(list(orchestrator_ids)),
        _Orchestrator.ended_at.is_(None),
        ~has_in_flight(),
    )
    with writing(engine) as connection:
        connection.execute(sa.update(_Orchestrator).where(*dead).values(ended_at=at))


def has_in_flight() -> sa.Exists:
    """Build the condition that a row of `orchestrators` has claimed, or is running, anything."""
    return sa.exists().where(
        _Repeat.sweep_id == _Orchestrator.sweep_id,
        _Repeat.state.in_(IN_FLIGHT),
        _Repeat.orchestrator_id == _Orchestrator.id,
    )


NO_ATTEMPT: dict[str, Any] = dict.fromkeys(
    ("started_at", "run_dir", "placement", "pid", "start_ticks")
)


def placement_of(stored: dict[str, Any] | None) -> Placement | None:
    """Read the column of `repeats`: JSON has no tuples."""
    if not stored:
        return None
    values: dict[str, Any] = {}
    for name, value in stored.items():
        values[name] = tuple(value) if isinstance(value, list) else value
    return Placement(**values)


def process_of(row: Mapping[Any, Any], prefix: str = "") -> ProcessIdentity:
    """Read a row of `orchestrators`."""
    return ProcessIdentity(
        **{field.name: row[prefix + field.name] for field in fields(ProcessIdentity)}
    )


_SAME_NAMED = (
    *("sweep_id", "trial_id", "repeat", "machine_id", "orchestrator_id", "started_at", "run_dir"),
    *("pid", "start_ticks"),
)


def _abandoned(row: Mapping[Any, Any]) -> Abandoned:
    return Abandoned(
        **{name: row[name] for name in _SAME_NAMED},
        repeat_id=row["id"],
        attempt=row["num_attempts"],
        owner=process_of(row, "owner_"),
        state=State(row["state"]),
        placement=placement_of(row["placement"]),
    )


def change(
    connection: sa.Connection,
    which: Sequence[sa.ColumnElement[bool]],
    state: State,
    **values: Any,
) -> bool:
    """Give a state and other values to repeats for which `which` holds; False without any."""
    statement = sa.update(_Repeat).where(*which).values(state=state, **values)
    return connection.execute(statement).rowcount > 0


def change_all(
    connection: sa.Connection,
    repeat_ids: Sequence[int],
    which: Sequence[sa.ColumnElement[bool]],
    state: State,
    **values: Any,
) -> None:
    """Change many repeats, as `change` does."""
    for ids in in_chunks(repeat_ids):
        change(connection, (_Repeat.id.in_(ids), *which), state, **values)


def num_in_states(connection: sa.Connection, sweep_id: int) -> Counter[State]:
    """Count the repeats of a sweep."""
    counts = sa.select(_Repeat.state, sa.func.count()).where(_Repeat.sweep_id == sweep_id)
    rows = connection.execute(counts.group_by(_Repeat.state))
    return Counter({State(state): num for state, num in rows})
