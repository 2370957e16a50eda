"""`python -m store tag|note|delete|restore`: what people add to results. Nothing that was measured
is changed or lost.
"""

from __future__ import annotations

import shlex
from datetime import UTC, datetime
from typing import Annotated

import sqlalchemy as sa
import typer

from scalemark.cli.terminal import print_json
from scalemark.host.own_code import typed
from scalemark.text.untrusted import visible
from store.command_line import Db, Json, ask
from store.database import check_writable, open_for_reading, open_for_writing
from store.filters import targets
from store.filters.filter_values import ID_BEGINNING
from store.upkeep import marking

Target = Annotated[
    str, typer.Argument(help=f"Number of an attempt, {ID_BEGINNING}, or a sweep's name.")
]
Targets = Annotated[
    list[str], typer.Argument(help="An attempt, a trial or a sweep; or filters, as for `list`.")
]


def tag(
    target: Target,
    words: Annotated[list[str], typer.Argument(help="What to find it by: `list tag=WORD`.")],
    db: Db,
    remove: Annotated[bool, typer.Option("--remove", help="Take these tags away.")] = False,
    as_json: Json = False,
) -> None:
    """Give an attempt, a trial or a sweep tags to find it by."""
    engine = _writable(db)
    found = targets.find(engine, target)
    if remove:
        num, done = marking.remove_tags(engine, found, words), "taken away"
    else:
        num, done = marking.add_tags(engine, found, words, datetime.now(UTC)), "added"
    if as_json:
        return print_json({"target": found.name, "tags": words, done.replace(" ", "_"): num})
    print(f"{visible(found.name)}: {num} of {len(words)} tags {done}")


def note(
    target: Target,
    text: Annotated[str, typer.Argument(help="What there is to say; `show` prints it.")],
    db: Db,
    as_json: Json = False,
) -> None:
    """Add a note to an attempt, a trial or a sweep."""
    engine = _writable(db)
    found = targets.find(engine, target)
    marking.add_note(engine, found, text, datetime.now(UTC))
    if as_json:
        return print_json({"target": found.name, "note": text})
    print(f"{visible(found.name)}: note added")


def delete(
    what: Targets,
    db: Db,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: Json = False,
) -> None:
    """Let attempts count nowhere; a sweep that wants them measures them again. `restore` undoes
    it.
    """
    engine = _writable(db)
    chosen = marking.choose(engine, what, deleted=False)
    if chosen.num_attempts:
        ask(f"{chosen} would be deleted", yes=yes)
    num_deleted = marking.set_deleted(engine, chosen, datetime.now(UTC))
    if as_json:
        return print_json({"deleted": num_deleted})
    again = " ".join(map(shlex.quote, what))
    hint = f"; `{typed('store')} restore {again}` brings them back" if num_deleted else ""
    print(f"{num_deleted} deleted{hint}")


def restore(what: Targets, db: Db, as_json: Json = False) -> None:
    """Let deleted attempts count again."""
    engine = _writable(db)
    chosen = marking.choose(engine, what, deleted=True)
    num_restored = marking.set_deleted(engine, chosen, None)
    if as_json:
        return print_json({"restored": num_restored})
    print(f"{num_restored} restored")


def _writable(db: str) -> sa.Engine:
    """Open a database that exists: nobody annotates an empty one."""
    open_for_reading(db).dispose()
    check_writable(db)
    return open_for_writing(db)
