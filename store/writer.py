"""Opens a database for writing, and begins sweeps in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from store import schema
from store.database import open_for_writing, writing
from store.errors import StoreError
from store.ledger import FINISHED_ELSEWHERE, Ledger, has_in_flight, process_of
from store.machine_rows import machine_id_of
from store.records import Machine, ProcessIdentity, State, TrialSpec, strategy_name, sweep_uid
from store.repeat_states import add_pending, change_all, in_chunks
from store.rows import insert_all, inserted_id

NOT_ASKED_FOR = "the sweep was continued without this trial"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSweep:
    """What a sweep is going to do, and who is going to do it."""

    name: str
    reason: str
    command: str
    started_at: datetime
    trials: Sequence[TrialSpec]
    num_repeats: Mapping[str, int]  # trial id -> repeats to run now; none for those finished earlier
    left_out: Sequence[tuple[str, str]]  # overrides of a refused cell, and why
    wanted_repeats: int  # of each trial, those finished earlier included
    rerun: bool  # finished ones do not count
    machine: Machine
    software_key: str
    shares_host: bool  # runs trials side by side
    process: ProcessIdentity


class Writer:
    """Raises StoreError from every method when the file cannot be written, with what to do."""

    def __init__(self, url: str) -> None:
        self.engine = open_for_writing(url)

    def close(self) -> None:
        self.engine.dispose()

    def begin_sweep(self, sweep: NewSweep, is_alive: Callable[[ProcessIdentity, datetime], bool]) -> Ledger:
        """Record what a sweep is going to do. A sweep of this name is continued: what it has not completed is opened again.

        `is_alive` tells whether a process whose last heartbeat was then still runs. Raises StoreError when one runs this sweep,
        or was killed and what it ran is not closed yet; and when the sweep of this name was measured into another database.
        """
        machine_id = self.add_machine(sweep.machine)
        trials = {spec.trial_id: spec for spec in sweep.trials}
        with writing(self.engine) as connection:
            sweep_id = self._sweep_id(connection, sweep, is_alive)
            _add_trials(connection, sweep_id, trials)
            _add_left_out(connection, sweep_id, sweep.left_out)
            orchestrator_id = inserted_id(
                connection,
                schema.OrchestratorRow,
                asdict(sweep.process)
                | {
                    "sweep_id": sweep_id,
                    "machine_id": machine_id,
                    "software_key": sweep.software_key,
                    "shares_host": sweep.shares_host,
                    "started_at": sweep.started_at,
                    "heartbeat_at": sweep.started_at,
                },
            )
            _open_repeats(
                connection, sweep_id, {id_: sweep.num_repeats.get(id_, 0) for id_ in trials}, orchestrator_id, sweep.started_at
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

    def _sweep_id(self, connection: sa.Connection, sweep: NewSweep, is_alive: Callable[[ProcessIdentity, datetime], bool]) -> int:
        table = schema.SweepRow
        known = connection.execute(sa.select(table.id, table.origin).where(table.name == sweep.name)).one_or_none()
        if known is None:
            values = {name: getattr(sweep, name) for name in ("name", "reason", "command", "started_at")}
            values |= {"uid": sweep_uid(sweep.name, sweep.started_at, sweep.command), "origin": ""}
            return inserted_id(connection, table, values)
        if known.origin:
            raise StoreError(f"sweep.name={sweep.name}: imported from {known.origin}; choose another name")
        sweep_id: int = known.id
        orchestrator = schema.OrchestratorRow
        of_sweep = (orchestrator.sweep_id == sweep_id, orchestrator.ended_at.is_(None))
        statement = sa.select(*orchestrator.__table__.columns, has_in_flight().label("has_in_flight")).where(*of_sweep)
        for row in connection.execute(statement).mappings():
            process = process_of(row)
            who = f"sweep.name={sweep.name}: process {process.pid} on {process.host}"
            if is_alive(process, row["heartbeat_at"]):
                wait = "wait for it (python -m sweeper status), or choose another name"
                raise StoreError(f"{who} is running a sweep of this name; {wait}")
            if row["has_in_flight"]:  # after the caller looked for such and closed what they ran
                raise StoreError(f"{who} was running a sweep of this name and was killed just now; repeat the command")
        connection.execute(sa.update(table).where(table.id == sweep_id).values(finished_at=None))
        return sweep_id

    def add_machine(self, machine: Machine) -> int:
        """The row of this machine, made when it is new."""
        with writing(self.engine) as connection:
            return machine_id_of(connection, machine)


def _add_trials(connection: sa.Connection, sweep_id: int, trials: Mapping[str, TrialSpec]) -> None:
    """New trials, and the place of all in this sweep: where it is continued in another order, that one holds."""
    table, links = schema.TrialRow, schema.SweepTrialRow
    known = {id_ for ids in in_chunks(list(trials)) for id_ in connection.scalars(sa.select(table.id).where(table.id.in_(ids)))}
    insert_all(connection, table, [trial_values(id_, spec) for id_, spec in trials.items() if id_ not in known])
    asked_for = sa.select(links.trial_id, links.position).where(links.sweep_id == sweep_id)
    before: dict[str, int] = {row.trial_id: row.position for row in connection.execute(asked_for)}
    places = {trial_id: position for position, trial_id in enumerate(trials)}
    new = [{"sweep_id": sweep_id, "trial_id": id_, "position": place} for id_, place in places.items() if id_ not in before]
    insert_all(connection, links, new)
    moved = [{"of_trial": id_, "to": place} for id_, place in places.items() if before.get(id_, place) != place]
    if moved:
        one = sa.update(links).where(links.sweep_id == sweep_id, links.trial_id == sa.bindparam("of_trial"))
        connection.execute(one.values(position=sa.bindparam("to")), moved)


def trial_values(trial_id: str, spec: TrialSpec) -> dict[str, Any]:
    """The columns of `store.schema.TrialRow`."""
    strategy = strategy_name(spec.variable_update, spec.local_parameter_device, spec.all_reduce)
    told = {field.name: getattr(spec, field.name) for field in fields(spec)}
    return told | {"id": trial_id, "curve": spec.curve, "strategy": strategy, "spec": spec.to_json()}


def _add_left_out(connection: sa.Connection, sweep_id: int, left_out: Sequence[tuple[str, str]]) -> None:
    known = set(connection.scalars(sa.select(schema.LeftOutRow.overrides).where(schema.LeftOutRow.sweep_id == sweep_id)))
    new = {overrides: reason for overrides, reason in left_out if overrides not in known}
    rows = [{"sweep_id": sweep_id, "overrides": overrides, "reason": reason} for overrides, reason in new.items()]
    insert_all(connection, schema.LeftOutRow, rows)


def _open_repeats(
    connection: sa.Connection, sweep_id: int, num_repeats: Mapping[str, int], orchestrator_id: int, at: datetime
) -> None:
    """As many pending repeats of each trial as are to be run: what this sweep left unfinished first, then new ones."""
    table = schema.RepeatRow
    unfinished: dict[str, list[int]] = {}
    newest: dict[str, int] = {}
    known = sa.select(table.id, table.trial_id, table.repeat, table.state).where(table.sweep_id == sweep_id)
    for repeat_id, trial_id, repeat, state in connection.execute(known.order_by(table.trial_id, table.repeat)):
        newest[trial_id] = repeat
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
    change_all(connection, to_run, (), State.PENDING, at, "continued", reason="", orchestrator_id=orchestrator_id)
    not_yet, pending_only = (table.state != State.SKIPPED,), (table.state == State.PENDING,)
    for repeat_ids, which, reason in ((enough, not_yet, FINISHED_ELSEWHERE), (given_up, pending_only, NOT_ASKED_FOR)):
        change_all(connection, repeat_ids, which, State.SKIPPED, at, reason, reason=reason, orchestrator_id=orchestrator_id)
    add_pending(connection, new, at)
