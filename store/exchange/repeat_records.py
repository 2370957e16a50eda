"""Reads repeats with their changes of state, and merges in what another database knows of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import sqlalchemy as sa

from scalemark.records.outcomes import IN_FLIGHT, State
from store import schema
from store.exchange.portable import Change, PortableAttempt, PortableRepeat, PortableTrial
from store.rows import insert_all, inserted_ids
from store.sweeps.repeat_states import REMOVED, in_chunks

RepeatKey = tuple[int, str, int]
"""Sweep, trial and number of a repeat."""

_Repeats = dict[RepeatKey, tuple[sa.Row[Any], PortableRepeat]]


def read_repeats(
    connection: sa.Connection, keys: Collection[RepeatKey]
) -> dict[RepeatKey, PortableRepeat]:
    """Return those of these repeats that there are."""
    return {key: repeat for key, (_, repeat) in _read(connection, keys).items()}


def merge_repeats(connection: sa.Connection, wanted: Mapping[RepeatKey, PortableRepeat]) -> None:
    """Insert new repeats with their changes; add to known ones what was not known here."""
    known = _read(connection, wanted)
    new = [key for key in wanted if key not in known]
    rows: list[dict[str, Any]] = []
    for sweep_id, trial_id, number in new:
        values = _values(wanted[sweep_id, trial_id, number])
        rows.append({"sweep_id": sweep_id, "trial_id": trial_id, "repeat": number} | values)
    events: list[dict[str, Any]] = []
    for repeat_id, key in zip(inserted_ids(connection, schema.RepeatRow, rows), new, strict=True):
        events.extend(_events(repeat_id, wanted[key].changes))
    insert_all(connection, schema.EventRow, events)
    for key, (row, before) in known.items():
        after = merged(before, wanted[key])
        # a repeat that somebody runs here is left alone
        if after != before and row.state not in IN_FLIGHT:
            _replace(connection, row.id, after)


def with_one_change(
    repeat: PortableRepeat, record: PortableTrial | PortableAttempt
) -> PortableRepeat:
    """Return a repeat whose changes are not known with one that says how it came here."""
    if repeat.changes:
        return repeat
    at = record.sweep.finished_at or record.sweep.started_at
    if isinstance(record, PortableAttempt):
        at = record.started_at + timedelta(seconds=record.duration_s or 0)
    detail = f"imported from {record.sweep.origin}" if record.sweep.origin else "imported"
    change = Change(at=at, attempt=repeat.num_attempts, state=repeat.state, detail=detail)
    return replace(repeat, changes=(change,))


def merged(known: PortableRepeat, found: PortableRepeat) -> PortableRepeat:
    """Return all changes that either has, in their order in time; the last one gives the state.

    A repeat without its changes counts only when it has more attempts. That an attempt was removed
    elsewhere does not count here.
    """
    changes = [one for one in found.changes if one.detail != REMOVED or one in known.changes]
    found = replace(found, changes=tuple(changes))
    if set(found.changes) <= set(known.changes):
        return known
    if _is_bare(found) and found.num_attempts <= known.num_attempts:
        return known
    if _is_bare(known) and not _is_bare(found) and known.num_attempts <= found.num_attempts:
        return found
    changes = sorted(dict.fromkeys((*known.changes, *found.changes)), key=lambda one: one.at)
    newer = found if found.changes[-1] == changes[-1] else known
    num_attempts = max(known.num_attempts, found.num_attempts)
    return replace(newer, num_attempts=num_attempts, changes=tuple(changes))


def _is_bare(repeat: PortableRepeat) -> bool:
    """Tell whether it was imported without its changes."""
    return len(repeat.changes) == 1 and repeat.changes[0].detail.startswith("imported")


def _read(connection: sa.Connection, keys: Collection[RepeatKey]) -> _Repeats:
    table, events = schema.RepeatRow, schema.EventRow
    numbers = (table.id, table.sweep_id, table.repeat, table.num_attempts)
    columns: Sequence[Any] = (*numbers, table.trial_id, table.state, table.reason)
    found: _Repeats = {}
    for chunk in in_chunks(list(keys)):
        statement = sa.select(*columns).where(
            table.sweep_id.in_({sweep_id for sweep_id, _, _ in chunk}),
            table.trial_id.in_({trial_id for _, trial_id, _ in chunk}),
        )
        wanted = set(chunk)
        rows = {}
        for row in connection.execute(statement):
            if (row.sweep_id, row.trial_id, row.repeat) in wanted:
                rows[row.id] = row
        changes: dict[int, list[Change]] = {}
        for ids in in_chunks(list(rows)):
            of_ids = sa.select(events.__table__).where(events.repeat_id.in_(ids))
            ordered = of_ids.order_by(events.repeat_id, events.number)
            for event in connection.execute(ordered):
                change = Change(
                    at=event.at_unix_us,
                    attempt=event.attempt,
                    state=event.state,
                    detail=event.detail,
                )
                changes.setdefault(event.repeat_id, []).append(change)
        for row in rows.values():
            repeat = _repeat(row, changes.get(row.id, []))
            found[row.sweep_id, row.trial_id, row.repeat] = row, repeat
    return found


def _repeat(row: sa.Row[Any], changes: list[Change]) -> PortableRepeat:
    """Return what runs as it was before: nobody runs it where it travels to."""
    state, num_attempts = State(row.state), row.num_attempts
    if state in IN_FLIGHT:
        while changes and changes[-1].state in IN_FLIGHT:
            changes.pop()
        num_attempts -= state is State.RUNNING
        state = State.PENDING
    return PortableRepeat(
        number=row.repeat,
        state=state.value,
        reason=row.reason,
        num_attempts=num_attempts,
        changes=tuple(changes),
    )


def _replace(connection: sa.Connection, repeat_id: int, repeat: PortableRepeat) -> None:
    table, events = schema.RepeatRow, schema.EventRow
    connection.execute(sa.update(table).where(table.id == repeat_id).values(_values(repeat)))
    connection.execute(sa.delete(events).where(events.repeat_id == repeat_id))
    insert_all(connection, events, list(_events(repeat_id, repeat.changes)))


def _values(repeat: PortableRepeat) -> dict[str, Any]:
    return {"state": repeat.state, "reason": repeat.reason, "num_attempts": repeat.num_attempts}


def _events(repeat_id: int, changes: Sequence[Change]) -> Iterator[dict[str, Any]]:
    for number, change in enumerate(changes, 1):
        yield {
            "repeat_id": repeat_id,
            "number": number,
            "at_unix_us": change.at,
            "attempt": change.attempt,
            "state": change.state,
            "detail": change.detail,
        }
