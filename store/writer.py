"""Opens a database for writing, and begins sweeps in it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from scalemark.host.own_code import typed
from scalemark.host.processes import dead_in_s, is_alive
from scalemark.records.attempt import ProcessIdentity
from scalemark.records.machine import Machine, check_kind_of_machine
from scalemark.records.outcomes import IN_FLIGHT, State
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

MANY_REPEATS = 500  # from here on a server plans claims otherwise
# share of an agent's lease: it takes several calls to find out that nothing can be written
ANSWER_WITHIN = 1 / 20
NOT_ASKED_FOR = "the sweep was continued without this trial"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSweep:
    """A sweep that is going to run, and the process that is going to run it."""

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
    """Opens sweeps. Raises StoreError from every method when the database cannot be written, with
    what to do.
    """

    def __init__(self, url: str) -> None:
        self.engine = open_for_writing(url)
        self._database = locate(url)

    def settle(self) -> None:
        """Move everything into the database's own file, at the end, so that a copy of it is
        whole.
        """
        with self._database.explained():
            self._database.settle()

    def close(self) -> None:
        self.engine.dispose()

    def begin_sweep(
        self, sweep: NewSweep, is_alive: Callable[[ProcessIdentity, datetime], bool]
    ) -> Ledger:
        """Record what a sweep is going to do. A sweep of this name is continued: what it has not
        completed is opened again.

        `is_alive` says whether a process whose last heartbeat was then still runs. Raises
        StoreError when one runs this sweep, or was killed and what it ran is not closed yet; and
        when the sweep of this name was measured into another database.
        """
        machine_id = self.add_machine(sweep.machine)
        with writing(self.engine) as connection:
            sweep_id, _ = self._open(connection, sweep, is_alive, shared=False)
            orchestrator_id = _add_orchestrator(
                connection,
                sweep.process,
                sweep_id=sweep_id,
                machine_id=machine_id,
                software_key=sweep.software_key,
                shares_host=sweep.shares_host,
                started_at=sweep.started_at,
                heartbeat_at=sweep.started_at,
            )
            num_repeats = {
                spec.trial_id: sweep.num_repeats.get(spec.trial_id, 0) for spec in sweep.trials
            }
            _open_repeats(connection, sweep_id, num_repeats, orchestrator_id, sweep.started_at)
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
        """Record a sweep for agents to run: its repeats are open to all of them. Returns the
        controller's own ledger.

        `settings` are what agents go by, `lease_s` among them. What agents of a sweep that is
        continued run, they go on running.
        """
        check_can_share(self.engine)
        machine_id = self.add_machine(sweep.machine)
        with writing(self.engine) as connection:
            sweep_id, before = self._open(connection, sweep, is_alive, shared=True)
            orchestrator_id = _add_orchestrator(
                connection,
                sweep.process,
                sweep_id=sweep_id,
                machine_id=machine_id,
                software_key=sweep.software_key,
                shares_host=sweep.shares_host,
                lease_s=lease_s(settings),
            )
            stored = {
                **settings,
                "software_key": sweep.software_key,
                "wanted_repeats": None if sweep.rerun else sweep.wanted_repeats,
                "controllers": [*(before or {}).get("controllers", ()), orchestrator_id],
            }
            table = schema.SweepRow
            connection.execute(sa.update(table).where(table.id == sweep_id).values(settings=stored))
            open_what_the_ended_have(connection, sweep_id)
            num_repeats = _wanted_of_all(connection, sweep_id, sweep)
            _open_repeats(connection, sweep_id, num_repeats, None, sweep.started_at)
            _number_turns(connection, sweep_id)
        if sum(sweep.num_repeats.values()) >= MANY_REPEATS:
            with writing(self.engine.execution_options(isolation_level="AUTOCOMMIT")) as connection:
                # else the server plans agents' claims for tables as small as they were before
                connection.execute(sa.text("ANALYZE repeats, trials"))
        return SharedLedger(
            self.engine,
            name=sweep.name,
            settings=stored,
            sweep_id=sweep_id,
            orchestrator_id=orchestrator_id,
            machine_id=machine_id,
            shares_host=sweep.shares_host,
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
        """Join a shared sweep as one more agent. Raises StoreError when there is none of this name,
        or it has other software.
        """
        check_can_share(self.engine)
        machine_id = self.add_machine(machine)
        with writing(self.engine) as connection:
            sweep_id, settings = _shared_sweep(connection, self._database.name, name)
            if software_key != settings["software_key"]:
                raise StoreError(
                    f"sweep {name}: its controller has the software {settings['software_key']}, "
                    f"this agent {software_key}; install the same versions of all packages on both "
                    "hosts"
                )
            orchestrator_id = _add_orchestrator(
                connection,
                process,
                sweep_id=sweep_id,
                machine_id=machine_id,
                software_key=software_key,
                shares_host=shares_host,
                lease_s=lease_s(settings),
            )
        from store.postgresql import answer_within  # here, because most never need its driver

        answer_within(self.engine, max(1.0, lease_s(settings) * ANSWER_WITHIN))
        return SharedLedger(
            self.engine,
            name=name,
            settings=settings,
            sweep_id=sweep_id,
            orchestrator_id=orchestrator_id,
            machine_id=machine_id,
            shares_host=shares_host,
        )

    def _open(
        self,
        connection: sa.Connection,
        sweep: NewSweep,
        is_alive: Callable[[ProcessIdentity, datetime], bool],
        *,
        shared: bool,
    ) -> tuple[int, dict[str, Any] | None]:
        """Return the sweep's id, with its trials in place, and the settings that it had before.
        `shared`: it is going to be.
        """
        table = schema.SweepRow
        columns = (table.id, table.origin, table.settings)
        known = connection.execute(
            sa.select(*columns).where(table.name == sweep.name)
        ).one_or_none()
        if known is None:
            values = {
                "uid": sweep_uid(sweep.name, sweep.started_at, sweep.command),
                "name": sweep.name,
                "reason": sweep.reason,
                "command": sweep.command,
                "started_at": sweep.started_at,
                "origin": "",
            }
            sweep_id, before = inserted_id(connection, table, values), None
        else:
            if known.origin:
                raise StoreError(
                    f"sweep.name={sweep.name}: imported from {known.origin}; choose another name"
                )
            sweep_id, before = known.id, known.settings
            _check_nobody_runs(connection, sweep.name, sweep_id, before, is_alive, shared=shared)
            again = sa.update(table).where(table.id == sweep_id)
            connection.execute(again.values(finished_at=None, settings=None))
        _add_trials(connection, sweep_id, {spec.trial_id: spec for spec in sweep.trials})
        add_left_out(connection, sweep_id, sweep.left_out)
        return sweep_id, before

    def add_machine(self, machine: Machine) -> int:
        """Return the id of this machine, which is added when it is new."""
        with writing(self.engine) as connection:
            return machine_id_of(connection, machine)


def _check_nobody_runs(
    connection: sa.Connection,
    name: str,
    sweep_id: int,
    settings: Mapping[str, Any] | None,
    is_alive: Callable[[ProcessIdentity, datetime], bool],
    *,
    shared: bool,
) -> None:
    """Raise StoreError when an orchestrator of this sweep lives, or left something in flight."""
    orchestrator = schema.OrchestratorRow
    statement = sa.select(
        *orchestrator.__table__.columns, has_in_flight().label("has_in_flight")
    ).where(orchestrator.sweep_id == sweep_id, orchestrator.ended_at.is_(None))
    if settings is not None:
        statement = statement.add_columns(SILENT_S.label("silent_s"))
    for row in connection.execute(statement).mappings():
        process = process_of(row)
        if settings is None:
            alive = is_alive(process, row["heartbeat_at"])
            left_s = dead_in_s(process, row["heartbeat_at"])
        else:
            left_s = max(0.0, row["lease_s"] - row["silent_s"])
            alive = row["silent_s"] <= row["lease_s"]
            if shared and row["id"] not in settings["controllers"]:
                continue  # its agents go on with what they have
        who = f"sweep.name={name}: process {process.pid} on {process.host}"
        if alive:
            # its user may know better: it may have been in a container that was killed
            if_gone = (
                ""
                if left_s is None
                else f". If it was killed: it cannot be looked at from here, and is taken for dead "
                f"in {math.ceil(left_s)} s; repeat the command then, or now with another "
                "sweep.name (what is finished is not run again)"
            )
            raise StoreError(
                f"{who} is running a sweep of this name; wait for it ({typed('status')}), "
                f"or choose another name{if_gone}"
            )
        if row["has_in_flight"]:  # after the caller looked for such and closed what they ran
            raise StoreError(
                f"{who} was running a sweep of this name and was killed just now; repeat "
                "the command"
            )


def _add_orchestrator(connection: sa.Connection, process: ProcessIdentity, **values: Any) -> int:
    """Add a process that runs a sweep; without `started_at`, by the database's clock."""
    now = {"started_at": DATABASE_TIME, "heartbeat_at": DATABASE_TIME, "note": ""}
    return inserted_id(connection, schema.OrchestratorRow, now | asdict(process) | values)


