"""Sweeps that agents on many hosts share through one PostgreSQL database: each claims what it runs,
under a lease.

```
  controller: opens repeats ──►  pending, nobody's  ──► claimed ──► running ──► completed | failed | ...
                                        ▲          agent      │        │
                                        └── given back, or its lease is over, or it was interrupted
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

from scalemark.host.process_identity import SILENT_FOR
from scalemark.records.outcomes import IN_FLIGHT, State
from scalemark.records.placement import Placement, ProcessIdentity
from scalemark.records.trial import TrialSpec, width_name
from store import schema
from store.database import reading, writing
from store.engine import SCALEMARK_BESIDE_OTHERS
from store.errors import StoreError
from store.sweeps.ledger import (
    FINISHED_ELSEWHERE,
    KILLED,
    NO_ATTEMPT,
    Claim,
    Ledger,
    LostError,
    OpenRepeat,
    process_of,
)
from store.sweeps.repeat_states import CONTINUED, change, change_all

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
"""By the clock of the database, at the moment at which it is asked."""

SILENT_S = sa.cast(sa.extract("epoch", DATABASE_TIME - _Orchestrator.heartbeat_at), sa.Double)
"""Of a row of `orchestrators`: seconds since its last sign."""


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
        """`settings`: of the sweep's row."""
        super().__init__(
            engine,
            sweep_id=sweep_id,
            orchestrator_id=orchestrator_id,
            machine_id=machine_id,
            software_key=settings["software_key"],
            wanted_repeats=settings["wanted_repeats"],
            shares_host=shares_host,
        )
        self._states = beside_others(engine)
        self._at_once = self._states.execution_options(isolation_level="AUTOCOMMIT")
        self.sweep_name, self.settings = name, settings  # what its controller wrote down for agents
        self.lease_s = lease_s(settings)
        self._taken: set[int] = set()  # and not asked for by `claim` yet
        # that are neither run nor given back yet, as far as is known here
        self._claimed: set[int] = set()

    def take(self, most_gpus: int, hosts: int = 1) -> TakenRepeat | None:
        """Claims the next repeat, in the planned order, of a trial of that many hosts with
        `most_gpus` or fewer over all of them.

        None when there is none now: others may still give theirs back. Raises LostError.
        """
        wanted = {
            "most_gpus": most_gpus,
            "hosts": hosts,
            "sweep": self.sweep_id,
            "me": self.orchestrator_id,
            **self._enough,
        }
        wanted["silent_for_s"] = SILENT_FOR.total_seconds()
        while True:
            try:
                with writing(self._at_once) as connection:
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
        told = {"trial_id": row.trial_id, "repeat": row.repeat, "num_attempts": row.num_attempts}
        return TakenRepeat(repeat_id=row.id, **told, spec=TrialSpec.from_json(row.spec))

    def claim(self, repeat: OpenRepeat, at: datetime) -> Claim:
        """Of what was taken: it is ours already. What is to be tried again is claimed anew. Raises
        LostError.
        """
        if repeat.repeat_id in self._taken:
            self._taken.discard(repeat.repeat_id)
            return Claim.TAKEN
        with writing(self._states) as connection:
            self._check_not_ended(connection)
            taken = change(
                connection,
                self._own(repeat.repeat_id, State.PENDING),
                State.CLAIMED,
                at,
                **NO_ATTEMPT,
            )
            # before, and its answer was lost
            taken = taken or self._has(connection, self._own(repeat.repeat_id, State.CLAIMED))
        if not taken:
            return Claim.GONE
        self._claimed.add(repeat.repeat_id)
        return Claim.TAKEN

    def run(self, repeat: OpenRepeat, run_dir: str, placement: Placement, at: datetime) -> int:
        attempt = super().run(repeat, run_dir, placement, at)
        self._claimed.discard(repeat.repeat_id)
        return attempt

    def give_back(self, repeat_id: int, at: datetime) -> None:
        """Taken, but not started after all: another agent may. What cannot be written now, a later
        `beat` writes.
        """
        self._taken.discard(repeat_id)
        self._claimed.discard(repeat_id)
        with writing(self._states) as connection:
            change(
                connection,
                self._own(repeat_id, State.CLAIMED),
                State.PENDING,
                at,
                "not started",
                **_NOBODYS,
            )

    def leave_to_others(self, repeat_id: int) -> None:
        """What was to be tried again here."""
        with writing(self._states) as connection:
            connection.execute(
                sa.update(_Repeat).where(*self._own(repeat_id, State.PENDING)).values(_NOBODYS)
            )

    def beat(self, at: datetime) -> None:
        """Renews the lease, by the database's clock. Raises LostError when it was over and others
        have noticed.

        What is claimed for this one without its knowledge, as when the answer of the database was
        lost, is given back.
        """
        own = (_Orchestrator.id == self.orchestrator_id, _Orchestrator.ended_at.is_(None))
        with writing(self._states) as connection:
            if (
                connection.execute(
                    sa.update(_Orchestrator).where(*own).values(heartbeat_at=DATABASE_TIME)
                ).rowcount
                != 1
            ):
                raise LostError(f"orchestrator {self.orchestrator_id}")
            mine = (_Repeat.orchestrator_id == self.orchestrator_id, _Repeat.state == State.CLAIMED)
            unknown = (*mine, _Repeat.sweep_id == self.sweep_id, _Repeat.id.not_in(self._claimed))
            for repeat_id in connection.scalars(sa.select(_Repeat.id).where(*unknown)).all():
                change(
                    connection,
                    self._own(repeat_id, State.CLAIMED),
                    State.PENDING,
                    at,
                    "not started",
                    **_NOBODYS,
                )

    def end(self, at: datetime, *, finished: bool) -> None:
        """This one runs nothing more, and what it has is open to others. The sweep is finished when
        it has nothing left.
        """
        own = (_Orchestrator.id == self.orchestrator_id, _Orchestrator.ended_at.is_(None))
        with writing(self.engine) as connection:
            if (
                connection.execute(
                    sa.update(_Orchestrator).where(*own).values(ended_at=DATABASE_TIME)
                ).rowcount
                != 1
            ):
                return
            claimed = (
                _Repeat.orchestrator_id == self.orchestrator_id,
                _Repeat.state == State.CLAIMED,
            )
            change(connection, claimed, State.PENDING, at, "not started", **_NOBODYS)
            open_what_the_ended_have(connection, self.sweep_id)
            is_open = sa.exists().where(_Repeat.sweep_id == self.sweep_id, _Repeat.state.in_(OPEN))
            if finished:
                of_sweep = (_Sweep.id == self.sweep_id, ~is_open)
                connection.execute(
                    sa.update(_Sweep).where(*of_sweep).values(finished_at=DATABASE_TIME)
                )

    def tell(self, note: str) -> None:
        """To people, beside this one: `orchestrators.note`."""
        own = _Orchestrator.id == self.orchestrator_id
        with writing(self._states) as connection:
            connection.execute(sa.update(_Orchestrator).where(own).values(note=note))

    def _open_again(
        self,
        connection: sa.Connection,
        repeat_id: int,
        outcome: State,
        at: datetime,
        again: str | None,
    ) -> None:
        """What is tried again stays with who tried it first; what was interrupted here another may
        run.
        """
        if again is None and outcome is State.INTERRUPTED:
            change(
                connection,
                self._own(repeat_id, outcome),
                State.PENDING,
                at,
                "its agent was stopped",
                **_NOBODYS,
            )
        super()._open_again(connection, repeat_id, outcome, at, again)

    def _check_not_ended(self, connection: sa.Connection) -> None:
        """Who ends it waits until this transaction is through, and then finds what it has
        claimed.
        """
        own = sa.select(_Orchestrator.ended_at).where(_Orchestrator.id == self.orchestrator_id)
        if connection.scalar(own.with_for_update(read=True)) is not None:
            raise LostError(f"orchestrator {self.orchestrator_id}")

    @property
    def _may_skip(self) -> sa.ColumnElement[bool]:
        """Its own, and what is nobody's."""
        return super()._may_skip | (
            _Repeat.orchestrator_id.is_(None) & (_Repeat.sweep_id == self.sweep_id)
        )

    @property
    def _enough(self) -> dict[str, Any]:
        """What to count, and how many are enough."""
        told = {"wanted_repeats": self._wanted_repeats, "shares_host": self._shares_host}
        return told | {"machine": self.machine_id, "software_key": self._software_key}

    def skip_enough(self) -> None:
        """What other sweeps have completed meanwhile. Looks at all that waits."""
        if self._wanted_repeats is None:
            return
        with writing(self._states) as connection:
            found = list(
                connection.scalars(_COMPLETED_ELSEWHERE, {"sweep": self.sweep_id, **self._enough})
            )
            at, nobodys = (
                datetime.now(UTC),
                (_Repeat.orchestrator_id.is_(None), _Repeat.state == State.PENDING),
            )
            change_all(
                connection,
                found,
                nobodys,
                State.SKIPPED,
                at,
                FINISHED_ELSEWHERE,
                reason=FINISHED_ELSEWHERE,
            )


