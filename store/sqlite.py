"""A results database in a SQLite file: many read while one writes."""

import json
import math
import os
import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.exc import DatabaseError, IntegrityError

from scalemark.cli.terminal import Progress, silent
from scalemark.host.own_code import database_option, typed
from store.errors import LockedError, LostDatabaseError, StoreError
from store.tables import IF_DAMAGED, VERSION_QUERY, check_is_ours, check_version, create

BUSY_TIMEOUT_S = 30  # for which a writer waits for another

# of JSON columns: the steps take a fifth less without spaces
compact_json = json.JSONEncoder(separators=(",", ":")).encode

SCALEMARK_ONLY_READS = "scalemark_only_reads"

# Dialect -> execution options of a connection that only reads, all its statements from one moment
ONLY_READS: dict[str, dict[str, Any]] = {
    "sqlite": {SCALEMARK_ONLY_READS: True},
    "postgresql": {
        SCALEMARK_ONLY_READS: True,
        "isolation_level": "REPEATABLE READ",
        "postgresql_readonly": True,
    },
}

_PAGES_AT_ONCE = 5000
_MOST_CHECKED_BYTES = 200_000_000  # before writing; 400 MB take 0.6 s
_STEPS_BETWEEN_SIGNALS = 1_000_000  # of SQLite's virtual machine: some hundredths of a second


@dataclass(frozen=True, slots=True)
class SqliteFile:
    """A results database; `store.postgresql.PostgresDatabase` has the same methods."""

    path: Path

    @property
    def name(self) -> str:
        return str(self.path)

    def is_made(self) -> bool:
        if self.path.exists() and not self.path.is_file() and not self.path.is_dir():
            raise StoreError(f"{self.path}: a FIFO or a device, wanted a file; {_another()}")
        if not self.path.exists() or self.path.stat().st_size == 0:
            return False
        with closing(connect_read_only(self.path)) as connection:
            rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            tables = {name for (name,) in rows}
            if not tables:
                return False
            check_is_ours(self.name, tables)
            (version,) = connection.execute(VERSION_QUERY).fetchone() or (None,)
        check_version(self.name, version, tables)
        return True

    def check_writable(self) -> None:
        path = self.path
        if path.exists() and not os.access(path, os.W_OK):
            raise StoreError(f"{path}: read-only; make it writable, or {_another()}")
        # each name has a log of its own, and who opens one does not see what another one's holds
        if path.is_file() and path.stat().st_nlink > 1:
            raise StoreError(
                f"{path}: the file has other names, too (hard links), and sweeps that use "
                f"different ones would lose results; leave it one name, or {_another()}"
            )
        if not path.parent.is_dir():
            raise StoreError(f"{path}: there is no folder {path.parent}; make it, or {_another()}")
        if not os.access(path.parent, os.W_OK):
            raise StoreError(f"{path}: its folder is read-only; {_another()}")

    def make(self) -> None:
        """Create it under a lock file: of two processes that turn on SQLite's write-ahead log at
        once, SQLite would refuse one.
        """
        import filelock  # here, because only who makes a database needs it

        lock = filelock.FileLock(f"{self.path}.lock", timeout=BUSY_TIMEOUT_S)
        try:
            held = lock.acquire()
        except filelock.Timeout:
            raise StoreError(
                f"{self.path}: another process is making it, for {BUSY_TIMEOUT_S} s; wait "
                "for it, or end it, and repeat the command"
            ) from None
        except (OSError, NotImplementedError) as error:
            raise StoreError(
                f"{self.path}.lock: cannot be locked ({error}); {_another()} on a local disk"
            ) from error
        with held:
            if not self.is_made():
                engine = _writing_engine(self.path, poolclass=sa.NullPool)
                with engine.begin() as connection:
                    create(connection)

    def writer(self) -> sa.Engine:
        if self.path.stat().st_size <= _MOST_CHECKED_BYTES:
            with closing(connect_read_only(self.path)) as connection:
                _check_pages(connection, self.path)
        engine = _writing_engine(self.path)
        # a file that cannot be written shows it now, not after hours of trials
        with engine.begin() as connection:
            connection.execute(sa.text("UPDATE database_info SET value = value"))
        still_there = _StillThere(self.path)
        event.listen(engine, "begin", still_there.begun)
        event.listen(engine, "checkin", still_there.ended)
        return engine

    def reader(self) -> sa.Engine:
        path = self.path
        engine = sa.create_engine(
            _url(path), creator=lambda: connect_read_only(path), poolclass=sa.NullPool
        )
        event.listen(engine, "connect", _own_transactions)
        event.listen(engine, "begin", _begin)
        event.listen(
            engine, "handle_error", lambda context: end_if_interrupted(context.original_exception)
        )
        return engine.execution_options(**ONLY_READS["sqlite"])

    def can_be_written(self) -> bool:
        return os.access(self.path, os.W_OK) and os.access(self.path.parent, os.W_OK)

    def reader_of_copy(self) -> sa.Engine:
        """Return an engine on a copy in memory, which can be changed."""
        memory = sqlite3.connect(":memory:", check_same_thread=False)
        with closing(connect_read_only(self.path)) as source:
            source.backup(memory)
        _add_math(memory)
        engine = sa.create_engine(_url(self.path), creator=lambda: memory, poolclass=sa.StaticPool)
        event.listen(engine, "connect", _own_transactions)
        event.listen(engine, "begin", _begin)
        return engine

    def explained(self) -> AbstractContextManager[None]:
        return sqlite_explained(self.path)

    def settle(self, engine: sa.Engine) -> None:
        """SQLite does the same when the last connection closes: but a reader may keep it open for
        days.
        """
        with engine.begin():
            pass  # a file that was cut off after the last commit shows it
        uri = f"{self.path.absolute().as_uri()}?mode=rw"
        plain = sqlite3.connect(uri, uri=True, timeout=BUSY_TIMEOUT_S, isolation_level=None)
        with closing(plain) as connection:
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)")