def _shared_sweep(
    connection: sa.Connection, database: str, name: str
) -> tuple[int, dict[str, Any]]:
    """Return its id and its settings. Raises StoreError."""
    table = schema.SweepRow
    found = connection.execute(
        sa.select(table.id, table.settings).where(table.name == name)
    ).one_or_none()
    if found is None:
        raise StoreError(
            f"sweep {name}: there is none of this name in {database}; name another, or begin one "
            f"first: {typed('sweep')} launcher=agents sweep.name=NAME store.url=URL"
        )
    if found.settings is None:
        raise StoreError(
            f"sweep {name}: it is one host's alone; its command shares it with agents when it is "
            "repeated with launcher=agents, slurm or ray"
        )
    return found.id, found.settings


def _add_trials(connection: sa.Connection, sweep_id: int, trials: Mapping[str, TrialSpec]) -> None:
    """Add new trials, and the position of all in this sweep, which a continued sweep may change."""
    links = schema.SweepTrialRow
    insert_trials(connection, trials)
    asked_for = sa.select(links.trial_id, links.position).where(links.sweep_id == sweep_id)
    before: dict[str, int] = {row.trial_id: row.position for row in connection.execute(asked_for)}
    new, moved = [], []
    for position, trial_id in enumerate(trials):
        if trial_id not in before:
            new.append({"sweep_id": sweep_id, "trial_id": trial_id, "position": position})
        elif before[trial_id] != position:
            moved.append({"of_trial": trial_id, "to": position})
    insert_all(connection, links, new)
    if moved:
        of_trial = (links.sweep_id == sweep_id, links.trial_id == sa.bindparam("of_trial"))
        one = sa.update(links).where(*of_trial).values(position=sa.bindparam("to"))
        connection.execute(one, moved)


