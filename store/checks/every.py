"""Makes every check of a database, in little memory."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import sqlalchemy as sa

from scalemark.cli.progress import Progress, silent
from store import database as databases
from store.checks import digests, file, invariants
from store.checks.finding import Finding, first_of
from store.engine import ONLY_READS
from store.errors import StoreError
from store.sqlite import SqliteFile

_FileCheck = Callable[[Path, Progress], Iterator[Finding]]
_RowCheck = Callable[[sa.Connection, Progress], Iterator[Finding]]

_OF_FILES: tuple[_FileCheck, ...] = (file.unlike_its_digest, file.pages, file.foreign_keys)

_OF_ROWS: dict[str, _RowCheck] = {
    "database_info": digests.identity,
    "machines": digests.machines,
    "environments": digests.environments,
    "sweeps": digests.sweeps,
    "trials": digests.trials,
    "placements": digests.placements,
    "op_placements": digests.op_placements,
    "reference_results": digests.references,
    "attempts": invariants.unmeasured,
    "measurements": invariants.without_steps,
    "repeats": invariants.attempts_of_each,
    "repeats, outcomes": invariants.outcomes,
}


def check(url: str, progress: Progress = silent) -> Iterator[Finding]:
    """Yield all that is wrong. Raises StoreError, before the first, when there is nothing of ours
    to check, or it is so damaged that it cannot be opened.
    """
    database = databases.locate(url)
    engine = databases.open_existing(url)
    if engine is None:
        raise StoreError(
            f"{database.name}: no such database, or an empty one; there is nothing to check"
        )
    path = database.path if isinstance(database, SqliteFile) else None
    return _findings(engine, path, progress)


def _findings(engine: sa.Engine, path: Path | None, progress: Progress) -> Iterator[Finding]:
    try:
        for of_file in _OF_FILES:
            if path is not None:
                yield from _of_file(path, of_file, progress)
        for name, made in _OF_ROWS.items():
            yield from _of_rows(engine, name.split(",")[0], made, progress)
    finally:
        engine.dispose()


def _of_file(path: Path, made: _FileCheck, progress: Progress) -> Iterator[Finding]:
    try:
        yield from first_of(made(path, progress))
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        yield file.unreadable(error, file.FILE)


def _of_rows(
    engine: sa.Engine, table: str, made: _RowCheck, progress: Progress
) -> Iterator[Finding]:
    """Yield findings; what cannot be read is one of them."""
    try:
        with engine.connect() as connection:
            only_reads = connection.execution_options(**ONLY_READS[engine.dialect.name])
            yield from first_of(made(only_reads, progress))
    # the last three: SQLite takes any value into any column, which its type then cannot read
    except (sa.exc.DBAPIError, ValueError, TypeError, AttributeError) as error:
        if engine.dialect.name != "sqlite":
            raise
        yield file.unreadable(error.orig if isinstance(error, sa.exc.DBAPIError) else error, table)
