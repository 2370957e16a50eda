"""Adds tags and notes to results, and marks attempts that shall not count for a while."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from store.database import reading, writing
from store.errors import StoreError
from store.filters import targets
from store.filters.bare_names import full_names
from store.filters.filter_values import checked
from store.filters.selection import attempt_ids, deleted_at, looks_like_filter
from store.filters.targets import Target
from store.rows import insert_all
from store.schema import AttemptRow, NoteRow, TagRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """Attempts that are to be deleted or restored."""

    condition: sa.ColumnElement[bool]  # of attempts
    num_attempts: int
    num_trials: int

    def __str__(self) -> str:
        return f"{_counted(self.num_attempts, 'attempt')} of {_counted(self.num_trials, 'trial')}"


def add_tags(engine: sa.Engine, target: Target, words: Sequence[str], at: datetime) -> int:
    """Return how many it did not have before. Raises StoreError for a tag that is none."""
    wanted = list(dict.fromkeys(_checked(word, "tag") for word in words))
    of_target = _of(target)
    with writing(engine) as connection:
        known = set(connection.scalars(sa.select(TagRow.tag).where(of_target)))
        rows = []
        for word in wanted:
            if word not in known:
                rows.append({target.column: target.id, "tag": word, "added_at": at})
        insert_all(connection, TagRow, rows)
    return len(rows)


def remove_tags(engine: sa.Engine, target: Target, words: Sequence[str]) -> int:
    """Return how many it had."""
    wanted = [_checked(word, "tag") for word in words]
    which = (_of(target), TagRow.tag.in_(wanted))
    with writing(engine) as connection:
        return connection.execute(sa.delete(TagRow).where(*which)).rowcount


def add_note(engine: sa.Engine, target: Target, text: str, at: datetime) -> None:
    """Raises StoreError for an empty note."""
    values = {target.column: target.id, "note": _checked(text, "note"), "added_at": at}
    with writing(engine) as connection:
        insert_all(connection, NoteRow, [values])


def choose(engine: sa.Engine, words: Sequence[str], *, deleted: bool) -> Chosen:
    """Choose, of one target (see `store.filters.targets`) or by filters (see
    `store.filters.selection`), the attempts that are deleted, or not.

    Raises StoreError for what is neither.
    """
    if any(map(looks_like_filter, words)):
        ids = attempt_ids(full_names(engine, words), deleted=deleted)
        condition: sa.ColumnElement[bool] = AttemptRow.id.in_(ids)
    elif len(words) == 1:
        condition = sa.and_(targets.find(engine, words[0]).has_attempt(), deleted_at(deleted))
    else:
        raise StoreError(
            "wanted one attempt, trial or sweep, or filters, as model=resnet50 'num_gpus>=4'"
        )
    num_trials = sa.func.count(AttemptRow.trial_id.distinct())
    counts = sa.select(sa.func.count(), num_trials).where(condition)
    with reading(engine) as connection:
        num_attempts, of_trials = connection.execute(counts).one()
    return Chosen(condition=condition, num_attempts=num_attempts, num_trials=of_trials)


def set_deleted(engine: sa.Engine, chosen: Chosen, at: datetime | None) -> int:
    """Delete them, or restore them without a time. Return how many they were in the end: others may
    have been quicker.
    """
    update = sa.update(AttemptRow).where(chosen.condition).values(deleted_at=at)
    with writing(engine) as connection:
        return connection.execute(update).rowcount


def _of(target: Target) -> sa.ColumnElement[bool]:
    found: sa.ColumnElement[bool] = getattr(TagRow, target.column) == target.id
    return found


def _checked(text: str, what: str) -> str:
    if not text.strip():
        raise StoreError(f"an empty {what}; wanted a word or more")
    return checked(text, "")


def _counted(num: int, what: str) -> str:
    return f"{num} {what}" if num == 1 else f"{num} {what}s"
