"""Opens a database for writing, and begins sweeps in it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from scalemark.host.process_identity import dead_in_s, is_alive
from scalemark.records.machine import Machine, check_kind_of_machine
from scalemark.records.outcomes import IN_FLIGHT, State
from scalemark.records.placement import ProcessIdentity
from scalemark.records.sweep import sweep_uid
from scalemark.records.trial import TrialSpec
from store import schema
from store.database import locate, open_for_writing, writing
from store.errors import StoreError
from store.machine_rows import machine_id_of
from store.rows import insert_all, inserted_id
from store.sweeps.ledger import FINISHED_ELSEWHERE, Ledger, has_in_flight, process_of
from store.sweeps.repeat_states import CONTINUED, add_pending, change_all
from store.sweeps.shared import (
    DATABASE_TIME,
    SILENT_S,
    SharedLedger,
    check_can_share,
    lease_s,
    open_what_the_ended_have,
)
from store.trial_rows import insert_trials

_NOW: dict[str, Any] = {"started_at": DATABASE_TIME, "heartbeat_at": DATABASE_TIME}
MANY_REPEATS = 500  # that change how a server had best look for one
# of the lease of an agent: it takes several calls to learn that nothing can be written
ANSWER_WITHIN = 1 / 20
NOT_ASKED_FOR = "the sweep was continued without this trial"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSweep:
    """What a sweep is going to do, and who is going to do it."""

    name: str
    reason: str
    command: str
    started_at: datetime
    trials: Sequence[TrialSpec]
    # trial id -> repeats to run now; none for those finished earlier
    num_repeats: Mapping[str, int]
    left_out: Sequence[tuple[str, str]]  # overrides of a refused cell, and why
    wanted_repeats: int  # of each trial, those finished earlier included
    rerun: bool  # finished ones do not count
    machine: Machine
    software_key: str
    shares_host: bool  # runs trials side by side
    process: ProcessIdentity

    def __post_init__(self) -> None:
        for spec in self.trials:
            check_kind_of_machine(spec.device_kind, self.machine)


class Writer:
    """Raises StoreError from every method when the file cannot be written, with what to do."""

    def __init__(self, url: str) -> None:
        self.engine = open_for_writing(url)
        self._database = locate(url)

    def settle(self) -> None:
        """At the end: a copy of the database's file has all, also while others have it open."""
        with self._database.explained():
            self._database.settle()

    def close(self) -> None:
        self.engine.dispose()

    def begin_sweep(
        self, sweep: NewSweep, is_alive: Callable[[ProcessIdentity, datetime], bool]
    ) -> Ledger:
        """Record what a sweep is going to do. A sweep of this name is continued: what it has not
        completed is opened again.

        `is_alive` tells whether a process whose last heartbeat was then still runs. Raises
        StoreError when one runs this sweep, or was killed and what it ran is not closed yet; and
        when the sweep of this name was measured into another database.
        """
        machine_id = self.add_machine(sweep.machine)
        trials = {spec.trial_id: spec for spec in sweep.trials}
        with writing(self.engine) as connection:
            sweep_id = self._sweep_id(connection, sweep, is_alive, shared=False)
            _add_trials(connection, sweep_id, trials)
            add_left_out(connection, sweep_id, sweep.left_out)
            told = {"software_key": sweep.software_key, "shares_host": sweep.shares_host}
            at = {"started_at": sweep.started_at, "heartbeat_at": sweep.started_at}
            orchestrator_id = _add_orchestrator(
                connection, sweep_id, machine_id, sweep.process, told | at
            )
            _open_repeats(
                connection,
                sweep_id,
                {id_: sweep.num_repeats.get(id_, 0) for id_ in trials},
                orchestrator_id,
                sweep.started_at,
            )
        return Ledger(
            self.engine,
            sweep_id=sweep_id,
            orchestrator_id=orchestrator_id,
            machine_id=machine_id,
            software_key=sweep.software_key,
            shares_host=sweep.shares_host,
            wanted_repeats=None if sweep.rerun else sweep.wanted_repeats,
        )

    def begin_shared_sweep(self, sweep: NewSweep, settings: Mapping[str, Any]) -> SharedLedger:
        """As `begin_sweep`, for agents to run: its repeats are open to all of them. Returns the
        controller's own ledger.

        `settings` are what agents go by, `lease_s` among them. What agents of a sweep that is
        continued run, they go on running.
        """
        check_can_share(self.engine)
        lease_s(settings)
        machine_id = self.add_machine(sweep.machine)
        trials = {spec.trial_id: spec for spec in sweep.trials}
        with writing(self.engine) as connection:
            before = connection.scalar(
                sa.select(schema.SweepRow.settings).where(schema.SweepRow.name == sweep.name)
            )
            sweep_id = self._sweep_id(connection, sweep, is_alive, shared=True)
            _add_trials(connection, sweep_id, trials)
            add_left_out(connection, sweep_id, sweep.left_out)
            who = {"software_key": sweep.software_key, "shares_host": sweep.shares_host}
            lease = {"lease_s": lease_s(settings)}
            orchestrator_id = _add_orchestrator(
                connection, sweep_id, machine_id, sweep.process, who | lease | _NOW
            )
            told = {
                "software_key": sweep.software_key,
                "wanted_repeats": None if sweep.rerun else sweep.wanted_repeats,
            }
            stored = {
                **settings,
                **told,
                "controllers": [*(before or {}).get("controllers", ()), orchestrator_id],
            }
            connection.execute(
                sa.update(schema.SweepRow)
                .where(schema.SweepRow.id == sweep_id)
                .values(settings=stored)
            )
            open_what_the_ended_have(connection, sweep_id)
            _open_repeats(
                connection,
                sweep_id,
                _wanted_of_all(connection, sweep_id, sweep),
                None,
                sweep.started_at,
            )
            _number_turns(connection, sweep_id)
        if sum(sweep.num_repeats.values()) >= MANY_REPEATS:
            with writing(self.engine.execution_options(isolation_level="AUTOCOMMIT")) as connection:
                # else agents' claims go by how it was before
                connection.execute(sa.text("ANALYZE repeats, trials"))
        return self._shared(
            sweep.name, stored, sweep_id, orchestrator_id, machine_id, sweep.shares_host
        )

    def join_sweep(
        self,
        name: str,
        *,
        machine: Machine,
        process: ProcessIdentity,
        software_key: str,
        shares_host: bool,
    ) -> SharedLedger:
        """As one more agent of a shared sweep. Raises StoreError when there is none of this name,
        or it has other software.
        """
        check_can_share(self.engine)
        machine_id = self.add_machine(machine)
        with writing(self.engine) as connection:
            sweep_id, settings = _shared_sweep(connection, self._database.name, name)
            if software_key != settings["software_key"]:
                found = (
                    f"its controller has the software {settings['software_key']}, this agent "
                    f"{software_key}"
                )
                raise StoreError(
                    f"sweep {name}: {found}; install the same versions of scalemark and its "
                    "packages on both hosts"
                )
            told = {
                "software_key": software_key,
                "shares_host": shares_host,
                "lease_s": lease_s(settings),
            }
            orchestrator_id = _add_orchestrator(
                connection, sweep_id, machine_id, process, told | _NOW
            )
        from store.postgresql import answer_within  # here, because most never need its driver

        answer_within(self.engine, max(1.0, lease_s(settings) * ANSWER_WITHIN))
        return self._shared(name, settings, sweep_id, orchestrator_id, machine_id, shares_host)

    def _shared(
        self,
        name: str,
        settings: Mapping[str, Any],
        sweep_id: int,
        orchestrator_id: int,
        machine_id: int,
        shares_host: bool,
    ) -> SharedLedger:
        return SharedLedger(
            self.engine,
            name=name,
            settings=settings,
            sweep_id=sweep_id,
            orchestrator_id=orchestrator_id,
            machine_id=machine_id,
            shares_host=shares_host,
        )

    def _sweep_id(
        self,
        connection: sa.Connection,
        sweep: NewSweep,
        is_alive: Callable[[ProcessIdentity, datetime], bool],
        *,
        shared: bool,
    ) -> int:
        """`shared`: it is going to be."""
        table = schema.SweepRow
        columns = (table.id, table.origin, table.settings)
        known = connection.execute(
            sa.select(*columns).where(table.name == sweep.name)
        ).one_or_none()
        if known is None:
            values = {
                name: getattr(sweep, name) for name in ("name", "reason", "command", "started_at")
            }
            values |= {"uid": sweep_uid(sweep.name, sweep.started_at, sweep.command), "origin": ""}
            return inserted_id(connection, table, values)
        if known.origin:
            raise StoreError(
                f"sweep.name={sweep.name}: imported from {known.origin}; choose another name"
            )
        sweep_id: int = known.id
        if known.settings is None:
            unended = _unended(
                connection,
                sweep_id,
                lambda row: is_alive(process_of(row), row["heartbeat_at"]),
                lambda row: dead_in_s(process_of(row), row["heartbeat_at"]),
            )
        else:
            unended = _unended(
                connection,
                sweep_id,
                lambda row: row["silent_s"] <= row["lease_s"],
                lambda row: max(0.0, row["lease_s"] - row["silent_s"]),
                SILENT_S.label("silent_s"),
            )
            if shared:  # its agents go on with what they have
                unended = [
                    one for one in unended if one.orchestrator_id in known.settings["controllers"]
                ]
        for one in unended:
            who = f"sweep.name={sweep.name}: process {one.process.pid} on {one.process.host}"
            if one.is_alive:
                wait = "wait for it (python -m sweeper status), or choose another name"
                raise StoreError(
                    f"{who} is running a sweep of this name; {wait}{_if_it_is_gone(one)}"
                )
            if one.has_in_flight:  # after the caller looked for such and closed what they ran
                raise StoreError(
                    f"{who} was running a sweep of this name and was killed just now; repeat "
                    "the command"
                )
        connection.execute(
            sa.update(table).where(table.id == sweep_id).values(finished_at=None, settings=None)
        )
        return sweep_id

    def add_machine(self, machine: Machine) -> int:
        """The row of this machine, made when it is new."""
        with writing(self.engine) as connection:
            return machine_id_of(connection, machine)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Unended:
    """An orchestrator that has not said that it ended."""

    orchestrator_id: int
    process: ProcessIdentity
    has_in_flight: bool
    is_alive: bool
    # until it is taken for dead, where nothing but its signs tells; none where it can be looked at
    dead_in_s: float | None


