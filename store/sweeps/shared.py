"""Lets agents on many hosts share a sweep through one PostgreSQL database: each claims what it
runs, under a lease.

```
  controller: opens repeats ──► pending, nobody's ──► claimed ──► running ──► completed | ...
                                       ▲          agent     │        │
                                       └── given back, lease over, or interrupted
```

A lease is `orchestrators.heartbeat_at`, written and judged by the database's clock alone: clocks of
hosts may differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from scalemark.host.processes import HEARTBEAT_TIMEOUT
from scalemark.records.attempt import Placement, ProcessIdentity
from scalemark.records.outcomes import IN_FLIGHT, State
from scalemark.records.trial import TrialSpec, width_name
from store import schema
from store.database import reading, writing
from store.engine import SCALEMARK_BESIDE_OTHERS
from store.errors import StoreError
from store.sweeps.ledger import (
    FINISHED_ELSEWHERE,
    KILLED,
    NO_ATTEMPT,
    NOT_STARTED,
    Claim,
    Ledger,
    LostError,
    OpenRepeat,
    exists,
    process_of,
)
from store.sweeps.repeat_states import CONTINUED, change, change_all, num_in_states

# notes on orchestrators that others ended
LEASE_OVER = "gave no sign for as long as its lease: it was taken for dead"
SEEN_DEAD = "was seen on its host not to run any more"
OPEN = (State.PENDING, State.CLAIMED, State.RUNNING)
CLOSER_HAS_S = 30.0  # to record what the dead had: then others do it
_Repeat, _Orchestrator, _Trial, _Sweep = (
    schema.RepeatRow,
    schema.OrchestratorRow,
    schema.TrialRow,
    schema.SweepRow,
)

DATABASE_TIME = sa.func.timezone("utc", sa.func.clock_timestamp(), type_=schema.UtcDateTime())
"""The clock of the database, at the moment at which it is asked."""

SILENT_S = sa.cast(sa.extract("epoch", DATABASE_TIME - _Orchestrator.heartbeat_at), sa.Double)
"""Seconds since the last sign of a row of `orchestrators`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenRepeat(OpenRepeat):
    """A repeat that is claimed already."""

    spec: TrialSpec


