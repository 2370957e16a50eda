"""Opens a database for writing, begins sweeps in it, and reads what it holds of one."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from scalemark.host.own_code import typed
from scalemark.host.processes import ProcessIdentity, dead_in_s
from scalemark.records.attempt import AskedFor, SweepRecord, sweep_uid
from scalemark.records.machine import Machine, check_kind_of_machine
from scalemark.records.measurement import State
from scalemark.records.trial import TrialSpec
from store import ledger, schema
from store.database import locate, open_for_writing, reading, writing
from store.errors import StoreError
from store.filters import deleted_at
from store.reading.earlier import IS_OF_SEARCH
from store.rows import in_chunks, insert_all, inserted_id, machine_id_of
from store.tables import insert_trials

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
    """Opens sweeps. All methods raise StoreError, with what to do, where nothing can be written."""

    def __init__(self, url: str) -> None:
        self.engine = open_for_writing(url)
        self._database = locate(url)

    def settle(self) -> None:
        """Move everything into the database's file, so that a copy of it is whole."""
        with self._database.explained():
            self._database.settle(self.engine)

    def close(self) -> None:
        self.engine.dispose()

    def begin_sweep(
        self, sweep: NewSweep, is_alive: Callable[[ProcessIdentity, datetime], bool]
    ) -> ledger.Ledger:
        """Record what a sweep is going to do. A sweep of this name is continued: what it has not
        completed is opened again.

        `is_alive` says whether a process whose last heartbeat was then still runs. Raises
        StoreError when one runs this sweep, or was killed and what it ran is not closed yet; and
        when the sweep of this name was measured into another database.
        """
        with writing(self.engine) as connection:
            machine_id = machine_id_of(connection, sweep.machine)
        with writing(self.engine) as connection:
            sweep_id = self._open(connection, sweep, is_alive)
            runner = {
                **asdict(sweep.process),
                "sweep_id": sweep_id,
                "machine_id": machine_id,
                "software_key": sweep.software_key,
                "shares_host": sweep.shares_host,
                "started_at": sweep.started_at,
                "heartbeat_at": sweep.started_at,
                "note": "",
            }
            orchestrator_id = inserted_id(connection, schema.OrchestratorRow, runner)
            num_repeats = {
                spec.trial_id: sweep.num_repeats.get(spec.trial_id, 0) for spec in sweep.trials
            }
            _open_repeats(connection, sweep_id, num_repeats, orchestrator_id)
        return ledger.Ledger(
            self.engine,
            sweep_id=sweep_id,
            orchestrator_id=orchestrator_id,
            machine_id=machine_id,
            software_key=sweep.software_key,
            shares_host=sweep.shares_host,
            wanted_repeats=None if sweep.rerun else sweep.wanted_repeats,
        )

    def _open(
        self,
        connection: sa.Connection,
        sweep: NewSweep,
        is_alive: Callable[[ProcessIdentity, datetime], bool],
    ) -> int:
        """Return the sweep's id, with its trials in place."""
        table = schema.SweepRow
        named = sa.select(table.id, table.origin).where(table.name == sweep.name)
        known = connection.execute(named).one_or_none()
        if known is None:
            values = {
                "uid": sweep_uid(sweep.name, sweep.started_at, sweep.command),
                "name": sweep.name,
                "reason": sweep.reason,
                "command": sweep.command,
                "started_at": sweep.started_at,
                "origin": "",
            }
            sweep_id = inserted_id(connection, table, values)
        else:
            if known.origin:
                raise StoreError(
                    f"sweep.name={sweep.name}: imported from {known.origin}; choose another name"
                )
            sweep_id = known.id
            _check_nobody_runs(connection, sweep.name, sweep_id, is_alive)
            again = sa.update(table).where(table.id == sweep_id)
            connection.execute(again.values(finished_at=None))
        _add_trials(connection, sweep_id, {spec.trial_id: spec for spec in sweep.trials})
        add_left_out(connection, sweep_id, sweep.left_out)
        return sweep_id


