"""What people do to results once they are there: tags and notes, and attempts that shall not count
for a while.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from store.database import reading, writing
from store.errors import StoreError
from store.filters import targets
from store.filters.filter_values import checked
from store.filters.selection import attempt_ids, deleted_at, looks_like_filter
from store.filters.targets import Target
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
    """How many it did not have before. Raises StoreError for a tag that is none."""
    wanted = list(dict.fromkeys(_checked(word, "tag") for word in words))
    with writing(engine) as connection:
        known = set(
            connection.scalars(
                sa.select(TagRow.tag).where(_of(TagRow, target), TagRow.tag.in_(wanted))
            )
        )
        new = [
            {target.column: target.id, "tag": word, "added_at": at}
            for word in wanted
            if word not in known
        ]
        if new:
            connection.execute(sa.insert(TagRow), new)
    return len(new)


def remove_tags(engine: sa.Engine, target: Target, words: Sequence[str]) -> int:
    """How many it had."""
    wanted = [_checked(word, "tag") for word in words]
    with writing(engine) as connection:
        return connection.execute(
            sa.delete(TagRow).where(_of(TagRow, target), TagRow.tag.in_(wanted))
        ).rowcount


def add_note(engine: sa.Engine, target: Target, text: str, at: datetime) -> None:
    """Raises StoreError for a note that says nothing."""
    values = {target.column: target.id, "note": _checked(text, "note"), "added_at": at}
    with writing(engine) as connection:
        connection.execute(sa.insert(NoteRow).values(values))


def choose(engine: sa.Engine, words: Sequence[str], *, deleted: bool) -> Chosen:
    """One target (see `store.filters.targets`), or filters (see `store.filters.selection`): of its attempts those
    that are deleted, or not.

    Raises StoreError for what is neither.
    """
    if any(map(looks_like_filter, words)):
        condition: sa.ColumnElement[bool] = AttemptRow.id.in_(attempt_ids(words, deleted=deleted))
    elif len(words) == 1:
        condition = sa.and_(targets.find(engine, words[0]).has_attempt(), deleted_at(deleted))
    else:
        raise StoreError(
            "wanted one attempt, trial or sweep, or filters, as model=resnet50 'num_gpus>=4'"
        )
    counts = sa.select(sa.func.count(), sa.func.count(AttemptRow.trial_id.distinct())).where(
        condition
    )
    with reading(engine) as connection:
        num_attempts, num_trials = connection.execute(counts).one()
    return Chosen(condition=condition, num_attempts=num_attempts, num_trials=num_trials)


def set_deleted(engine: sa.Engine, chosen: Chosen, at: datetime | None) -> int:
    """`at` none restores them. How many they were in the end: others may have been quicker."""
    with writing(engine) as connection:
        return connection.execute(
            sa.update(AttemptRow).where(chosen.condition).values(deleted_at=at)
        ).rowcount


def _of(table: type[TagRow], target: Target) -> sa.ColumnElement[bool]:
    found: sa.ColumnElement[bool] = getattr(table, target.column) == target.id
    return found


def _checked(text: str, what: str) -> str:
    if not text.strip():
        raise StoreError(f"an empty {what}; wanted a word or more")
    return checked(text, "")


def _counted(num: int, what: str) -> str:
    return f"{num} {what}" if num == 1 else f"{num} {what}s"
