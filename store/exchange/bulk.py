"""Adds portable records to a database, whole batches in each statement.

What is there already is left as it is. What contradicts it is rejected with the reason; nothing is
ever overwritten.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import sqlalchemy as sa

from scalemark.host.own_code import typed
from scalemark.records.measurement import BESIDE_A_MEASUREMENT
from scalemark.records.references import Origin, Reference, Rejected
from scalemark.records.trial import TrialSpec
from store import schema
from store.database import writing
from store.exchange.annotations import add_annotations
from store.exchange.portable import (
    CONTENT,
    Portable,
    PortableAttempt,
    PortableRepeat,
    PortableSweep,
    PortableTrial,
    SweepHead,
)
from store.exchange.portable_rows import PortableRows, database_id
from store.exchange.repeat_records import RepeatKey, merge_repeats, merged, with_one_change
from store.finished_attempt import AttemptWriter, NewAttempt
from store.machine_rows import machine_id_of
from store.reference_rows import add_references
from store.rows import insert_all, inserted_id
from store.sweeps.repeat_states import REMOVED, in_chunks
from store.trial_rows import insert_trials
from store.writer import add_left_out

ROWS_PER_TRANSACTION = 5000

RENAMED = re.compile(r" \(\d+\)$")
"""What the name of an imported sweep may end with, because another had its name."""

Found = tuple[str, Portable] | Rejected
"""A record, and where it stands, as "results.csv line 12"; or why there is none."""

Identity = tuple[str, str, int, int]
"""The identity of an attempt, as PortableAttempt.identity."""


@dataclass(slots=True)
class Added:
    """The records that were added, known already, or rejected."""

    num_new: int = 0  # attempts
    num_known: int = 0  # attempts that were there already, and are left as they are
    num_references: int = 0  # new ones
    num_elsewhere: int = 0  # new rows of tables: measured elsewhere
    num_known_figures: int = 0  # references and rows that were there already, or came twice
    rejected: list[Rejected] = field(default_factory=list)
    # sweep -> its name here, because another has that name
    renamed: dict[str, str] = field(default_factory=dict)


def add_all(
    engine: sa.Engine,
    records: Iterable[Portable],
    *,
    origin: str = "",
    rows_per_transaction: int = ROWS_PER_TRANSACTION,
) -> Added:
    """Add records in as many transactions as it takes. Raises StoreError.

    `origin` is for sweeps that have none of their own; empty: they were measured into this
    database.
    """
    bulk = Bulk(origin=origin)
    numbered = ((f"record {number}", record) for number, record in enumerate(records, 1))
    bulk.add_in_pieces(engine, numbered, rows_per_transaction)
    return bulk.added


class Bulk:
    """Adds records inside transactions of the caller: of one database, and dropped when a
    transaction is rolled back.
    """

    def __init__(self, *, origin: str = "", added: Added | None = None) -> None:
        """Count in `added`, which several may share."""
        self.added = added or Added()
        self._origin = origin
        self._own_id: str | None = None
        self._sweep_ids: dict[str, int] = {}
        self._run_dirs: dict[int, str | None] = {}
        self._trials: set[str] = set()
        self._attempts = AttemptWriter()

    def add_in_pieces(
        self, engine: sa.Engine, found: Iterable[Found], size: int = ROWS_PER_TRANSACTION
    ) -> None:
        """Add records, each piece of them in a transaction of its own."""
        iterator = iter(found)
        while piece := list(itertools.islice(iterator, size)):
            with writing(engine) as connection:
                self.add(connection, piece)

    def add(self, connection: sa.Connection, found: Sequence[Found]) -> None:
        """Add sweeps, trials, attempts and references, in this order of kinds."""
        if self._own_id is None:
            self._own_id = database_id(connection)
        trials: list[PortableTrial] = []
        attempts: list[tuple[str, PortableAttempt]] = []
        references: list[Reference] = []
        for one in found:
            if isinstance(one, Rejected):
                self.added.rejected.append(one)
                continue
            where, record = one
            if isinstance(record, PortableSweep):
                self._add_sweep(connection, record)
            elif isinstance(record, PortableTrial):
                trials.append(record)
            elif isinstance(record, PortableAttempt):
                attempts.append((where, record))
            else:
                references.append(record)
        self._add_trials(connection, [*trials, *(attempt for _, attempt in attempts)])
        repeats = [(trial, repeat) for trial in trials for repeat in trial.repeats]
        self._add_repeats(connection, repeats)
        for trial in trials:
            add_annotations(connection, "trial_id", trial.trial_id, trial.tags, trial.notes)
        for chunk in in_chunks(attempts):
            self._add_attempts(connection, chunk)
        elsewhere = [one for one in references if one.origin == Origin.TABLE]
        cited = [one for one in references if one.origin != Origin.TABLE]
        num_elsewhere = add_references(connection, elsewhere)
        num_cited = add_references(connection, cited)
        self.added.num_elsewhere += num_elsewhere
        self.added.num_references += num_cited
        self.added.num_known_figures += len(references) - num_elsewhere - num_cited

    def _add_sweep(self, connection: sa.Connection, record: PortableSweep) -> None:
        sweep_id = self._sweep_id(connection, record.sweep)
        add_left_out(connection, sweep_id, record.left_out)
        add_annotations(connection, "sweep_id", sweep_id, record.tags, record.notes)

    def _sweep_id(self, connection: sa.Connection, sweep: SweepHead) -> int:
        if sweep.uid in self._sweep_ids:
            return self._sweep_ids[sweep.uid]
        table = schema.SweepRow
        columns = (table.id, table.origin, table.finished_at, table.run_dir)
        known = connection.execute(sa.select(*columns).where(table.uid == sweep.uid)).one_or_none()
        if known is None:
            name = self._free_name(connection, sweep.name)
            # what comes back to where it was measured is at home
            is_home = sweep.origin.split(" ")[0] == self._own_id
            origin = "" if is_home else sweep.origin or self._origin
            columns_of_new = asdict(sweep) | {"name": name, "origin": origin}
            sweep_id, run_dir = inserted_id(connection, table, columns_of_new), sweep.run_dir
        else:
            sweep_id, run_dir = known.id, known.run_dir or sweep.run_dir
            finished_at = known.finished_at
            # whether a sweep of our own has finished is known better here
            if known.origin and sweep.finished_at:
                finished_at = max(known.finished_at or sweep.finished_at, sweep.finished_at)
            if (finished_at, run_dir) != (known.finished_at, known.run_dir):
                update = sa.update(table).where(table.id == sweep_id)
                connection.execute(update.values(finished_at=finished_at, run_dir=run_dir))
        self._sweep_ids[sweep.uid], self._run_dirs[sweep_id] = sweep_id, run_dir
        return sweep_id

    def _free_name(self, connection: sa.Connection, name: str) -> str:
        """Return NAME, or NAME (2) when another sweep has it: see RENAMED."""
        free, count = name, 1
        taken = sa.select(sa.exists().where(schema.SweepRow.name == sa.bindparam("name")))
        while connection.scalar(taken, {"name": free}):
            count += 1
            free = f"{name} ({count})"
        if free != name:
            self.added.renamed[name] = free
        return free

    def _add_trials(
        self, connection: sa.Connection, records: Sequence[PortableTrial | PortableAttempt]
    ) -> None:
        """Add new trials, and their positions in their sweeps."""
        specs: dict[str, TrialSpec] = {}
        positions: dict[tuple[int, str], int] = {}
        for record in records:
            sweep_id = self._sweep_id(connection, record.sweep)
            if record.trial_id not in self._trials:
                specs[record.trial_id] = record.spec
            positions.setdefault((sweep_id, record.trial_id), record.position)
        insert_trials(connection, specs)
        self._trials |= specs.keys()
        links = schema.SweepTrialRow
        # asked again each time, because others import, too
        for chunk in in_chunks(list(positions)):
            statement = sa.select(links.sweep_id, links.trial_id).where(
                links.sweep_id.in_({sweep_id for sweep_id, _ in chunk}),
                links.trial_id.in_({trial_id for _, trial_id in chunk}),
            )
            for row in connection.execute(statement):
                positions.pop((row.sweep_id, row.trial_id), None)
        rows = []
        for (sweep_id, trial_id), position in positions.items():
            rows.append({"sweep_id": sweep_id, "trial_id": trial_id, "position": position})
        insert_all(connection, links, rows)

    def _add_repeats(
        self,
        connection: sa.Connection,
        found: Sequence[tuple[PortableTrial | PortableAttempt, PortableRepeat]],
    ) -> None:
        wanted: dict[RepeatKey, PortableRepeat] = {}
        for record, repeat in found:
            key = (self._sweep_ids[record.sweep.uid], record.trial_id, repeat.number)
            repeat = with_one_change(repeat, record)
            wanted[key] = merged(wanted[key], repeat) if key in wanted else repeat
        merge_repeats(connection, wanted)

    def _add_attempts(
        self, connection: sa.Connection, located: Sequence[tuple[str, PortableAttempt]]
    ) -> None:
        attempts = [attempt for _, attempt in located]
        known = self._known_attempts(connection, attempts)
        sweep_ids = {self._sweep_ids[attempt.sweep.uid] for attempt in attempts}
        removed, busy = _removed_and_busy(connection, sweep_ids, attempts)
        new: dict[Identity, PortableAttempt] = {}
        again: list[PortableAttempt] = []
        for where, attempt in located:
            identity, why = attempt.identity, ""
            if identity in removed:
                why = f"{_which(attempt)} was removed here for good"
            elif identity in known:
                why = _contradiction(known[identity][1], attempt)
            elif identity[:3] in busy:
                why = (
                    f"{_which(attempt)}: it is being run here; nothing to import until it has ended"
                )
            elif identity in new:
                why = _contradiction(new[identity], attempt)
            else:
                new[identity] = attempt
                continue
            if why:
                self.added.rejected.append(Rejected(where=where, reason=why))
            else:
                again.append(attempt)
        with_repeats = [(attempt, attempt.repeat) for attempt in (*new.values(), *again)]
        self._add_repeats(connection, with_repeats)
        self._insert(connection, list(new.values()))
        for attempt in again:
            if attempt.identity in known:
                _complete(connection, *known[attempt.identity], attempt)
        self.added.num_new += len(new)
        self.added.num_known += len(again)

    def _known_attempts(
        self, connection: sa.Connection, attempts: Sequence[PortableAttempt]
    ) -> dict[Identity, tuple[int, PortableAttempt | None]]:
        """Return those that are here: the id of the row and the attempt, None when it is
        damaged.
        """
        table = schema.AttemptRow
        wanted = {}
        for attempt in attempts:
            sweep_id = self._sweep_ids[attempt.sweep.uid]
            key = (sweep_id, attempt.trial_id, attempt.repeat.number, attempt.attempt)
            wanted[key] = attempt.identity
        columns = (table.sweep_id, table.trial_id, table.repeat, table.attempt)
        statement = sa.select(table.id, *columns).where(
            table.sweep_id.in_({key[0] for key in wanted}),
            table.trial_id.in_({key[1] for key in wanted}),
        )
        ids: dict[Identity, int] = {}
        for row in connection.execute(statement):
            key = (row.sweep_id, row.trial_id, row.repeat, row.attempt)
            if key in wanted:
                ids[wanted[key]] = row.id
        rows, sound = PortableRows(connection, "", ""), {}
        for chunk in in_chunks(list(ids.values())):
            for record in rows.numbered(chunk):
                if isinstance(record, PortableAttempt):
                    sound[record.identity] = record
        return {identity: (row_id, sound.get(identity)) for identity, row_id in ids.items()}

    def _insert(self, connection: sa.Connection, attempts: Sequence[PortableAttempt]) -> None:
        new = [self._new_attempt(connection, attempt) for attempt in attempts]
        for row_id, attempt in zip(self._attempts.insert(connection, new), attempts, strict=True):
            add_annotations(connection, "attempt_id", row_id, attempt.tags, attempt.notes)

    def _new_attempt(self, connection: sa.Connection, attempt: PortableAttempt) -> NewAttempt:
        sweep_id = self._sweep_ids[attempt.sweep.uid]
        # where the same sweep has its folders elsewhere, the whole path is stored
        run_dir, around = attempt.run_dir, attempt.sweep.run_dir
        if around not in (self._run_dirs[sweep_id], None) and not run_dir.startswith("/"):
            run_dir = f"{around}/{run_dir}"
        machine_id = self._attempts.shared_id(
            attempt.machine, lambda: machine_id_of(connection, attempt.machine)
        )
        columns: dict[str, Any] = {name: getattr(attempt, name) for name in _SAME_COLUMNS}
        columns |= {"sweep_id": sweep_id, "machine_id": machine_id, "run_dir": run_dir}
        measured, measurement = attempt.measured, None
        if measured:
            beside = {name: getattr(measured, name) for name in BESIDE_A_MEASUREMENT}
            measurement = measured.measurement | beside
        return NewAttempt(
            columns=columns | {"repeat": attempt.repeat.number},
            placement=attempt.placement,
            environment=attempt.environment,
            measurement=measurement,
            op_placement=measured.op_placement if measured else {},
            steps=attempt.steps.columns() if attempt.steps else None,
        )


_SAME_COLUMNS = (
    "trial_id",
    "attempt",
    "outcome",
    "message",
    "exit_code",
    "started_at",
    "duration_s",
    "deleted_at",
)


def _removed_and_busy(
    connection: sa.Connection, sweep_ids: Collection[int], attempts: Sequence[PortableAttempt]
) -> tuple[set[Identity], set[tuple[str, str, int]]]:
    """Return attempts that people removed, and repeats in flight: whoever runs one, or finds its
    process dead, writes its attempt.
    """
    repeats, events, sweeps = schema.RepeatRow, schema.EventRow, schema.SweepRow
    trial_ids = {attempt.trial_id for attempt in attempts}
    chosen = (
        sa.select(sweeps.uid, repeats.trial_id, repeats.repeat)
        .join(repeats, repeats.sweep_id == sweeps.id)
        .where(sweeps.id.in_(sweep_ids), repeats.trial_id.in_(trial_ids))
    )
    removed = (
        chosen.add_columns(events.attempt)
        .join(events, events.repeat_id == repeats.id)
        .where(events.detail == REMOVED)
    )
    busy = chosen.where(sa.text(f"repeats.{schema.IN_FLIGHT}"))  # as its index says it
    return (
        {(row[0], row[1], row[2], row[3]) for row in connection.execute(removed)},
        {(row[0], row[1], row[2]) for row in connection.execute(busy)},
    )


def _contradiction(before: PortableAttempt | None, attempt: PortableAttempt) -> str:
    """Return in what they differ; empty when they do not."""
    which = _which(attempt)
    if before is None:
        return f"{which} is here already, and is damaged: `{typed('store')} check` says more"
    other_steps = before.steps and attempt.steps and before.steps != attempt.steps
    if before.content() == attempt.content() and not other_steps:
        return ""
    names = (*CONTENT, "machine", "steps")
    differing = [name for name in names if getattr(before, name) != getattr(attempt, name)]
    return (
        f"contradicts what is known of {which}: another {', '.join(differing)}; one of both is "
        "not the original"
    )


def _which(attempt: PortableAttempt) -> str:
    return (
        f"attempt {attempt.attempt} of repeat {attempt.repeat.number} of trial "
        f"{attempt.trial_id[:8]} of sweep {attempt.sweep.name}"
    )


def _complete(
    connection: sa.Connection,
    row_id: int,
    known: PortableAttempt | None,
    attempt: PortableAttempt,
) -> None:
    """Add the steps, tags and notes that were not known here."""
    if attempt.steps and known and known.steps is None:
        steps = attempt.steps.columns() | {"attempt_id": row_id}
        insert_all(connection, schema.StepArraysRow, [steps])
    add_annotations(connection, "attempt_id", row_id, attempt.tags, attempt.notes)