_NUM_COMPLETED = """(SELECT count(*)
        FROM attempts JOIN environments ON environments.id = attempts.environment_id
        WHERE attempts.trial_id = repeats.trial_id AND attempts.outcome = 'completed' AND attempts.machine_id = :machine
              AND environments.software_key = :software_key AND attempts.deleted_at IS NULL
              AND (:shares_host OR NOT attempts.shares_host))"""

_NUM_IN_FLIGHT = """(SELECT count(*)
        FROM repeats AS others JOIN orchestrators ON orchestrators.id = others.orchestrator_id
        WHERE others.trial_id = repeats.trial_id AND others.state IN ('claimed', 'running')
              AND orchestrators.machine_id = :machine AND orchestrators.software_key = :software_key
              AND orchestrators.ended_at IS NULL AND (:shares_host OR NOT orchestrators.shares_host)
              AND extract(epoch FROM timezone('utc', clock_timestamp()) - orchestrators.heartbeat_at)
                  <= coalesce(orchestrators.lease_s, :silent_for_s))"""

_WAITING = f"repeats.sweep_id = :sweep AND repeats.{schema.WAITING}"

_TAKE = sa.text(f"""
WITH alive AS (
  SELECT id FROM orchestrators WHERE id = :me AND ended_at IS NULL FOR SHARE -- who ends it waits, and then finds what it took
), following AS (
  SELECT repeats.id FROM repeats JOIN trials ON trials.id = repeats.trial_id
  WHERE {_WAITING} AND trials.num_gpus <= :most_gpus AND trials.hosts = :hosts AND EXISTS (SELECT 1 FROM alive)
        AND (CAST(:wanted_repeats AS integer) IS NULL OR {_NUM_COMPLETED} + {_NUM_IN_FLIGHT} < :wanted_repeats)
  ORDER BY repeats.turn LIMIT 1 FOR UPDATE OF repeats SKIP LOCKED -- as the index has them; others are taking what is locked
), taken AS (
  UPDATE repeats
  SET state = 'claimed', orchestrator_id = :me,
      started_at = NULL, run_dir = NULL, placement = NULL, pid = NULL, start_ticks = NULL
  FROM following WHERE repeats.id = following.id
  RETURNING repeats.id, repeats.trial_id, repeats.repeat, repeats.num_attempts
), told AS (
  INSERT INTO events (repeat_id, number, at_unix_us, attempt, state, detail)
  SELECT taken.id, (SELECT coalesce(max(number), 0) + 1 FROM events WHERE repeat_id = taken.id),
         extract(epoch FROM clock_timestamp()) * 1000000, taken.num_attempts, 'claimed', ''
  FROM taken
)
SELECT EXISTS (SELECT 1 FROM alive) AS is_alive, taken.*, trials.spec
FROM (SELECT 1) AS one LEFT JOIN taken ON true LEFT JOIN trials ON trials.id = taken.trial_id
""").columns(spec=schema.TrialRow.__table__.c.spec.type)
"""Claims, tells of it and says what it is, in one statement."""