def _if_it_is_gone(one: _Unended) -> str:
    """What to do when its user knows better: it may have been in a container that was killed."""
    if one.dead_in_s is None:
        return ""
    return (
        f". If it was killed: it cannot be looked at from here, and is taken for dead in {math.ceil(one.dead_in_s)} s; repeat "
        "the command then, or now with another sweep.name (what is finished is not run again)"
    )


def _unended(
    connection: sa.Connection,
    sweep_id: int,
    is_alive: Callable[[sa.RowMapping], bool],
    dead_in_s: Callable[[sa.RowMapping], float | None],
    *more: sa.ColumnElement[Any],
) -> list[_Unended]:
    orchestrator = schema.OrchestratorRow
    statement = sa.select(
        *orchestrator.__table__.columns, has_in_flight().label("has_in_flight"), *more
    )
    of_sweep = (orchestrator.sweep_id == sweep_id, orchestrator.ended_at.is_(None))
    return [
        _Unended(
            orchestrator_id=row["id"],
            process=process_of(row),
            has_in_flight=row["has_in_flight"],
            is_alive=is_alive(row),
            dead_in_s=dead_in_s(row),
        )
        for row in connection.execute(statement.where(*of_sweep)).mappings()
    ]


def _add_orchestrator(
    connection: sa.Connection,
    sweep_id: int,
    machine_id: int,
    process: ProcessIdentity,
    values: Mapping[str, Any],
) -> int:
    told = {"sweep_id": sweep_id, "machine_id": machine_id, "note": ""}
    return inserted_id(connection, schema.OrchestratorRow, {**asdict(process), **told, **values})