def add_left_out(
    connection: sa.Connection, sweep_id: int, left_out: Sequence[tuple[str, str]]
) -> None:
    """Insert those of these cells that are not there, with their reasons."""
    table = schema.LeftOutRow
    known = set(connection.scalars(sa.select(table.overrides).where(table.sweep_id == sweep_id)))
    rows = []
    for overrides, reason in dict(left_out).items():
        if overrides not in known:
            rows.append({"sweep_id": sweep_id, "overrides": overrides, "reason": reason})
    insert_all(connection, table, rows)


def _wanted_of_all(connection: sa.Connection, sweep_id: int, sweep: NewSweep) -> dict[str, int]:
    """Return how many repeats of each trial are to be run: what any host completed for this sweep
    need not be run again.
    """
    table = schema.RepeatRow
    completed = (table.sweep_id == sweep_id, table.state == State.COMPLETED)
    counts = sa.select(table.trial_id, sa.func.count()).where(*completed).group_by(table.trial_id)
    done = {row[0]: row[1] for row in connection.execute(counts)}
    wanted = {}
    for spec in sweep.trials:
        num = sweep.num_repeats.get(spec.trial_id, 0)
        if spec.trial_id in done and not sweep.rerun:
            num = max(0, min(num, sweep.wanted_repeats - done[spec.trial_id]))
        wanted[spec.trial_id] = num
    return wanted


def _number_turns(connection: sa.Connection, sweep_id: int) -> None:
    """Number all that is pending: in rounds of one repeat of each trial, in each round those of
    most GPUs first, then as planned.
    """
    repeats, trials, links = schema.RepeatRow, schema.TrialRow, schema.SweepTrialRow
    of_trial = sa.func.row_number().over(partition_by=repeats.trial_id, order_by=repeats.repeat)
    pending = (
        sa.select(repeats.id, of_trial.label("round"), trials.num_gpus, links.position)
        .join(trials, trials.id == repeats.trial_id)
        .join(links, (links.sweep_id == repeats.sweep_id) & (links.trial_id == repeats.trial_id))
        .where(repeats.sweep_id == sweep_id, repeats.state == State.PENDING)
        .subquery()
    )
    order = (pending.c.round, pending.c.num_gpus.desc(), pending.c.position, pending.c.id)
    turn = sa.func.row_number().over(order_by=order).label("turn")
    turns = sa.select(pending.c.id, turn).subquery()
    connection.execute(sa.update(repeats).where(repeats.id == turns.c.id).values(turn=turns.c.turn))


def _open_repeats(
    connection: sa.Connection,
    sweep_id: int,
    num_repeats: Mapping[str, int],
    orchestrator_id: int | None,
    at: datetime,
) -> None:
    """Open as many pending repeats of each trial as are to be run: what this sweep left unfinished
    first, then new ones.

    They become those of an orchestrator; with None, of whoever takes them. What agents have is left
    to them then, and counts first.
    """
    table = schema.RepeatRow
    order: tuple[Any, ...] = (table.trial_id, table.repeat)
    free: tuple[sa.ColumnElement[bool], ...] = ()
    if orchestrator_id is None:
        taken = (table.state == State.PENDING) & table.orchestrator_id.is_not(None)
        held = table.state.in_(IN_FLIGHT) | taken
        order, free = (held.desc(), *order), (~held,)
    unfinished: dict[str, list[int]] = {}
    newest: dict[str, int] = {}
    columns = (table.id, table.trial_id, table.repeat, table.state)
    known = sa.select(*columns).where(table.sweep_id == sweep_id).order_by(*order)
    for repeat_id, trial_id, repeat, state in connection.execute(known):
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

    def give(
        repeat_ids: Sequence[int],
        which: Sequence[sa.ColumnElement[bool]],
        state: State,
        detail: str,
        reason: str,
    ) -> None:
        values = {"reason": reason, "orchestrator_id": orchestrator_id}
        change_all(connection, repeat_ids, (*which, *free), state, at, detail, **values)

    give(to_run, (), State.PENDING, CONTINUED, "")
    not_yet = (table.state != State.SKIPPED,)
    give(enough, not_yet, State.SKIPPED, FINISHED_ELSEWHERE, FINISHED_ELSEWHERE)
    pending_only = (table.state == State.PENDING,)
    give(given_up, pending_only, State.SKIPPED, NOT_ASKED_FOR, NOT_ASKED_FOR)
    add_pending(connection, new, at)
