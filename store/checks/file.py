"""Checks whether a SQLite file is whole: pages, indices, references, and its digest where there is
one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from scalemark.cli.progress import Progress
from store.checks.finding import DAMAGED, MOST_OF_ONE_CHECK, Finding, made_by_hand
from store.sqlite import cause_of, connect_read_only, end_if_interrupted
from store.upkeep.backup import digest_path_of, sha256_of

FILE = "(file)"


def unlike_its_digest(path: Path, progress: Progress) -> Iterator[Finding]:
    """Find a backup that is not what was copied. Other databases have no digest beside them."""
    digest_path = digest_path_of(path)
    if not digest_path.exists():
        return
    remedy = f"take another copy; if it was written to on purpose, remove {digest_path}"
    try:
        wanted = digest_path.read_text(errors="replace").split(" ")[0]
    except OSError as error:
        what = f"its digest cannot be read: {error}"
        yield Finding(table=FILE, row="", what=what, remedy=remedy)
        return
    if sha256_of(path, progress) != wanted:
        what = "not the file that was backed up: its SHA-256 is another"
        yield Finding(table=FILE, row="", what=what, remedy=remedy)


def pages(path: Path, progress: Progress) -> Iterator[Finding]:
    """Run SQLite's own check, which also holds every row against NOT NULL, CHECK and UNIQUE."""
    progress("pages and indices", 0, 0)
    with closing(connect_read_only(path)) as connection:
        for (what,) in connection.execute(f"PRAGMA integrity_check({MOST_OF_ONE_CHECK})"):
            if what != "ok":
                yield Finding(table=FILE, row="", what=" ".join(what.split()), remedy=DAMAGED)


def foreign_keys(path: Path, progress: Progress) -> Iterator[Finding]:
    progress("references", 0, 0)
    with closing(connect_read_only(path)) as connection:
        for table, rowid, parent, _ in connection.execute("PRAGMA foreign_key_check"):
            row = "" if rowid is None else f"rowid {rowid}"
            yield made_by_hand(table, row, f"the row of {parent} that it names is not there")


def unreadable(error: BaseException | None, table: str) -> Finding:
    """Make a finding of what SQLite raised; it ends the command when a signal did."""
    end_if_interrupted(error)
    return Finding(table=table, row="", what=f"cannot be read: {cause_of(error)}", remedy=DAMAGED)