class SharedLedger(Ledger):
    """The states of a shared sweep, as its controller or one of its agents may change them.

    Claims do not wait for each other: two sweeps that ask for the same trial at the same moment may
    measure it once too often.
    """

    def __init__(
        self,
        engine: sa.Engine,
        *,
        name: str,
        settings: Mapping[str, Any],
        sweep_id: int,
        orchestrator_id: int,
        machine_id: int,
        shares_host: bool,
    ) -> None:
        super().__init__(
            engine,
            sweep_id=sweep_id,
            orchestrator_id=orchestrator_id,
            machine_id=machine_id,
            software_key=settings["software_key"],
            wanted_repeats=settings["wanted_repeats"],
            shares_host=shares_host,
        )
        self.sweep_name, self.settings = name, settings  # as the controller stored them
        self.lease_s = lease_s(settings)
        self._states = beside_others(engine)
        self._taken: set[int] = set()  # and not asked for by `claim` yet
        # that are neither run nor given back yet, as far as is known here
        self._claimed: set[int] = set()

    def take(self, most_gpus: int, hosts: int = 1) -> TakenRepeat | None:
        """Claim the next repeat, in the planned order, of a trial of that many hosts with
        `most_gpus` or fewer over all of them.

        None when there is none now: others may still give theirs back. Raises LostError.
        """
        wanted = {
            "most_gpus": most_gpus,
            "hosts": hosts,
            "me": self.orchestrator_id,
            "heartbeat_timeout_s": HEARTBEAT_TIMEOUT.total_seconds(),
            **self._enough,
        }
        at_once = self._states.execution_options(isolation_level="AUTOCOMMIT")
        while True:
            try:
                with writing(at_once) as connection:
                    row = connection.execute(_TAKE, wanted).one()
                break
            except IntegrityError:
                # while the statement looked for it, somebody had it and gave it back: its events
                # have gone on
                continue
        if not row.is_alive:
            raise LostError(f"orchestrator {self.orchestrator_id}")
        if row.id is None:
            return None
        self._taken.add(row.id)
        self._claimed.add(row.id)
        return TakenRepeat(
            repeat_id=row.id,
            trial_id=row.trial_id,
            repeat=row.repeat,
            num_attempts=row.num_attempts,
            spec=TrialSpec.from_json(row.spec),
        )

    def claim(self, repeat: OpenRepeat, at: datetime) -> Claim:
        """Confirm what was taken: it is ours already. What is to be tried again is claimed again.
        Raises LostError.
        """
        if repeat.repeat_id in self._taken:
            self._taken.discard(repeat.repeat_id)
            return Claim.TAKEN
        pending = self._own(repeat.repeat_id, State.PENDING)
        with writing(self._states) as connection:
            self._check_not_ended(connection)
            taken = change(connection, pending, State.CLAIMED, at, **NO_ATTEMPT)
            # it may have been written before, and the answer was lost
            taken = taken or exists(connection, self._own(repeat.repeat_id, State.CLAIMED))
        if not taken:
            return Claim.GONE
        self._claimed.add(repeat.repeat_id)
        return Claim.TAKEN

    def run(self, repeat: OpenRepeat, run_dir: str, placement: Placement, at: datetime) -> int:
        attempt = super().run(repeat, run_dir, placement, at)
        self._claimed.discard(repeat.repeat_id)
        return attempt

    def give_back(self, repeat_id: int, at: datetime) -> None:
        """Open a repeat to other agents that was taken, but not started after all. What cannot be
        written now, a later `beat` writes.
        """
        self._taken.discard(repeat_id)
        self._claimed.discard(repeat_id)
        claimed = self._own(repeat_id, State.CLAIMED)
        with writing(self._states) as connection:
            change(connection, claimed, State.PENDING, at, NOT_STARTED, **_NOBODYS)

    def leave_to_others(self, repeat_id: int) -> None:
        """Open a repeat to other agents that was to be tried again here."""
        pending = self._own(repeat_id, State.PENDING)
        with writing(self._states) as connection:
            connection.execute(sa.update(_Repeat).where(*pending).values(_NOBODYS))

    def beat(self, at: datetime) -> None:
        """Renew the lease, by the database's clock. Raises LostError when it was over and others
        have noticed.

        What is claimed for this one without its knowledge, as when the answer of the database was
        lost, is given back.
        """
        unknown = (
            _Repeat.orchestrator_id == self.orchestrator_id,
            _Repeat.state == State.CLAIMED,
            _Repeat.sweep_id == self.sweep_id,
            _Repeat.id.not_in(self._claimed),
        )
        with writing(self._states) as connection:
            if not self._changed_myself(connection, heartbeat_at=DATABASE_TIME):
                raise LostError(f"orchestrator {self.orchestrator_id}")
            change(connection, unknown, State.PENDING, at, NOT_STARTED, **_NOBODYS)

    def end(self, at: datetime, *, finished: bool) -> None:
        """End this one: what it has is open to others. The sweep is finished when it has nothing
        left.
        """
        claimed = (_Repeat.orchestrator_id == self.orchestrator_id, _Repeat.state == State.CLAIMED)
        is_open = sa.exists().where(_Repeat.sweep_id == self.sweep_id, _Repeat.state.in_(OPEN))
        with writing(self.engine) as connection:
            if not self._changed_myself(connection, ended_at=DATABASE_TIME):
                return
            change(connection, claimed, State.PENDING, at, NOT_STARTED, **_NOBODYS)
            open_what_the_ended_have(connection, self.sweep_id)
            if finished:
                done = sa.update(_Sweep).where(_Sweep.id == self.sweep_id, ~is_open)
                connection.execute(done.values(finished_at=DATABASE_TIME))

    def _changed_myself(self, connection: sa.Connection, **values: Any) -> bool:
        """Change the row of this orchestrator; False when somebody has ended it."""
        own = (_Orchestrator.id == self.orchestrator_id, _Orchestrator.ended_at.is_(None))
        changed = connection.execute(sa.update(_Orchestrator).where(*own).values(values))
        return changed.rowcount == 1

    def tell(self, note: str) -> None:
        """Write down what people see beside this one: `orchestrators.note`."""
        own = _Orchestrator.id == self.orchestrator_id
        with writing(self._states) as connection:
            connection.execute(sa.update(_Orchestrator).where(own).values(note=note))

    def _interrupted(self, connection: sa.Connection, repeat_id: int, at: datetime) -> None:
        """Open it to other agents."""
        interrupted = self._own(repeat_id, State.INTERRUPTED)
        detail = "its agent was stopped"
        change(connection, interrupted, State.PENDING, at, detail, **_NOBODYS)

    def _check_not_ended(self, connection: sa.Connection) -> None:
        """Raises LostError. Who ends it waits until this transaction is through, and then finds
        what it has claimed.
        """
        own = sa.select(_Orchestrator.ended_at).where(_Orchestrator.id == self.orchestrator_id)
        if connection.scalar(own.with_for_update(read=True)) is not None:
            raise LostError(f"orchestrator {self.orchestrator_id}")

    @property
    def _may_skip(self) -> sa.ColumnElement[bool]:
        nobodys = _Repeat.orchestrator_id.is_(None) & (_Repeat.sweep_id == self.sweep_id)
        return super()._may_skip | nobodys

    @property
    def _enough(self) -> dict[str, Any]:
        """The parameters of statements that count what is enough."""
        return {
            "sweep": self.sweep_id,
            "wanted_repeats": self._wanted_repeats,
            "shares_host": self._shares_host,
            "machine": self.machine_id,
            "software_key": self._software_key,
        }

    def skip_enough(self) -> None:
        """Skip what other sweeps have completed meanwhile, of all that waits."""
        if self._wanted_repeats is None:
            return
        nobodys = (_Repeat.orchestrator_id.is_(None), _Repeat.state == State.PENDING)
        at, why = datetime.now(UTC), FINISHED_ELSEWHERE
        with writing(self._states) as connection:
            found = list(connection.scalars(_COMPLETED_ELSEWHERE, self._enough))
            change_all(connection, found, nobodys, State.SKIPPED, at, why, reason=why)