_COMPLETED_ELSEWHERE = sa.text(f"""
SELECT repeats.id FROM repeats WHERE {_WAITING} AND {_NUM_COMPLETED} >= :wanted_repeats FOR UPDATE OF repeats SKIP LOCKED
""")

_NOBODYS: dict[str, Any] = {"orchestrator_id": None}


def beside_others(engine: sa.Engine) -> sa.Engine:
    """The same, but its transactions do not wait for others that write."""
    return engine.execution_options(**{SCALEMARK_BESIDE_OTHERS: True})


def check_can_share(engine: sa.Engine) -> None:
    """Raises StoreError for a file."""
    if engine.dialect.name != "postgresql":
        why = (
            "a SQLite file, whose locks reach the processes of one host; hosts that share a "
            "sweep want a server"
        )
        raise StoreError(f"{engine.url.database}: {why}: store.url=postgresql://USER@HOST/NAME")


# Leases


def processes(engine: sa.Engine, sweep_id: int) -> list[tuple[int, ProcessIdentity]]:
    """Orchestrators of a shared sweep that have not said that they ended."""
    which = (_Orchestrator.sweep_id == sweep_id, _Orchestrator.ended_at.is_(None))
    with reading(engine) as connection:
        found = connection.execute(
            sa.select(_Orchestrator.__table__).where(*which).order_by(_Orchestrator.id)
        )
        return [(row["id"], process_of(row)) for row in found.mappings()]