def _shared_sweep(
    connection: sa.Connection, database: str, name: str
) -> tuple[int, dict[str, Any]]:
    """Its row and its settings. Raises StoreError."""
    table = schema.SweepRow
    found = connection.execute(
        sa.select(table.id, table.settings).where(table.name == name)
    ).one_or_none()
    if found is None:
        begin = "begin one first: python sweep.py launcher=agents sweep.name=NAME store.url=URL"
        raise StoreError(
            f"sweep {name}: there is none of this name in {database}; name another, or {begin}"
        )
    if found.settings is None:
        share = (
            "its command shares it with agents when it is repeated with launcher=agents, slurm "
            "or ray"
        )
        raise StoreError(f"sweep {name}: it is one host's alone; {share}")
    return found.id, found.settings


def _add_trials(connection: sa.Connection, sweep_id: int, trials: Mapping[str, TrialSpec]) -> None:
    """New trials, and the place of all in this sweep: where it is continued in another order, that
    one holds.
    """
    links = schema.SweepTrialRow
    insert_trials(connection, trials)
    asked_for = sa.select(links.trial_id, links.position).where(links.sweep_id == sweep_id)
    before: dict[str, int] = {row.trial_id: row.position for row in connection.execute(asked_for)}
    places = {trial_id: position for position, trial_id in enumerate(trials)}
    new = [
        {"sweep_id": sweep_id, "trial_id": id_, "position": place}
        for id_, place in places.items()
        if id_ not in before
    ]
    insert_all(connection, links, new)
    moved = [
        {"of_trial": id_, "to": place}
        for id_, place in places.items()
        if before.get(id_, place) != place
    ]
    if moved:
        one = sa.update(links).where(
            links.sweep_id == sweep_id, links.trial_id == sa.bindparam("of_trial")
        )
        connection.execute(one.values(position=sa.bindparam("to")), moved)


def add_left_out(
    connection: sa.Connection, sweep_id: int, left_out: Sequence[tuple[str, str]]
) -> None:
    """Insert those of these cells that are not there, with their reasons."""
    known = set(
        connection.scalars(
            sa.select(schema.LeftOutRow.overrides).where(schema.LeftOutRow.sweep_id == sweep_id)
        )
    )
    new = {overrides: reason for overrides, reason in left_out if overrides not in known}
    rows = [
        {"sweep_id": sweep_id, "overrides": overrides, "reason": reason}
        for overrides, reason in new.items()
    ]
    insert_all(connection, schema.LeftOutRow, rows)