_NUM_COMPLETED = """(SELECT count(*)
        FROM attempts JOIN environments ON environments.id = attempts.environment_id
        WHERE attempts.trial_id = repeats.trial_id AND attempts.outcome = 'completed'
              AND attempts.machine_id = :machine AND environments.software_key = :software_key
              AND attempts.deleted_at IS NULL AND (:shares_host OR NOT attempts.shares_host))"""

_NUM_IN_FLIGHT = """(SELECT count(*)
        FROM repeats AS others JOIN orchestrators ON orchestrators.id = others.orchestrator_id
        WHERE others.trial_id = repeats.trial_id AND others.state IN ('claimed', 'running')
              AND orchestrators.machine_id = :machine
              AND orchestrators.software_key = :software_key AND orchestrators.ended_at IS NULL
              AND (:shares_host OR NOT orchestrators.shares_host)
              AND extract(epoch FROM timezone('utc', clock_timestamp())
                          - orchestrators.heartbeat_at)
                  <= coalesce(orchestrators.lease_s, :heartbeat_timeout_s))"""

_WAITING = f"repeats.sweep_id = :sweep AND repeats.{schema.WAITING}"

# One statement claims, writes the event and says what it is. FOR SHARE: who ends this orchestrator
# waits, and then finds what it took. SKIP LOCKED: others are taking what is locked.
_TAKE = sa.text(f"""
WITH alive AS (
  SELECT id FROM orchestrators WHERE id = :me AND ended_at IS NULL FOR SHARE
), following AS (
  SELECT repeats.id FROM repeats JOIN trials ON trials.id = repeats.trial_id
  WHERE {_WAITING} AND trials.num_gpus <= :most_gpus AND trials.hosts = :hosts
        AND EXISTS (SELECT 1 FROM alive)
        AND (CAST(:wanted_repeats AS integer) IS NULL
             OR {_NUM_COMPLETED} + {_NUM_IN_FLIGHT} < :wanted_repeats)
  ORDER BY repeats.turn LIMIT 1 FOR UPDATE OF repeats SKIP LOCKED
), taken AS (
  UPDATE repeats
  SET state = 'claimed', orchestrator_id = :me,
      started_at = NULL, run_dir = NULL, placement = NULL, pid = NULL, start_ticks = NULL
  FROM following WHERE repeats.id = following.id
  RETURNING repeats.id, repeats.trial_id, repeats.repeat, repeats.num_attempts
), recorded AS (
  INSERT INTO events (repeat_id, number, at_unix_us, attempt, state, detail)
  SELECT taken.id, (SELECT coalesce(max(number), 0) + 1 FROM events WHERE repeat_id = taken.id),
         extract(epoch FROM clock_timestamp()) * 1000000, taken.num_attempts, 'claimed', ''
  FROM taken
)
SELECT EXISTS (SELECT 1 FROM alive) AS is_alive, taken.*, trials.spec
FROM (SELECT 1) AS one LEFT JOIN taken ON true LEFT JOIN trials ON trials.id = taken.trial_id
""").columns(spec=schema.TrialRow.__table__.c.spec.type)