def end_dead(engine: sa.Engine, sweep_id: int, dead: Sequence[int] = ()) -> list[int]:
    """Orchestrators whose lease is over, and those that were seen to be `dead`, are ended: from now
    on they can take nothing.

    What they were to try again is open to others. Returns their ids.
    """
    with writing(beside_others(engine)) as connection:
        unended = (_Orchestrator.sweep_id == sweep_id, _Orchestrator.ended_at.is_(None))
        ended: list[int] = []
        for which, why in (
            (_Orchestrator.id.in_(dead), SEEN_DEAD),
            (_Orchestrator.lease_s < SILENT_S, LEASE_OVER),
        ):
            # what it said holds still
            note = sa.case((_Orchestrator.note == "", why), else_=_Orchestrator.note + f"; {why}")
            end = (
                sa.update(_Orchestrator)
                .where(*unended, which)
                .values(ended_at=DATABASE_TIME, note=note)
            )
            ended += connection.scalars(end.returning(_Orchestrator.id))
        open_what_the_ended_have(connection, sweep_id)
        return ended


def ended_with_something_in_flight(
    engine: sa.Engine, sweep_id: int, just_ended: Sequence[int]
) -> list[int]:
    """Those of `just_ended`, and those that another process ended and had the time to close, but
    came no further.
    """
    busy = sa.select(_Repeat.orchestrator_id).where(
        _Repeat.sweep_id == sweep_id, _Repeat.state.in_(IN_FLIGHT)
    )
    ended_s = sa.cast(sa.extract("epoch", DATABASE_TIME - _Orchestrator.ended_at), sa.Double)
    has_s = sa.func.least(CLOSER_HAS_S, _Orchestrator.lease_s)
    which = (_Orchestrator.id.in_(busy), _Orchestrator.id.in_(just_ended) | (ended_s > has_s))
    ended = sa.select(_Orchestrator.id).where(*which)
    with reading(engine) as connection:
        return list(connection.scalars(ended.order_by(_Orchestrator.id)))


def open_what_the_ended_have(connection: sa.Connection, sweep_id: int) -> None:
    """Pending repeats that ended orchestrators were to try again."""
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
    """How often whoever ran this repeat was killed, since the sweep was last continued by hand."""
    events = schema.EventRow
    continued = sa.select(sa.func.coalesce(sa.func.max(events.number), 0))
    continued = continued.where(events.repeat_id == repeat_id, events.detail == CONTINUED)
    which = (
        events.repeat_id == repeat_id,
        events.state == State.INTERRUPTED,
        events.detail == KILLED,
    )
    count = (
        sa.select(sa.func.count())
        .select_from(events)
        .where(*which, events.number > continued.scalar_subquery())
    )
    with reading(engine) as connection:
        return connection.scalar(count) or 0