def _wanted_of_all(connection: sa.Connection, sweep_id: int, sweep: NewSweep) -> dict[str, int]:
    """By trial, how many repeats are to be run: whichever of its hosts completed one for this
    sweep, it need not be run again.
    """
    table = schema.RepeatRow
    completed = (table.sweep_id == sweep_id, table.state == State.COMPLETED)
    counts = connection.execute(
        sa.select(table.trial_id, sa.func.count()).where(*completed).group_by(table.trial_id)
    )
    done: dict[str, int] = {} if sweep.rerun else {row[0]: row[1] for row in counts}
    asked_for = {spec.trial_id: sweep.num_repeats.get(spec.trial_id, 0) for spec in sweep.trials}
    return {
        id_: max(0, min(num, sweep.wanted_repeats - done[id_])) if id_ in done else num
        for id_, num in asked_for.items()
    }


def _number_turns(connection: sa.Connection, sweep_id: int) -> None:
    """Of all that is pending: in rounds of one repeat of each trial, in each round those of most
    GPUs first, then as planned.
    """
    repeats, trials, links = schema.RepeatRow, schema.TrialRow, schema.SweepTrialRow
    rounds = (
        sa.func.row_number()
        .over(partition_by=repeats.trial_id, order_by=repeats.repeat)
        .label("round")
    )
    pending = (
        sa.select(repeats.id, rounds, trials.num_gpus, links.position)
        .join(trials, trials.id == repeats.trial_id)
        .join(links, (links.sweep_id == repeats.sweep_id) & (links.trial_id == repeats.trial_id))
        .where(repeats.sweep_id == sweep_id, repeats.state == State.PENDING)
        .subquery()
    )
    order = (pending.c.round, pending.c.num_gpus.desc(), pending.c.position, pending.c.id)
    turns = sa.select(
        pending.c.id, sa.func.row_number().over(order_by=order).label("turn")
    ).subquery()
    connection.execute(sa.update(repeats).where(repeats.id == turns.c.id).values(turn=turns.c.turn))


def _open_repeats(
    connection: sa.Connection,
    sweep_id: int,
    num_repeats: Mapping[str, int],
    orchestrator_id: int | None,
    at: datetime,
) -> None:
    """As many pending repeats of each trial as are to be run: what this sweep left unfinished
    first, then new ones.

    `orchestrator_id`: whose they are; None: of whoever takes them. What agents have is left to
    them, and counts first.
    """
    table = schema.RepeatRow
    held = table.state.in_(IN_FLIGHT) | (
        (table.state == State.PENDING) & table.orchestrator_id.is_not(None)
    )
    free = () if orchestrator_id is not None else (~held,)
    agents_first = () if orchestrator_id is not None else (held.desc(),)
    unfinished: dict[str, list[int]] = {}
    newest: dict[str, int] = {}
    known = sa.select(table.id, table.trial_id, table.repeat, table.state).where(
        table.sweep_id == sweep_id
    )
    for repeat_id, trial_id, repeat, state in connection.execute(
        known.order_by(*agents_first, table.trial_id, table.repeat)
    ):
        newest[trial_id] = max(newest.get(trial_id, 0), repeat)
        if state != State.COMPLETED:
            unfinished.setdefault(trial_id, []).append(repeat_id)
    to_run, enough = [], []
    new: list[dict[str, Any]] = []
    for trial_id, wanted in num_repeats.items():
        found = unfinished.pop(trial_id, [])
        to_run.extend(found[:wanted])
        enough.extend(found[wanted:])
        first = newest.get(trial_id, 0) + 1
        pending = {"sweep_id": sweep_id, "trial_id": trial_id, "orchestrator_id": orchestrator_id}
        new.extend(pending | {"repeat": first + i} for i in range(wanted - len(found)))
    given_up = [repeat_id for of_trial in unfinished.values() for repeat_id in of_trial]
    change_all(
        connection,
        to_run,
        free,
        State.PENDING,
        at,
        CONTINUED,
        reason="",
        orchestrator_id=orchestrator_id,
    )
    not_yet, pending_only = (
        (table.state != State.SKIPPED, *free),
        (table.state == State.PENDING, *free),
    )
    for repeat_ids, which, reason in (
        (enough, not_yet, FINISHED_ELSEWHERE),
        (given_up, pending_only, NOT_ASKED_FOR),
    ):
        change_all(
            connection,
            repeat_ids,
            which,
            State.SKIPPED,
            at,
            reason,
            reason=reason,
            orchestrator_id=orchestrator_id,
        )
    add_pending(connection, new, at)
