"""Whether a SQLite file is whole: pages, indices, references, write-ahead log, and its digest where
there is one.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from scalemark.cli.progress import Progress
from store.checks.finding import MADE_BY_HAND, MOST_OF_ONE_CHECK, SALVAGE, Finding
from store.checks.wal import wal_problem
from store.sqlite import cause_of, connect_read_only, end_if_interrupted, wal_of
from store.upkeep.backup import digest_path_of, sha256_of

_FILE = "(file)"


def unlike_its_digest(path: Path, progress: Progress) -> Iterator[Finding]:
    """A backup that is not what was copied. Other databases have no digest beside them."""
    digest_path = digest_path_of(path)
    if not digest_path.exists():
        return
    wanted = digest_path.read_text().split(" ")[0]
    if sha256_of(path, progress) != wanted:
        remedy = f"take another copy; if it was written to on purpose, remove {digest_path}"
        yield Finding(
            table=_FILE,
            row="",
            what="not the file that was backed up: its SHA-256 is another",
            remedy=remedy,
        )


def write_ahead_log(path: Path, progress: Progress) -> Iterator[Finding]:
    progress("write-ahead log", 0, 0)
    if what := wal_problem(wal_of(path)):
        yield Finding(
            table=_FILE,
            row=wal_of(path).name,
            what=what,
            remedy="`rebuild` from the run folders of the last attempts",
        )


def pages(path: Path, progress: Progress) -> Iterator[Finding]:
    """SQLite's own check, which also holds every row against NOT NULL, CHECK and UNIQUE."""
    progress("pages and indices", 0, 0)
    with closing(connect_read_only(path)) as connection:
        for (what,) in connection.execute(f"PRAGMA integrity_check({MOST_OF_ONE_CHECK})"):
            if what != "ok":
                yield Finding(table=_FILE, row="", what=" ".join(what.split()), remedy=SALVAGE)


def foreign_keys(path: Path, progress: Progress) -> Iterator[Finding]:
    progress("references", 0, 0)
    with closing(connect_read_only(path)) as connection:
        for table, rowid, parent, _ in connection.execute("PRAGMA foreign_key_check"):
            row = "" if rowid is None else f"rowid {rowid}"
            yield Finding(
                table=table,
                row=row,
                what=f"the row of {parent} that it names is not there",
                remedy=MADE_BY_HAND,
            )


def unreadable(
    error: sqlite3.DatabaseError | UnicodeDecodeError, table: str, row: str = ""
) -> Finding:
    """The second kind where SQLite quotes a damaged schema."""
    end_if_interrupted(error)
    return Finding(table=table, row=row, what=f"cannot be read: {cause_of(error)}", remedy=SALVAGE)