def unsettled_sweeps(engine: sa.Engine) -> list[int]:
    """Shared ones with an orchestrator that has not ended, or with something in flight."""
    unended = sa.exists().where(
        _Orchestrator.sweep_id == _Sweep.id, _Orchestrator.ended_at.is_(None)
    )
    busy = sa.exists().where(_Repeat.sweep_id == _Sweep.id, _Repeat.state.in_(IN_FLIGHT))
    shared = (
        sa.select(_Sweep.id).where(_Sweep.settings.is_not(None), unended | busy).order_by(_Sweep.id)
    )
    with reading(engine) as connection:
        return list(connection.scalars(shared))


def lease_s(settings: Mapping[str, Any] | None) -> float:
    """Of `sweeps.settings`. Raises ValueError when they have none."""
    if settings is None or "lease_s" not in settings:
        raise ValueError(
            f"settings of a sweep: {settings}; wanted those of a shared one, with lease_s"
        )
    return float(settings["lease_s"])


def clock_difference_s(engine: sa.Engine) -> float:
    """This host's clock less the database's; half of the time that asking took is taken off."""
    with reading(engine) as connection:
        # the connection is there, and the server has seen this before
        connection.scalar(sa.select(DATABASE_TIME))
        before = datetime.now(UTC)
        told: datetime = connection.execute(sa.select(DATABASE_TIME)).scalar_one()
        after = datetime.now(UTC)
    return (before + (after - before) / 2 - told).total_seconds()


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
    """Where a shared sweep stands."""

    counts: Mapping[State, int]  # repeats; states that none has are left out
    # with the controllers, all there were, in the order in which they came
    agents: tuple[AgentStatus, ...]
    lease_s: float

    @property
    def is_settled(self) -> bool:
        """Nothing is left to run, and nothing runs."""
        return not any(self.counts.get(state) for state in OPEN)

    def is_alive(self, agent: AgentStatus) -> bool:
        """As far as its lease tells."""
        return agent.ended_at is None and agent.silent_s <= agent.lease_s


def shared_status(engine: sa.Engine, sweep_id: int) -> SharedStatus:
    """Raises ValueError for a sweep that is not shared."""
    with reading(engine) as connection:
        return status_of(connection, sweep_id)


def status_of(connection: sa.Connection, sweep_id: int) -> SharedStatus:
    """As `shared_status`."""
    settings = connection.scalar(sa.select(_Sweep.settings).where(_Sweep.id == sweep_id))
    counts = (
        sa.select(_Repeat.state, sa.func.count())
        .where(_Repeat.sweep_id == sweep_id)
        .group_by(_Repeat.state)
    )
    agents = sa.select(_Orchestrator.__table__, SILENT_S.label("silent_s")).where(
        _Orchestrator.sweep_id == sweep_id
    )
    running = _running(connection, sweep_id)
    return SharedStatus(
        counts={State(state): num for state, num in connection.execute(counts)},
        agents=tuple(
            AgentStatus(
                orchestrator_id=row["id"],
                process=process_of(row),
                is_controller=row["id"] in (settings or {}).get("controllers", ()),
                running=tuple(running.get(row["id"], ())),
                **{
                    name: row[name]
                    for name in ("started_at", "ended_at", "silent_s", "lease_s", "note")
                },
            )
            for row in connection.execute(agents.order_by(_Orchestrator.id)).mappings()
        ),
        lease_s=lease_s(settings),
    )


def _running(connection: sa.Connection, sweep_id: int) -> dict[int, list[str]]:
    """By orchestrator."""
    statement = (
        sa.select(
            _Repeat.orchestrator_id,
            _Trial.model,
            _Trial.strategy,
            _Trial.num_gpus,
            _Trial.hosts,
            _Repeat.repeat,
        )
        .join(_Trial, _Trial.id == _Repeat.trial_id)
        .where(_Repeat.sweep_id == sweep_id, _Repeat.state.in_(IN_FLIGHT))
        .order_by(_Repeat.id)
    )
    found: dict[int, list[str]] = {}
    for row in connection.execute(statement):
        label = (
            f"{row.model}-{row.strategy}-{width_name(row.num_gpus, row.hosts)} repeat {row.repeat}"
        )
        found.setdefault(row.orchestrator_id, []).append(label)
    return found