_COMPLETED_ELSEWHERE = sa.text(f"""
SELECT repeats.id FROM repeats WHERE {_WAITING} AND {_NUM_COMPLETED} >= :wanted_repeats
FOR UPDATE OF repeats SKIP LOCKED
""")

_NOBODYS: dict[str, Any] = {"orchestrator_id": None}


def beside_others(engine: sa.Engine) -> sa.Engine:
    """Return the engine so that its transactions do not wait for others that write."""
    return engine.execution_options(**{SCALEMARK_BESIDE_OTHERS: True})


def check_can_share(engine: sa.Engine) -> None:
    """Raise StoreError for a file."""
    if engine.dialect.name != "postgresql":
        raise StoreError(
            f"{engine.url.database}: a SQLite file, whose locks reach the processes of one host; "
            "hosts that share a sweep want a server: store.url=postgresql://USER@HOST/NAME"
        )


# Leases


def processes(engine: sa.Engine, sweep_id: int) -> list[tuple[int, ProcessIdentity]]:
    """Return orchestrators of a shared sweep that have not said that they ended."""
    which = (_Orchestrator.sweep_id == sweep_id, _Orchestrator.ended_at.is_(None))
    statement = sa.select(_Orchestrator.__table__).where(*which).order_by(_Orchestrator.id)
    with reading(engine) as connection:
        rows = connection.execute(statement).mappings()
        return [(row["id"], process_of(row)) for row in rows]


def end_dead(engine: sa.Engine, sweep_id: int, dead: Sequence[int] = ()) -> list[int]:
    """End orchestrators whose lease is over, and those that were seen to be `dead`: from now on
    they can take nothing. Returns their ids.

    What they were to try again is open to others.
    """
    unended = (_Orchestrator.sweep_id == sweep_id, _Orchestrator.ended_at.is_(None))
    note = _Orchestrator.note
    ended: list[int] = []
    with writing(beside_others(engine)) as connection:
        for which, why in (
            (_Orchestrator.id.in_(dead), SEEN_DEAD),
            (_Orchestrator.lease_s < SILENT_S, LEASE_OVER),
        ):
            # what it said of itself stays
            noted = sa.case((note == "", why), else_=note + f"; {why}")
            end = sa.update(_Orchestrator).where(*unended, which)
            end_noted = end.values(ended_at=DATABASE_TIME, note=noted)
            ended += connection.scalars(end_noted.returning(_Orchestrator.id))
        open_what_the_ended_have(connection, sweep_id)
    return ended


def ended_with_something_in_flight(
    engine: sa.Engine, sweep_id: int, just_ended: Sequence[int]
) -> list[int]:
    """Return those of `just_ended`, and those that another process ended and had the time to close,
    but came no further.
    """
    busy = sa.select(_Repeat.orchestrator_id).where(
        _Repeat.sweep_id == sweep_id, _Repeat.state.in_(IN_FLIGHT)
    )
    ended_s = sa.cast(sa.extract("epoch", DATABASE_TIME - _Orchestrator.ended_at), sa.Double)
    is_late = ended_s > sa.func.least(CLOSER_HAS_S, _Orchestrator.lease_s)
    which = (_Orchestrator.id.in_(busy), _Orchestrator.id.in_(just_ended) | is_late)
    ended = sa.select(_Orchestrator.id).where(*which).order_by(_Orchestrator.id)
    with reading(engine) as connection:
        return list(connection.scalars(ended))


def open_what_the_ended_have(connection: sa.Connection, sweep_id: int) -> None:
    """Open pending repeats that ended orchestrators were to try again."""
    ended = sa.select(_Orchestrator.id).where(
        _Orchestrator.sweep_id == sweep_id, _Orchestrator.ended_at.is_not(None)
    )
    theirs = (
        _Repeat.sweep_id == sweep_id,
        _Repeat.state == State.PENDING,
        _Repeat.orchestrator_id.in_(ended),
    )
    connection.execute(sa.update(_Repeat).where(*theirs).values(_NOBODYS))


def num_killed(engine: sa.Engine, repeat_id: int) -> int:
    """Count how often the process that ran this repeat was killed, since the sweep was last
    continued by hand.
    """
    events = schema.EventRow
    of_repeat = events.repeat_id == repeat_id
    continued = sa.select(sa.func.coalesce(sa.func.max(events.number), 0)).where(
        of_repeat, events.detail == CONTINUED
    )
    killed = (events.state == State.INTERRUPTED, events.detail == KILLED)
    since = events.number > continued.scalar_subquery()
    count = sa.select(sa.func.count()).select_from(events).where(of_repeat, *killed, since)
    with reading(engine) as connection:
        return connection.scalar(count) or 0


