"""`python -m store tag|note|delete|restore`: what people add to results. Nothing that was measured
is changed or lost.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

import sqlalchemy as sa
import typer

from scalemark.cli.terminal import print_json
from scalemark.host.own_code import typed
from scalemark.text.untrusted import visible
from scalemark.text.wording import counted
from store.command_line import Db, Json, ask
from store.database import check_writable, open_for_reading, open_for_writing, reading, writing
from store.errors import StoreError
from store.filters import ID_BEGINNING, attempt_ids, checked, deleted_at, looks_like_filter
from store.reading import show
from store.reading.listing import full_names
from store.reading.show import Target
from store.rows import insert_all
from store.schema import AttemptRow, NoteRow, TagRow

_Named = Annotated[
    str, typer.Argument(help=f"Number of an attempt, {ID_BEGINNING}, or a sweep's name.")
]
_Meant = Annotated[
    list[str], typer.Argument(help="An attempt, a trial or a sweep; or filters, as for `list`.")
]


def tag(
    which: _Named,
    words: Annotated[list[str], typer.Argument(help="What to find it by: `list tag=WORD`.")],
    db: Db,
    remove: Annotated[bool, typer.Option("--remove", help="Take these tags away.")] = False,
    as_json: Json = False,
) -> None:
    """Give an attempt, a trial or a sweep tags to find it by."""
    engine = _writable(db)
    target = show.find(engine, which)
    if remove:
        num, done = remove_tags(engine, target, words), "taken away"
    else:
        num, done = add_tags(engine, target, words, datetime.now(UTC)), "added"
    if as_json:
        return print_json({"target": target.name, "tags": words, done.replace(" ", "_"): num})
    print(f"{visible(target.name)}: {num} of {len(words)} tags {done}")


def note(
    which: _Named,
    text: Annotated[str, typer.Argument(help="What there is to say; `show` prints it.")],
    db: Db,
    as_json: Json = False,
) -> None:
    """Add a note to an attempt, a trial or a sweep."""
    engine = _writable(db)
    target = show.find(engine, which)
    add_note(engine, target, text, datetime.now(UTC))
    if as_json:
        return print_json({"target": target.name, "note": text})
    print(f"{visible(target.name)}: note added")


def delete(
    what: _Meant,
    db: Db,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: Json = False,
) -> None:
    """Let attempts count nowhere; a sweep that wants them measures them again. `restore` undoes
    it.
    """
    engine = _writable(db)
    chosen = choose(engine, what, deleted=False)
    if chosen.num_attempts:
        ask(f"{chosen} would be deleted", yes=yes)
    num_deleted = set_deleted(engine, chosen, datetime.now(UTC))
    if as_json:
        return print_json({"deleted": num_deleted})
    again = " ".join(map(shlex.quote, what))
    hint = f"; `{typed('store')} restore {again}` brings them back" if num_deleted else ""
    print(f"{num_deleted} deleted{hint}")


def restore(what: _Meant, db: Db, as_json: Json = False) -> None:
    """Let deleted attempts count again."""
    engine = _writable(db)
    chosen = choose(engine, what, deleted=True)
    num_restored = set_deleted(engine, chosen, None)
    if as_json:
        return print_json({"restored": num_restored})
    print(f"{num_restored} restored")


def _writable(db: str) -> sa.Engine:
    """Open a database that exists: nobody annotates an empty one."""
    open_for_reading(db).dispose()
    check_writable(db)
    return open_for_writing(db)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenAttempts:
    """Attempts that are to be deleted or restored."""

    condition: sa.ColumnElement[bool]  # of attempts
    num_attempts: int
    num_trials: int

    def __str__(self) -> str:
        return f"{counted(self.num_attempts, 'attempt')} of {counted(self.num_trials, 'trial')}"


def add_tags(engine: sa.Engine, target: Target, words: Sequence[str], at: datetime) -> int:
    """Return how many it did not have before. Raises StoreError for a tag that is none."""
    wanted = list(dict.fromkeys(_checked(word, "tag") for word in words))
    tags = sa.select(TagRow.tag).where(getattr(TagRow, target.column) == target.id)
    with writing(engine) as connection:
        known = set(connection.scalars(tags))
        rows = []
        for word in wanted:
            if word not in known:
                rows.append({target.column: target.id, "tag": word, "added_at": at})
        insert_all(connection, TagRow, rows)
    return len(rows)


def remove_tags(engine: sa.Engine, target: Target, words: Sequence[str]) -> int:
    """Return how many it had."""
    wanted = [_checked(word, "tag") for word in words]
    which = (getattr(TagRow, target.column) == target.id, TagRow.tag.in_(wanted))
    with writing(engine) as connection:
        return connection.execute(sa.delete(TagRow).where(*which)).rowcount


def add_note(engine: sa.Engine, target: Target, text: str, at: datetime) -> None:
    """Raises StoreError for an empty note."""
    values = {target.column: target.id, "note": _checked(text, "note"), "added_at": at}
    with writing(engine) as connection:
        insert_all(connection, NoteRow, [values])


def choose(engine: sa.Engine, words: Sequence[str], *, deleted: bool) -> ChosenAttempts:
    """Choose, of one target (see `store.reading.show`) or by filters (see
    `store.filters`), the attempts that are deleted, or not.

    Raises StoreError for what is neither.
    """
    if any(map(looks_like_filter, words)):
        ids = attempt_ids(full_names(engine, words), deleted=deleted)
        condition: sa.ColumnElement[bool] = AttemptRow.id.in_(ids)
    elif len(words) == 1:
        condition = sa.and_(show.find(engine, words[0]).has_attempt(), deleted_at(deleted))
    else:
        raise StoreError(
            "wanted one attempt, trial or sweep, or filters, as model=resnet50 'num_gpus>=4'"
        )
    num_trials = sa.func.count(AttemptRow.trial_id.distinct())
    counts = sa.select(sa.func.count(), num_trials).where(condition)
    with reading(engine) as connection:
        num_attempts, of_trials = connection.execute(counts).one()
    return ChosenAttempts(condition=condition, num_attempts=num_attempts, num_trials=of_trials)


def set_deleted(engine: sa.Engine, chosen: ChosenAttempts, at: datetime | None) -> int:
    """Delete them, or restore them without a time. Return how many they were in the end: others may
    have been quicker.
    """
    update = sa.update(AttemptRow).where(chosen.condition).values(deleted_at=at)
    with writing(engine) as connection:
        return connection.execute(update).rowcount


def _checked(text: str, what: str) -> str:
    if not text.strip():
        raise StoreError(f"an empty {what}; wanted a word or more")
    return checked(text, "")
