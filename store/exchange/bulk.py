"""The fast way into a database for many portable records at once: whole batches in each statement,
rows numbered here.

What is there already is left as it is. What contradicts it is rejected with the reason; nothing is
ever overwritten.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from typing import Any

import sqlalchemy as sa

from scalemark.records.measurement import BESIDE_A_MEASUREMENT
from scalemark.records.outcomes import IN_FLIGHT
from scalemark.records.references import Reference, Rejected
from scalemark.records.trial import TrialSpec
from scalemark.records.validation import canonical
from store import schema
from store.database import writing
from store.exchange.portable import (
    CONTENT,
    Annotation,
    Change,
    Portable,
    PortableAttempt,
    PortableRepeat,
    PortableSweep,
    PortableTrial,
    SweepHead,
)
from store.exchange.portable_rows import PortableRows, database_id
from store.finished_attempt import environment_id_of, placement_id_of
from store.machine_rows import machine_id_of
from store.reference_rows import add_references
from store.rows import digest, find_or_insert, insert_all, inserted_id
from store.sweeps.repeat_states import REMOVED, in_chunks
from store.trial_rows import insert_trials
from store.writer import add_left_out

ROWS_PER_TRANSACTION = 5000

RENAMED = re.compile(r" \(\d+\)$")
"""What the name of an imported sweep may end with, because another had its name."""

Located = tuple[str, Portable]
"""A record, and where it stands, as "results.csv line 12"."""

Identity = tuple[str, str, int, int]
"""Of an attempt: PortableAttempt.identity."""

RepeatKey = tuple[int, str, int]
"""Sweep, trial and number of a repeat."""


@dataclass(slots=True)
class Added:
    """What became of the records."""

    num_new: int = 0  # attempts
    num_known: int = 0  # attempts that were there already, and are left as they are
    num_references: int = 0  # new ones
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
    """All that are new, in as many transactions as it takes. Raises StoreError.

    `origin` is for sweeps that tell none of their own; empty: they were measured into this
    database.
    """
    bulk = Bulk(origin=origin)
    located = ((f"record {number}", record) for number, record in enumerate(records, 1))
    while batch := list(itertools.islice(located, rows_per_transaction)):
        with writing(engine) as connection:
            bulk.add(connection, batch)
    return bulk.added


class Bulk:
    """Adds records inside transactions of the caller: of one database, and dropped when a
    transaction is rolled back.
    """

    def __init__(self, *, origin: str = "", added: Added | None = None) -> None:
        """`added`: what others have added, to go on counting."""
        self.added = added or Added()
        self._origin = origin
        self._own_id: str | None = None
        self._sweep_ids: dict[str, int] = {}
        self._run_dirs: dict[int, str | None] = {}
        self._trials: set[str] = set()
        self._row_ids: dict[Hashable, int] = {}

    def add(self, connection: sa.Connection, records: Sequence[Located]) -> None:
        """In their order, but for their kinds. The transaction has the database for itself, so rows
        can be numbered here.
        """
        if self._own_id is None:
            self._own_id = database_id(connection)
        for _, record in records:
            if isinstance(record, PortableSweep):
                self._add_sweep(connection, record)
        trials = [record for _, record in records if isinstance(record, PortableTrial)]
        attempts = [
            (where, record) for where, record in records if isinstance(record, PortableAttempt)
        ]
        self._add_trials(connection, [*trials, *(attempt for _, attempt in attempts)])
        self._add_repeats(
            connection, [(trial, repeat) for trial in trials for repeat in trial.repeats]
        )
        for trial in trials:
            _annotate(connection, {"trial_id": trial.trial_id}, trial.tags, trial.notes)
        for chunk in in_chunks(attempts):
            self._add_attempts(connection, chunk)
        references = [record for _, record in records if isinstance(record, Reference)]
        self.added.num_references += add_references(connection, references)

    def _add_sweep(self, connection: sa.Connection, record: PortableSweep) -> None:
        sweep_id = self._sweep_id(connection, record.sweep)
        add_left_out(connection, sweep_id, record.left_out)
        _annotate(connection, {"sweep_id": sweep_id}, record.tags, record.notes)

    def _sweep_id(self, connection: sa.Connection, sweep: SweepHead) -> int:
        if sweep.uid in self._sweep_ids:
            return self._sweep_ids[sweep.uid]
        table = schema.SweepRow
        columns = (table.id, table.origin, table.finished_at, table.run_dir)
        known = connection.execute(sa.select(*columns).where(table.uid == sweep.uid)).one_or_none()
        if known is None:
            name = self._free_name(connection, sweep.name)
            told = asdict(sweep) | {"name": name, "origin": self._origin_of(sweep)}
            sweep_id, run_dir = inserted_id(connection, table, told), sweep.run_dir
        else:
            sweep_id, run_dir = known.id, known.run_dir or sweep.run_dir
            values: dict[str, Any] = {} if known.run_dir else {"run_dir": run_dir}
            if (
                known.origin
                and sweep.finished_at
                and (known.finished_at is None or known.finished_at < sweep.finished_at)
            ):
                values["finished_at"] = sweep.finished_at  # of our own sweeps we know better
            if values:
                connection.execute(sa.update(table).where(table.id == sweep_id).values(values))
        self._sweep_ids[sweep.uid], self._run_dirs[sweep_id] = sweep_id, run_dir
        return sweep_id

    def _free_name(self, connection: sa.Connection, name: str) -> str:
        """NAME, or NAME (2) when another sweep has it."""
        # as RENAMED
        names = itertools.chain([name], (f"{name} ({count})" for count in itertools.count(2)))
        table = schema.SweepRow
        free = next(
            one
            for one in names
            if connection.scalar(sa.select(table.id).where(table.name == one)) is None
        )
        if free != name:
            self.added.renamed[name] = free
        return free

    def _origin_of(self, sweep: SweepHead) -> str:
        """What comes back to where it was measured is at home."""
        return "" if sweep.origin.split(" ")[0] == self._own_id else sweep.origin or self._origin

    def _add_trials(
        self, connection: sa.Connection, records: Sequence[PortableTrial | PortableAttempt]
    ) -> None:
        """New trials, and their places in their sweeps."""
        specs: dict[str, TrialSpec] = {}
        places: dict[tuple[int, str], int] = {}
        for record in records:
            trial_id, sweep_id = record.trial_id, self._sweep_id(connection, record.sweep)
            if trial_id not in self._trials:
                specs[trial_id] = record.spec
            places.setdefault((sweep_id, trial_id), record.position)
        insert_trials(connection, specs)
        asked_for = _asked_for(connection, places)
        links = [
            {"sweep_id": sweep_id, "trial_id": trial_id, "position": position}
            for (sweep_id, trial_id), position in places.items()
            if (sweep_id, trial_id) not in asked_for
        ]
        insert_all(connection, schema.SweepTrialRow, links)
        self._trials |= specs.keys()

    def _add_repeats(
        self,
        connection: sa.Connection,
        told: Sequence[tuple[PortableTrial | PortableAttempt, PortableRepeat]],
    ) -> None:
        """New ones with their changes; what others know of a known one is added to it."""
        wanted: dict[RepeatKey, PortableRepeat] = {}
        for record, repeat in told:
            sweep_id = self._sweep_id(connection, record.sweep)
            key = (sweep_id, record.trial_id, repeat.number)
            repeat = repeat if repeat.changes else _with_one_change(repeat, record)
            wanted[key] = _merged(wanted[key], repeat) if key in wanted else repeat
        known = _known_repeats(connection, wanted)
        table = schema.RepeatRow
        new = [key for key in wanted if key not in known]
        rows: list[dict[str, Any]] = []
        events: list[dict[str, Any]] = []
        for repeat_id, key in enumerate(new, _last_id(connection, table) + 1):
            repeat = wanted[key]
            state = {
                "state": repeat.state,
                "reason": repeat.reason,
                "num_attempts": repeat.num_attempts,
            }
            rows.append(
                {"id": repeat_id, "sweep_id": key[0], "trial_id": key[1], "repeat": key[2]} | state
            )
            events.extend(_events(repeat_id, repeat.changes))
        insert_all(connection, table, rows)
        insert_all(connection, schema.EventRow, events)
        _continue_numbers(connection, table, rows)
        for key, (repeat_id, is_busy, before) in known.items():
            after = _merged(before, wanted[key])
            if after != before and not is_busy:
                _replace(connection, repeat_id, after)

    def _add_attempts(
        self, connection: sa.Connection, located: Sequence[tuple[str, PortableAttempt]]
    ) -> None:
        known = self._known_attempts(connection, [attempt for _, attempt in located])
        removed = self._removed_attempts(connection, [attempt for _, attempt in located])
        busy = self._busy_repeats(connection, [attempt for _, attempt in located])
        new: dict[Identity, PortableAttempt] = {}
        again: list[PortableAttempt] = []
        for where, attempt in located:
            if attempt.identity in removed:
                self.added.rejected.append(
                    Rejected(where=where, reason=f"{_which(attempt)} was removed here for good")
                )
                continue
            if attempt.identity not in known and attempt.identity[:3] in busy:
                why = (
                    f"{_which(attempt)}: it is being run here; nothing to import until it has ended"
                )
                self.added.rejected.append(Rejected(where=where, reason=why))
                continue
            if attempt.identity not in known and attempt.identity not in new:
                new[attempt.identity] = attempt
                continue
            before = (
                known[attempt.identity].attempt
                if attempt.identity in known
                else new[attempt.identity]
            )
            if why := _contradiction(before, attempt):
                self.added.rejected.append(Rejected(where=where, reason=why))
            else:
                again.append(attempt)
        self._add_repeats(
            connection, [(attempt, attempt.repeat) for attempt in (*new.values(), *again)]
        )
        self._insert(connection, list(new.values()))
        for attempt in again:
            if attempt.identity in known:
                _complete(connection, known[attempt.identity], attempt)
        self.added.num_new += len(new)
        self.added.num_known += len(again)

    def _known_attempts(
        self, connection: sa.Connection, attempts: Sequence[PortableAttempt]
    ) -> dict[Identity, _Known]:
        """Of these, what is here."""
        table = schema.AttemptRow
        wanted = {
            (
                self._sweep_ids[attempt.sweep.uid],
                attempt.trial_id,
                attempt.repeat.number,
                attempt.attempt,
            ): attempt.identity
            for attempt in attempts
        }
        columns = (table.id, table.sweep_id, table.trial_id, table.repeat, table.attempt)
        statement = sa.select(*columns).where(
            table.sweep_id.in_({key[0] for key in wanted}),
            table.trial_id.in_({key[1] for key in wanted}),
        )
        numbers = {
            row[0]: wanted[key]
            for row in connection.execute(statement)
            if (key := tuple(row[1:])) in wanted
        }
        found = {
            identity: _Known(row_id=row_id, attempt=None) for row_id, identity in numbers.items()
        }
        rows = PortableRows(connection, "", "")
        for ids in in_chunks(list(numbers)):
            for attempt in rows.numbered(ids):
                if isinstance(attempt, PortableAttempt):
                    found[attempt.identity] = replace(found[attempt.identity], attempt=attempt)
        return found

    def _removed_attempts(
        self, connection: sa.Connection, attempts: Sequence[PortableAttempt]
    ) -> set[Identity]:
        """What people removed shall not come back by itself."""
        repeats, events, sweeps = schema.RepeatRow, schema.EventRow, schema.SweepRow
        statement = (
            sa.select(sweeps.uid, repeats.trial_id, repeats.repeat, events.attempt)
            .join(repeats, repeats.sweep_id == sweeps.id)
            .join(events, events.repeat_id == repeats.id)
            .where(
                sweeps.id.in_({self._sweep_ids[attempt.sweep.uid] for attempt in attempts}),
                repeats.trial_id.in_({attempt.trial_id for attempt in attempts}),
                events.detail == REMOVED,
            )
        )
        return {(row[0], row[1], row[2], row[3]) for row in connection.execute(statement)}

    def _busy_repeats(
        self, connection: sa.Connection, attempts: Sequence[PortableAttempt]
    ) -> set[tuple[str, str, int]]:
        """Sweep, trial and number of those in flight: whoever runs one writes its attempt, or who
        finds it dead does.
        """
        repeats, sweeps = schema.RepeatRow, schema.SweepRow
        statement = (
            sa.select(sweeps.uid, repeats.trial_id, repeats.repeat)
            .join(sweeps, sweeps.id == repeats.sweep_id)
            .where(
                sweeps.id.in_({self._sweep_ids[attempt.sweep.uid] for attempt in attempts}),
                repeats.trial_id.in_({attempt.trial_id for attempt in attempts}),
                sa.text(f"repeats.{schema.IN_FLIGHT}"),  # as its index says it
            )
        )
        return {(row[0], row[1], row[2]) for row in connection.execute(statement)}

    def _insert(self, connection: sa.Connection, attempts: Sequence[PortableAttempt]) -> None:
        rows, measurements, steps = [], [], []
        first = _last_id(connection, schema.AttemptRow) + 1
        for row_id, attempt in enumerate(attempts, first):
            sweep_id = self._sweep_ids[attempt.sweep.uid]
            told = {name: getattr(attempt, name) for name in _SAME}
            told |= {"id": row_id, "sweep_id": sweep_id, "repeat": attempt.repeat.number}
            told |= {
                "machine_id": self._machine_id(connection, attempt),
                "run_dir": self._run_dir(sweep_id, attempt),
            }
            told |= {
                "placement_id": self._placement_id(connection, attempt),
                "shares_host": attempt.placement.shares_host,
            }
            rows.append(told | {"environment_id": self._environment_id(connection, attempt)})
            if measured := attempt.measured:
                around = {name: getattr(measured, name) for name in BESIDE_A_MEASUREMENT} | {
                    "attempt_id": row_id
                }
                op_placement_id = self._op_placement_id(connection, measured.op_placement)
                measurements.append(
                    measured.measurement | around | {"op_placement_id": op_placement_id}
                )
            if attempt.steps:
                steps.append(attempt.steps.columns() | {"attempt_id": row_id})
        insert_all(connection, schema.AttemptRow, rows)
        insert_all(connection, schema.MeasurementRow, measurements)
        insert_all(connection, schema.StepArraysRow, steps)
        _continue_numbers(connection, schema.AttemptRow, rows)
        for row_id, attempt in enumerate(attempts, first):
            _annotate(connection, {"attempt_id": row_id}, attempt.tags, attempt.notes)

    def _run_dir(self, sweep_id: int, attempt: PortableAttempt) -> str:
        """Where the same sweep has its folders elsewhere, the whole path."""
        around, here = attempt.sweep.run_dir, self._run_dirs[sweep_id]
        is_whole = around == here or around is None or attempt.run_dir.startswith("/")
        return attempt.run_dir if is_whole else f"{around}/{attempt.run_dir}"

    def _machine_id(self, connection: sa.Connection, attempt: PortableAttempt) -> int:
        return self._numbered(attempt.machine, lambda: machine_id_of(connection, attempt.machine))

    def _placement_id(self, connection: sa.Connection, attempt: PortableAttempt) -> int:
        return self._numbered(
            attempt.placement, lambda: placement_id_of(connection, attempt.placement)
        )

    def _environment_id(self, connection: sa.Connection, attempt: PortableAttempt) -> int | None:
        environment = attempt.environment
        if environment is None:
            return None
        return self._numbered(
            ("environment", canonical(environment)),
            lambda: environment_id_of(connection, environment),
        )

    def _op_placement_id(
        self, connection: sa.Connection, described: dict[str, dict[str, int]]
    ) -> int:
        key = digest(described)
        values = {"description": described}
        return self._numbered(
            ("operations", key),
            lambda: find_or_insert(connection, schema.OpPlacementRow, key, values),
        )

    def _numbered(self, key: Hashable, find: Callable[[], int]) -> int:
        """The row of what many attempts share: asked for once."""
        if key not in self._row_ids:
            self._row_ids[key] = find()
        return self._row_ids[key]


_SAME = (
    "trial_id",
    "attempt",
    "outcome",
    "message",
    "exit_code",
    "started_at",
    "duration_s",
    "deleted_at",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """An attempt that is here already."""

    row_id: int
    attempt: PortableAttempt | None  # none when its row is damaged


def _contradiction(before: PortableAttempt | None, attempt: PortableAttempt) -> str:
    """Empty when there is none."""
    which = _which(attempt)
    if before is None:
        return f"{which} is here already, and is damaged: `python -m store check` tells more"
    if before.content() == attempt.content() and not (
        before.steps and attempt.steps and before.steps != attempt.steps
    ):
        return ""
    differing = [
        name
        for name in (*CONTENT, "machine", "steps")
        if getattr(before, name) != getattr(attempt, name)
    ]
    return (
        f"contradicts what is known of {which}: another {', '.join(differing)}; one of both is "
        "not the original"
    )


def _which(attempt: PortableAttempt) -> str:
    of_what = (
        f"repeat {attempt.repeat.number} of trial {attempt.trial_id[:8]} of sweep "
        f"{attempt.sweep.name}"
    )
    return f"attempt {attempt.attempt} of {of_what}"


def _complete(connection: sa.Connection, known: _Known, attempt: PortableAttempt) -> None:
    """What was not known of it: its steps, and what people said of it elsewhere."""
    if attempt.steps and known.attempt and known.attempt.steps is None:
        insert_all(
            connection,
            schema.StepArraysRow,
            [attempt.steps.columns() | {"attempt_id": known.row_id}],
        )
    _annotate(connection, {"attempt_id": known.row_id}, attempt.tags, attempt.notes)


def _annotate(
    connection: sa.Connection,
    subject: dict[str, Any],
    tags: Sequence[Annotation],
    notes: Sequence[Annotation],
) -> None:
    """What is not said of it already. `subject` is the column that names it, with its value."""
    ((column, value),) = subject.items()
    kinds: tuple[
        tuple[type[schema.TagRow] | type[schema.NoteRow], str, Sequence[Annotation]], ...
    ] = (
        (schema.TagRow, "tag", tags),
        (schema.NoteRow, "note", notes),
    )
    for table, text, told in kinds:
        if not told:
            continue
        columns = table.__table__.columns
        statement = sa.select(columns[text], table.added_at).where(columns[column] == value)
        known = {(row[0], row[1]) for row in connection.execute(statement)}
        tagged = {known_tag for known_tag, _ in known} if text == "tag" else set()
        new = [
            one for one in told if (one.text, one.added_at) not in known and one.text not in tagged
        ]
        insert_all(
            connection,
            table,
            [{**subject, text: one.text, "added_at": one.added_at} for one in dict.fromkeys(new)],
        )


def _with_one_change(
    repeat: PortableRepeat, record: PortableTrial | PortableAttempt
) -> PortableRepeat:
    """Its state now, where nobody told how it came to it."""
    at = record.sweep.finished_at or record.sweep.started_at
    if isinstance(record, PortableAttempt):
        at = record.started_at + timedelta(seconds=record.duration_s or 0)
    detail = f"imported from {record.sweep.origin}" if record.sweep.origin else "imported"
    change = Change(at=at, attempt=repeat.num_attempts, state=repeat.state, detail=detail)
    return replace(repeat, changes=(change,))


def _merged(known: PortableRepeat, told: PortableRepeat) -> PortableRepeat:
    """All changes that either knows, in their order in time; where it stands is told by who knows
    the last.

    What is imported without its changes adds its own only when it tells of more attempts. That an
    attempt was removed elsewhere is nothing to us.
    """
    told = replace(
        told,
        changes=tuple(one for one in told.changes if one.detail != REMOVED or one in known.changes),
    )
    if known == told or set(told.changes) <= set(known.changes):
        return known
    if _is_bare(told) and told.num_attempts <= known.num_attempts:
        return known
    if _is_bare(known) and not _is_bare(told) and known.num_attempts <= told.num_attempts:
        return told
    changes = sorted(dict.fromkeys((*known.changes, *told.changes)), key=lambda change: change.at)
    newer = told if told.changes[-1] == changes[-1] else known
    return replace(
        newer, num_attempts=max(known.num_attempts, told.num_attempts), changes=tuple(changes)
    )


def _is_bare(repeat: PortableRepeat) -> bool:
    """Imported without its changes."""
    return len(repeat.changes) == 1 and repeat.changes[0].detail.startswith("imported")


def _asked_for(
    connection: sa.Connection, wanted: Iterable[tuple[int, str]]
) -> set[tuple[int, str]]:
    """Sweeps and trials of these, and maybe others, that are here: asked anew each time, because
    others import, too.
    """
    links = schema.SweepTrialRow
    found: set[tuple[int, str]] = set()
    for chunk in in_chunks(list(wanted)):
        statement = sa.select(links.sweep_id, links.trial_id).where(
            links.sweep_id.in_({sweep_id for sweep_id, _ in chunk}),
            links.trial_id.in_({trial_id for _, trial_id in chunk}),
        )
        found.update((row[0], row[1]) for row in connection.execute(statement))
    return found


def _known_repeats(
    connection: sa.Connection, wanted: Mapping[RepeatKey, PortableRepeat]
) -> dict[RepeatKey, tuple[int, bool, PortableRepeat]]:
    """Of these, what is here: number of the row, whether somebody runs it now, and all that is told
    of it.
    """
    table = schema.RepeatRow
    keys = list(wanted)
    found = {}
    for chunk in in_chunks(keys):
        statement = sa.select(
            table.id, table.sweep_id, table.trial_id, table.repeat, table.state
        ).where(
            table.sweep_id.in_({key[0] for key in chunk}),
            table.trial_id.in_({key[1] for key in chunk}),
        )
        rows = {(row[1], row[2], row[3]): row for row in connection.execute(statement)}
        known = PortableRows(connection, "", "").repeats(rows.keys() & set(chunk))
        for key, repeat in known.items():
            found[key] = (rows[key].id, rows[key].state in IN_FLIGHT, repeat)
    return found


def _replace(connection: sa.Connection, repeat_id: int, repeat: PortableRepeat) -> None:
    table, events = schema.RepeatRow, schema.EventRow
    values = {"state": repeat.state, "reason": repeat.reason, "num_attempts": repeat.num_attempts}
    connection.execute(sa.update(table).where(table.id == repeat_id).values(values))
    connection.execute(sa.delete(events).where(events.repeat_id == repeat_id))
    insert_all(connection, events, list(_events(repeat_id, repeat.changes)))


def _events(repeat_id: int, changes: Sequence[Change]) -> Iterator[dict[str, Any]]:
    for number, change in enumerate(changes, 1):
        told = {"attempt": change.attempt, "state": change.state, "detail": change.detail}
        yield told | {"repeat_id": repeat_id, "number": number, "at_unix_us": change.at}


def _last_id(
    connection: sa.Connection, table: type[schema.AttemptRow] | type[schema.RepeatRow]
) -> int:
    return connection.scalar(sa.select(sa.func.max(table.id))) or 0


def _continue_numbers(
    connection: sa.Connection,
    table: type[schema.AttemptRow] | type[schema.RepeatRow],
    rows: Sequence[Mapping[str, Any]],
) -> None:
    """PostgreSQL counts on its own, and has not seen these."""
    if rows and connection.dialect.name == "postgresql":
        sequence = sa.func.pg_get_serial_sequence(table.__tablename__, "id")
        connection.execute(sa.select(sa.func.setval(sequence, rows[-1]["id"])))