def unsettled_sweeps(engine: sa.Engine) -> list[int]:
    """Return shared sweeps with an orchestrator that has not ended, or something in flight."""
    unended = sa.exists().where(
        _Orchestrator.sweep_id == _Sweep.id, _Orchestrator.ended_at.is_(None)
    )
    busy = sa.exists().where(_Repeat.sweep_id == _Sweep.id, _Repeat.state.in_(IN_FLIGHT))
    which = (_Sweep.settings.is_not(None), unended | busy)
    with reading(engine) as connection:
        return list(connection.scalars(sa.select(_Sweep.id).where(*which).order_by(_Sweep.id)))


def lease_s(settings: Mapping[str, Any] | None) -> float:
    """Return the lease in `sweeps.settings`. Raises ValueError for a sweep that is not shared."""
    if settings is None or "lease_s" not in settings:
        raise ValueError(f"settings of a sweep: {settings}; wanted those of a shared one")
    return float(settings["lease_s"])


# Status


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentStatus:
    """An orchestrator of a shared sweep: its controller, or an agent."""

    orchestrator_id: int
    process: ProcessIdentity  # with its host
    is_controller: bool
    started_at: datetime
    ended_at: datetime | None
    silent_s: float  # since its last sign, by the database's clock
    lease_s: float  # that it joined with
    note: str
    running: tuple[str, ...]  # what it has in flight, as "trivial-replicated_none-x2 repeat 1"


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedStatus:
    """The progress of a shared sweep."""

    counts: Mapping[State, int]  # repeats; states that none has are left out
    # with the controllers, all there were, in the order in which they came
    agents: tuple[AgentStatus, ...]
    lease_s: float

    @property
    def is_settled(self) -> bool:
        return not any(self.counts.get(state) for state in OPEN)

    def is_alive(self, agent: AgentStatus) -> bool:
        """Judge by its lease alone."""
        return agent.ended_at is None and agent.silent_s <= agent.lease_s


def shared_status(engine: sa.Engine, sweep_id: int) -> SharedStatus:
    """Raises ValueError for a sweep that is not shared."""
    with reading(engine) as connection:
        return status_of(connection, sweep_id)


def status_of(connection: sa.Connection, sweep_id: int) -> SharedStatus:
    """Do as `shared_status`, in a view of the database that is there."""
    stored = connection.scalar(sa.select(_Sweep.settings).where(_Sweep.id == sweep_id))
    lease, controllers = lease_s(stored), (stored or {}).get("controllers", ())
    statement = sa.select(_Orchestrator.__table__, SILENT_S.label("silent_s")).where(
        _Orchestrator.sweep_id == sweep_id
    )
    running = _running(connection, sweep_id)
    agents = []
    for row in connection.execute(statement.order_by(_Orchestrator.id)).mappings():
        agent = AgentStatus(
            orchestrator_id=row["id"],
            process=process_of(row),
            is_controller=row["id"] in controllers,
            started_at=row["started_at"],
            ended_at=row["ended_at"],
            silent_s=row["silent_s"],
            lease_s=row["lease_s"],
            note=row["note"],
            running=tuple(running.get(row["id"], ())),
        )
        agents.append(agent)
    counts = num_in_states(connection, sweep_id)
    return SharedStatus(counts=counts, agents=tuple(agents), lease_s=lease)


def _running(connection: sa.Connection, sweep_id: int) -> dict[int | None, list[str]]:
    """Return what each orchestrator has in flight."""
    label = (_Trial.model, _Trial.strategy, _Trial.num_gpus, _Trial.hosts, _Repeat.repeat)
    statement = (
        sa.select(_Repeat.orchestrator_id, *label)
        .join(_Trial, _Trial.id == _Repeat.trial_id)
        .where(_Repeat.sweep_id == sweep_id, _Repeat.state.in_(IN_FLIGHT))
        .order_by(_Repeat.id)
    )
    found: dict[int | None, list[str]] = {}
    for owner, model, strategy, num_gpus, hosts, repeat in connection.execute(statement):
        one = f"{model}-{strategy}-{width_name(num_gpus, hosts)} repeat {repeat}"
        found.setdefault(owner, []).append(one)
    return found