def connect_read_only(path: Path) -> sqlite3.Connection:
    """Connect, also on read-only media. Nothing can be written through it, to any file."""
    wal = path.with_name(f"{path.name}-wal")
    # Beside a database in WAL mode SQLite wants to write two files. Where it cannot and they are
    # not there, nobody is writing.
    in_use = path.with_name(f"{path.name}-shm").exists() or (
        wal.exists() and wal.stat().st_size > 0
    )
    frozen = not os.access(path.parent, os.W_OK) and not in_use
    mode = "immutable=1" if frozen else "mode=ro"
    connection = sqlite3.connect(
        f"{path.resolve().as_uri()}?{mode}", uri=True, timeout=BUSY_TIMEOUT_S
    )
    # no ATTACH, by which VACUUM INTO writes another file even through this connection
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    # Python handles signals meanwhile, whose exception ends a statement that runs for long
    connection.set_progress_handler(lambda: 0, _STEPS_BETWEEN_SIGNALS)
    _add_math(connection)
    return connection


def _add_math(connection: sqlite3.Connection) -> None:
    """Give it what the view `scaling` uses: not every SQLite has it."""
    connection.create_function("ln", 1, _ln, deterministic=True)
    connection.create_function("exp", 1, _exp, deterministic=True)


def _ln(value: object) -> float | None:
    """Return NULL where SQLite's own does: of NULL, of text, and where there is no logarithm."""
    if isinstance(value, int | float) and value > 0:
        return math.log(value)
    return None


def _exp(value: object) -> float | None:
    if not isinstance(value, int | float):
        return None
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf


def copy_whole(path: Path, to: Path, progress: Progress = silent) -> None:
    """Copy a database as of one moment. Raises StoreError when the copy is damaged."""
    with closing(connect_read_only(path)) as source, closing(sqlite3.connect(to)) as target:
        # without a transaction SQLite would begin again whenever others write
        source.execute("BEGIN")
        source.execute("SELECT 1 FROM sqlite_master").fetchone()

        def show(_status: int, remaining: int, total: int) -> None:
            progress("pages", total - remaining, total)

        source.backup(target, pages=_PAGES_AT_ONCE, progress=show)
        _check_pages(target, path)


def _check_pages(connection: sqlite3.Connection, path: Path) -> None:
    """Raise StoreError, or the driver's error, where a page of this database is damaged."""
    damage = _first_damage(connection)
    if damage:
        raise StoreError(f"{path}: {damage}; {IF_DAMAGED}")


