"""Adds sweeps that were measured before, with all their trials, repeats and attempts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

import sqlalchemy as sa

from scalemark.records.machine import Machine
from scalemark.records.outcomes import IN_FLIGHT, State
from scalemark.records.trial import TrialSpec
from store import schema
from store.finished_attempt import AttemptWriter, NewAttempt
from store.machine_rows import machine_id_of
from store.rows import insert_all, inserted_id, inserted_ids
from store.trial_rows import insert_trials
from store.writer import add_left_out

_DIGEST = re.compile("[0-9a-f]{16}")

RENAMED = re.compile(r" \(\d+\)$")
"""What the name of a sweep of another database may end with, because another had its name."""

AttemptKey = tuple[str, int, int]
"""The trial's id, the repeat and the attempt: identify an attempt within its sweep."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepHead:
    """What is known of a sweep without its trials."""

    uid: str  # scalemark.records.sweep.sweep_uid: the same sweep in every database
    name: str
    reason: str
    command: str
    started_at: datetime
    finished_at: datetime | None
    run_dir: str | None

    def __post_init__(self) -> None:
        if not _DIGEST.fullmatch(self.uid):
            raise ValueError(f"sweep.uid={self.uid[:40]}: wanted 16 hexadecimal digits")
        if not self.name:
            raise ValueError("sweep.name is empty")


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change of a repeat's state, as a row of `events`."""

    at: datetime
    attempt: int
    state: State
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeRepeat:
    """A repeat with all changes of its state; the last one is where it stands."""

    trial_id: str
    number: int
    num_attempts: int
    changes: Sequence[Change]

    @property
    def state(self) -> State:
        return self.changes[-1].state


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeSweep:
    """A sweep with all that is known of it."""

    head: SweepHead
    left_out: Sequence[tuple[str, str]] = ()  # overrides of a refused cell, and why
    trials: Sequence[tuple[int, TrialSpec]]  # with their positions
    repeats: Sequence[WholeRepeat]
    # `columns` without the ids of sweep and machine
    attempts: Sequence[tuple[Machine, NewAttempt]]


@dataclass(slots=True)
class Counts:
    """How many attempts were added, and how many were there."""

    num_new: int = 0
    num_known: int = 0
    differing: list[AttemptKey] = field(default_factory=list)  # known, and not as given


def add_sweep(connection: sa.Connection, sweep: WholeSweep, writer: AttemptWriter) -> Counts:
    """Add what is not there yet, inside the caller's transaction; what is there stays as it is."""
    sweep_id = _sweep_id(connection, sweep.head)
    add_left_out(connection, sweep_id, sweep.left_out)
    insert_trials(connection, {spec.trial_id: spec for _, spec in sweep.trials})
    links = schema.SweepTrialRow
    asked_for = sa.select(links.trial_id).where(links.sweep_id == sweep_id)
    known = set(connection.scalars(asked_for))
    rows = []
    for position, spec in sweep.trials:
        if spec.trial_id not in known:
            rows.append({"sweep_id": sweep_id, "trial_id": spec.trial_id, "position": position})
    insert_all(connection, links, rows)
    busy = _add_repeats(connection, sweep_id, sweep.repeats)
    return _add_attempts(connection, sweep_id, sweep.attempts, busy, writer)


def _sweep_id(connection: sa.Connection, head: SweepHead) -> int:
    table = schema.SweepRow
    known = connection.scalar(sa.select(table.id).where(table.uid == head.uid))
    if known is not None:
        return known
    name = free_name(connection, head.name)
    return inserted_id(connection, table, asdict(head) | {"origin": "", "name": name})


def free_name(connection: sa.Connection, name: str) -> str:
    """Return NAME, or NAME (2) when another sweep has it."""
    free, count = name, 1
    taken = sa.select(sa.exists().where(schema.SweepRow.name == sa.bindparam("name")))
    while connection.scalar(taken, {"name": free}):
        count += 1
        free = f"{name} ({count})"
    return free


def _add_repeats(
    connection: sa.Connection, sweep_id: int, repeats: Sequence[WholeRepeat]
) -> set[tuple[str, int]]:
    """Add repeats, and let those that have fewer attempts here stand where these do; return those
    that somebody runs here.
    """
    table = schema.RepeatRow
    columns = (table.id, table.trial_id, table.repeat, table.state, table.num_attempts)
    statement = sa.select(*columns).where(table.sweep_id == sweep_id)
    known = {(row.trial_id, row.repeat): row for row in connection.execute(statement)}
    new = [repeat for repeat in repeats if (repeat.trial_id, repeat.number) not in known]
    rows = []
    for repeat in new:
        own = {"sweep_id": sweep_id, "trial_id": repeat.trial_id, "repeat": repeat.number}
        rows.append(own | {"reason": ""} | _standing(repeat))
    written = list(zip(inserted_ids(connection, table, rows), new, strict=True))
    for repeat in repeats:
        row = known.get((repeat.trial_id, repeat.number))
        if row is None or row.state in IN_FLIGHT or row.num_attempts >= repeat.num_attempts:
            continue
        update = sa.update(table).where(table.id == row.id).values(**_standing(repeat))
        connection.execute(update)
        connection.execute(sa.delete(schema.EventRow).where(schema.EventRow.repeat_id == row.id))
        written.append((row.id, repeat))
    events = []
    for repeat_id, repeat in written:
        for number, change in enumerate(repeat.changes, 1):
            events.append(
                {
                    "repeat_id": repeat_id,
                    "number": number,
                    "at_unix_us": change.at,
                    "attempt": change.attempt,
                    "state": change.state,
                    "detail": change.detail,
                }
            )
    insert_all(connection, schema.EventRow, events)
    return {key for key, row in known.items() if row.state in IN_FLIGHT}


def _standing(repeat: WholeRepeat) -> dict[str, Any]:
    return {"state": repeat.state, "num_attempts": repeat.num_attempts}


def _add_attempts(
    connection: sa.Connection,
    sweep_id: int,
    attempts: Sequence[tuple[Machine, NewAttempt]],
    busy: set[tuple[str, int]],
    writer: AttemptWriter,
) -> Counts:
    table = schema.AttemptRow
    columns = (table.trial_id, table.repeat, table.attempt, table.started_at, table.outcome)
    known = {}
    for row in connection.execute(sa.select(*columns).where(table.sweep_id == sweep_id)):
        known[row.trial_id, row.repeat, row.attempt] = (row.started_at, row.outcome)
    counts = Counts()
    new: list[NewAttempt] = []
    for machine, attempt in attempts:
        values = attempt.columns
        key = (values["trial_id"], values["repeat"], values["attempt"])
        if key in known:
            counts.num_known += 1
            if known[key] != (values["started_at"], values["outcome"]):
                counts.differing.append(key)
        elif key[:2] not in busy:
            machine_id = writer.shared_id(machine, partial(machine_id_of, connection, machine))
            values |= {"sweep_id": sweep_id, "machine_id": machine_id}
            new.append(attempt)
    writer.insert(connection, new)
    counts.num_new = len(new)
    return counts