def _check_nobody_runs(
    connection: sa.Connection,
    name: str,
    sweep_id: int,
    is_alive: Callable[[ProcessIdentity, datetime], bool],
) -> None:
    """Raise StoreError when an orchestrator of this sweep lives, or left something in flight."""
    orchestrator = schema.OrchestratorRow
    statement = sa.select(
        *orchestrator.__table__.columns, ledger.has_in_flight().label("has_in_flight")
    ).where(orchestrator.sweep_id == sweep_id, orchestrator.ended_at.is_(None))
    for row in connection.execute(statement).mappings():
        process = ledger.process_of(row)
        alive = is_alive(process, row["heartbeat_at"])
        left_s = dead_in_s(process, row["heartbeat_at"])
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
        moving = sa.update(links).where(*of_trial).values(position=sa.bindparam("to"))
        connection.execute(moving, moved)


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


def _open_repeats(
    connection: sa.Connection,
    sweep_id: int,
    num_repeats: Mapping[str, int],
    orchestrator_id: int,
) -> None:
    """Open as many pending repeats of each trial as are to be run: what this sweep left unfinished
    first, then new ones. They become those of this orchestrator.
    """
    table = schema.RepeatRow
    order = (table.trial_id, table.repeat)
    unfinished: dict[str, list[int]] = {}
    newest: dict[str, int] = {}
    columns = (table.id, table.trial_id, table.repeat, table.state)
    known = sa.select(*columns).where(table.sweep_id == sweep_id).order_by(*order)
    for repeat_id, trial_id, repeat, state in connection.execute(known):
        newest[trial_id] = max(newest.get(trial_id, 0), repeat)
        if state != State.COMPLETED:
            unfinished.setdefault(trial_id, []).append(repeat_id)
    own = {"orchestrator_id": orchestrator_id}
    pending = {"sweep_id": sweep_id, "state": State.PENDING, "reason": "", "num_attempts": 0, **own}
    to_run, enough = [], []
    new: list[dict[str, Any]] = []
    for trial_id, wanted in num_repeats.items():
        left = unfinished.pop(trial_id, [])
        to_run.extend(left[:wanted])
        enough.extend(left[wanted:])
        first = newest.get(trial_id, 0) + 1
        of_trial = pending | {"trial_id": trial_id}
        new.extend(of_trial | {"repeat": first + i} for i in range(wanted - len(left)))
    given_up = [repeat_id for left in unfinished.values() for repeat_id in left]

    ledger.change_all(connection, to_run, (), State.PENDING, reason="", **own)
    not_yet = (table.state != State.SKIPPED,)
    skipped = {"reason": ledger.FINISHED_ELSEWHERE, **own}
    ledger.change_all(connection, enough, not_yet, State.SKIPPED, **skipped)
    pending_only = (table.state == State.PENDING,)
    skipped = {"reason": NOT_ASKED_FOR, **own}
    ledger.change_all(connection, given_up, pending_only, State.SKIPPED, **skipped)
    insert_all(connection, table, new)


def read_sweep(engine: sa.Engine, sweep_id: int) -> SweepRecord:
    """Return all that a sweep was ever asked for. Raises StoreError."""
    sweeps, links = schema.SweepRow, schema.SweepTrialRow
    trials, left_out = schema.TrialRow, schema.LeftOutRow
    asked_for = (
        sa.select(links.position, trials.spec)
        .join(trials, trials.id == links.trial_id)
        .where(links.sweep_id == sweep_id)
        .order_by(links.position, links.trial_id)
    )
    refused = sa.select(left_out.overrides, left_out.reason).where(left_out.sweep_id == sweep_id)
    with reading(engine) as connection:
        sweep = connection.execute(sa.select(sweeps.__table__).where(sweeps.id == sweep_id)).one()
        cells = connection.execute(refused.order_by(left_out.overrides))
        asked = [
            AskedFor(position=row.position, spec=json.loads(row.spec))
            for row in connection.execute(asked_for)
        ]
        return SweepRecord(
            uid=sweep.uid,
            name=sweep.name,
            reason=sweep.reason,
            command=sweep.command,
            started_at=sweep.started_at,
            trials=tuple(asked),
            left_out=tuple((overrides, reason) for overrides, reason in cells),
        )


def delete_of_searches(url: str, trial_ids: Sequence[str], at: datetime) -> None:
    """Delete the attempts of searches at these trials, so that their few steps count nowhere."""
    table = schema.AttemptRow
    searches = sa.select(schema.SweepRow.id).where(IS_OF_SEARCH)
    update = sa.update(table).where(table.sweep_id.in_(searches), deleted_at(False))
    engine = open_for_writing(url)
    with writing(engine) as connection:
        for ids in in_chunks(trial_ids):
            connection.execute(update.where(table.trial_id.in_(ids)).values(deleted_at=at))
    engine.dispose()