def _first_damage(connection: sqlite3.Connection) -> str:
    """Return what SQLite finds first on the pages; empty for nothing. Raises the driver's error."""
    (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    return "" if verdict == "ok" else " ".join(verdict.split())


def end_if_interrupted(error: object) -> None:
    """Raise KeyboardInterrupt where that ended a statement: SQLite raises another error."""
    if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT:
        raise KeyboardInterrupt from None


def _writing_engine(path: Path, **options: Any) -> sa.Engine:
    engine = sa.create_engine(
        _url(path),
        json_serializer=compact_json,
        connect_args={"timeout": BUSY_TIMEOUT_S},
        **options,
    )
    event.listen(engine, "connect", _prepare_writer)
    event.listen(engine, "begin", _begin)
    return engine


def _url(path: Path) -> sa.URL:
    """Make a URL of whatever name: in the text of a URL some characters would mean something."""
    return sa.URL.create("sqlite", database=str(path))


@contextmanager
def sqlite_explained(path: Path) -> Iterator[None]:
    """Turn what the driver raises into StoreError."""
    try:
        yield
    except (IntegrityError, sqlite3.IntegrityError):
        raise  # our own mistake: nothing a user could mend
    # the last: SQLite quotes a damaged schema
    except (DatabaseError, sqlite3.DatabaseError, UnicodeDecodeError) as error:
        cause = cause_of(error)
        end_if_interrupted(cause)
        kind = StoreError
        if _has_code(cause, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            kind = LockedError
        if _has_code(cause, *_OF_DAMAGE):
            kind = LostDatabaseError
        remedy = "{another}"
        for sign in _REMEDIES:
            if sign in str(cause):
                remedy = _REMEDIES[sign]
                break
        raise kind(f"{path}: {cause}; {remedy.replace('{another}', _another())}") from error


_OF_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _has_code(cause: object, *codes: int) -> bool:
    return getattr(cause, "sqlite_errorcode", 0) & 0xFF in codes  # of an extended error code


def cause_of(error: BaseException | None) -> object:
    """Return what the driver says; also where it could not even decode it."""
    if isinstance(error, UnicodeDecodeError):
        return error.object.decode(errors="backslashreplace")
    if isinstance(error, DatabaseError):
        return error.orig
    return error


def _another() -> str:
    return f"choose another file with {database_option('FILE')}"


_REBUILD = f"`{typed('db')} rebuild RUNS_FOLDER` makes it again from the run folders"
_REMEDIES = {
    "not a database": "{another}, or, if it was a database, " + IF_DAMAGED,
    "malformed": IF_DAMAGED,
    "Could not decode": IF_DAMAGED,
    "no such table": IF_DAMAGED,
    "no such column": IF_DAMAGED,
    "full": "free some space and repeat the command; finished trials are kept",
    "readonly": "make it writable, or {another}",
    "locked": f"another program kept it so for {BUSY_TIMEOUT_S} s; end that and repeat; "
    "finished trials are kept",
    "disk I/O error": "a bad disk, a file system without locks, or a file that was cut off: "
    f"{{another}} on a local disk; {_REBUILD}",
    "locking protocol": "its file system has no locks: {another} on a local disk",
}


class _StillThere:
    """Notices a file that was removed, replaced, cut off or overwritten: SQLite would not for long.

    Its pages lie in SQLite's memory and in the write-ahead log, so that all that is written could
    be lost. Whoever writes through SQLite changes the `data_version` before the file; where the
    file alone has changed, its pages are checked.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._found = path, path.stat()

    def begun(self, connection: sa.Connection) -> None:
        """Look before anything is written in a transaction. Raises LostDatabaseError."""
        stat = self._stat()
        before: tuple[int, _Written] | None = connection.info.get(_SEEN)
        if before is None or before[1] == _written(stat):
            return
        if stat.st_size < _HEADER_BYTES <= before[1][0]:
            raise self._lost("cut off")  # its pages may all be in the log, which does not show it
        (version,) = connection.exec_driver_sql("PRAGMA data_version").one()
        if before[0] == version:
            self._check_pages()

    def ended(self, connection: Any, record: Any) -> None:
        """Remember how the file is: what is written into it from now on is by somebody else."""
        if connection is not None:
            before: tuple[int, _Written] | None = record.info.pop(_SEEN, None)
            # the next transaction meets it again
            with suppress(FileNotFoundError, sqlite3.DatabaseError):
                (version,) = connection.execute("PRAGMA data_version").fetchone()
                now = _written(self._path.stat())
                if before and before[0] == version and now[0] < before[1][0]:
                    now = before[1]  # cut off since the commit: the next transaction sees it
                record.info[_SEEN] = (version, now)

    def _stat(self) -> os.stat_result:
        try:
            stat = self._path.stat()
        except FileNotFoundError:
            raise self._lost("removed") from None
        if not os.path.samestat(stat, self._found):
            raise self._lost("removed or replaced")
        return stat

    def _check_pages(self) -> None:
        """Check them through a connection that holds none of them in memory."""
        uri = f"{self._path.absolute().as_uri()}?mode=ro"
        try:
            with closing(sqlite3.connect(uri, uri=True)) as connection:
                damage = _first_damage(connection)
        except sqlite3.DatabaseError as error:
            if not _has_code(error, *_OF_DAMAGE):
                raise  # it is locked, or cannot be read just now
            damage = str(error)
        if damage:
            raise self._lost(f"cut off or overwritten ({damage})")

    def _lost(self, how: str) -> LostDatabaseError:
        return LostDatabaseError(
            f"{self._path}: {how} while it was in use; results made since are in their run "
            f"folders; move it away, and {_REBUILD}"
        )


_SEEN = "scalemark_seen"
_HEADER_BYTES = 100
_Written = tuple[int, int]


def _written(stat: os.stat_result) -> _Written:
    """Return what changes with whatever is written into a file."""
    return stat.st_size, stat.st_mtime_ns


def _own_transactions(connection: Any, _record: Any) -> None:
    # the driver's own BEGIN would be deferred, and lose the race to upgrade its lock
    connection.isolation_level = None


def _prepare_writer(connection: Any, record: Any) -> None:
    _own_transactions(connection, record)
    _add_math(connection)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA foreign_keys = ON")


def _begin(connection: sa.Connection) -> None:
    """Take the lock of a writer before it reads: what it read is then still true when it writes."""
    only_reads = connection.get_execution_options().get(SCALEMARK_ONLY_READS, False)
    connection.exec_driver_sql("BEGIN" if only_reads else "BEGIN IMMEDIATE")
