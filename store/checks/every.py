"""Makes every check of a database, in little memory, and of whatever still can be read of a damaged
one.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import sqlalchemy as sa

from scalemark.cli.progress import Progress, silent
from store import database as databases
from store.checks import cells, file, keys, measurements, repeats, trials
from store.checks.finding import SALVAGE, Finding, first_of
from store.checks.tables import tables
from store.database import Database
from store.engine import ONLY_READS
from store.errors import DamagedError, LockedError, StoreError
from store.sqlite import SqliteFile, connect_read_only, end_if_interrupted
from store.upgrade import IF_DAMAGED, head_revision

_Check = Callable[[sa.Connection, Progress], Iterator[Finding]]

_OF_ROWS: dict[str, _Check] = {
    "database_info": keys.identity,
    "machines": keys.machines,
    "environments": keys.environments,
    "sweeps": keys.sweeps,
    "trials": trials.trials,
    "placements": keys.placements,
    "op_placements": keys.op_placements,
    "reference_results": keys.references,
    "attempts": measurements.unmeasured,
    "attempts, machines": trials.on_machines,
    "measurements": measurements.descriptions,
    "step_arrays": measurements.steps,
    "repeats": repeats.attempts_of_each,
    "repeats, outcomes": repeats.outcomes,
    "repeats, in flight": repeats.in_flight,
    "events": repeats.events,
}


def check(url: str, progress: Progress = silent) -> Iterator[Finding]:
    """All that is wrong. Raises StoreError, before the first, when there is nothing of ours to
    check.
    """
    database = databases.locate(url)
    revision = _revision(database)
    if isinstance(revision, Finding):
        of_file = _of_file(database.path, progress) if isinstance(database, SqliteFile) else ()
        return iter([revision, *of_file])
    return _findings(database, revision, progress)


def rows_are_checked(url: str) -> bool:
    """Those of earlier schemas are not: they are once the database is upgraded."""
    return _revision(databases.locate(url)) == head_revision()


def _revision(database: Database) -> str | Finding:
    """Or why it cannot be told of a database that seems to be ours, and damaged."""
    try:
        with database.explained():
            found = databases.known_revision(database)
    except StoreError as error:
        cause = error.__cause__
        if isinstance(error, DamagedError):
            return Finding(table="(file)", row="", what=_found_in(error, database), remedy=SALVAGE)
        is_refused = isinstance(error, LockedError) or any(
            sign in str(cause) for sign in _NOT_TO_BE_CHECKED
        )
        if isinstance(cause, sqlite3.DatabaseError | UnicodeDecodeError) and not is_refused:
            return file.unreadable(cause, "(file)")
        raise
    if found is None:
        raise StoreError(
            f"{database.name}: no such database, or an empty one; there is nothing to check"
        )
    return found


_NOT_TO_BE_CHECKED = ("not a database", "unable to open")


def _found_in(error: StoreError, database: Database) -> str:
    """What is wrong, without the name before it and the remedy after it."""
    return str(error).removeprefix(f"{database.name}: ").removesuffix(f"; {IF_DAMAGED}")


def _findings(database: Database, revision: str, progress: Progress) -> Iterator[Finding]:
    path = database.path if isinstance(database, SqliteFile) else None
    if path is not None:
        yield from _of_file(path, progress)
    engine = _engine(database)
    try:
        yield from _made(
            engine, "(file)" if path else "(schema)", partial(_tables, revision=revision), progress
        )
        if revision != head_revision():
            return
        for table in cells.TABLES if path is not None else ():
            assert path is not None
            yield from first_of(cells.cells(path, table, progress))
        for name, made in _OF_ROWS.items():
            yield from _made(engine, name.split(",")[0], made, progress)
    finally:
        engine.dispose()


def _tables(connection: sa.Connection, progress: Progress, *, revision: str) -> Iterator[Finding]:
    return tables(connection, revision, progress)


def _of_file(path: Path, progress: Progress) -> Iterator[Finding]:
    for made in (file.unlike_its_digest, file.write_ahead_log, file.pages, file.foreign_keys):
        try:
            yield from first_of(made(path, progress))
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            yield file.unreadable(error, "(file)")


def _made(engine: sa.Engine, table: str, made: _Check, progress: Progress) -> Iterator[Finding]:
    """Its findings; what cannot be read is one of them."""
    try:
        with engine.connect() as connection:
            yield from first_of(
                made(connection.execution_options(**ONLY_READS[engine.dialect.name]), progress)
            )
    except (sa.exc.DBAPIError, ValueError, TypeError, AttributeError) as error:
        if engine.dialect.name != "sqlite":
            raise
        # a cell that is none of its column's
        cause = error.orig if isinstance(error, sa.exc.DBAPIError) else error
        end_if_interrupted(cause)
        yield Finding(table=table, row="", what=f"cannot be read: {cause}", remedy=SALVAGE)


def _engine(database: Database) -> sa.Engine:
    """As readers have it; of a damaged file it gives text that is none, too."""
    if not isinstance(database, SqliteFile):
        return database.reader()
    path = database.path

    def connect() -> sqlite3.Connection:
        connection = connect_read_only(path)
        connection.text_factory = _decoded
        return connection

    return sa.create_engine(f"sqlite:///{path}", creator=connect, poolclass=sa.NullPool)


def _decoded(text: bytes) -> str:
    return text.decode(errors="replace")
