"""Opens a results database: creates or upgrades it for those who run sweeps, read-only for everyone else."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import filelock
import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.exc import DatabaseError, IntegrityError

from store.errors import LockedError, StoreError

BUSY_TIMEOUT_S = 30
_MIGRATIONS = Path(__file__).parent / "migrations"


def default_url() -> str:
    """SCALEMARK_DB, else results.db in the current folder."""
    return os.environ.get("SCALEMARK_DB") or "results.db"


def path_of(url: str) -> Path:
    """The file behind a path or a sqlite:/// URL. Raises StoreError for other databases, and for folders."""
    if not url:
        raise StoreError("store.url is empty; give a file, or sqlite:///FILE")
    prefix = "sqlite:///"
    if "://" in url and (not url.startswith(prefix) or url == prefix):
        raise StoreError(f"{url.split('://')[0]}://...: this version stores in SQLite; give a file, or sqlite:///FILE")
    path = Path(url.removeprefix(prefix)).expanduser()
    if path.is_dir():
        raise StoreError(f"{path}: a folder; a database is a file")
    return path


def open_for_writing(url: str) -> sa.Engine:
    """The database at `url`, created or upgraded to this version's schema.

    Raises StoreError when it cannot be written, is not a database, another program's, or newer than this version;
    `check_writable` says so before a lock is taken beside the file.
    """
    path = path_of(url)
    with _explained(path):
        found = _revision(path)
        engine = sa.create_engine(f"sqlite:///{path}", connect_args={"timeout": BUSY_TIMEOUT_S})
        event.listen(engine, "connect", _prepare_writer)
        event.listen(engine, "begin", _begin)
        if found != head_revision():
            _upgrade_alone(path)
        with engine.begin() as connection:  # a file that cannot be written shows it now, not after hours of trials
            connection.execute(sa.text("UPDATE alembic_version SET version_num = version_num"))
        event.listen(engine, "begin", _StillThere(path))
    return engine


def open_for_reading(url: str) -> sa.Engine:
    """The database at `url`, which nothing done through this engine can change. Raises StoreError as for writing."""
    engine = open_existing(url)
    if engine is None:
        raise StoreError(f"{path_of(url)}: no such database; run a sweep first, or name another with --db or SCALEMARK_DB")
    return engine


def open_existing(url: str) -> sa.Engine | None:
    """As `open_for_reading`; None when there is no database yet, or an empty file."""
    path = path_of(url)
    with _explained(path):
        found = _revision(path)
        if found is None:
            return None
        if found != head_revision():
            raise StoreError(f"{path}: its schema is {found}, this version reads {head_revision()}; run a sweep into it first")
    engine = sa.create_engine(f"sqlite:///{path}", creator=lambda: _connect_read_only(path), poolclass=sa.NullPool)
    return engine.execution_options(**{_ONLY_READS: True})


@contextmanager
def writing(engine: sa.Engine) -> Iterator[sa.Connection]:
    """One transaction; StoreError, with the file's name, when the disk is full or the database locked."""
    with _explained(Path(engine.url.database or "")), engine.begin() as connection:
        yield connection


@contextmanager
def reading(engine: sa.Engine) -> Iterator[sa.Connection]:
    """One view of the database for several statements, which keeps no writer out. StoreError as for writing."""
    with _explained(Path(engine.url.database or "")), engine.connect() as connection:
        yield connection.execution_options(**{_ONLY_READS: True})


def head_revision() -> str:
    """The newest migration: file names begin with their number, so this needs no Alembic."""
    return max(path.stem.split("_")[0] for path in (_MIGRATIONS / "versions").glob("[0-9]*.py"))


def _upgrade_alone(path: Path) -> None:
    """By one process, while others that open the file wait. Raises StoreError when they would have to wait too long."""
    try:
        with filelock.FileLock(f"{path}.lock", timeout=BUSY_TIMEOUT_S):
            if _revision(path) != head_revision():
                _upgrade(path)
    except filelock.Timeout:
        raise StoreError(
            f"{path}: another process is upgrading it, or an older scalemark is writing to it; wait for it"
        ) from None


def _upgrade(path: Path) -> None:
    """On a connection without foreign keys, because SQLite alters a table by copying and dropping it; they are checked after."""
    from alembic import command  # here, because it is slow to import and seldom needed
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS))
    engine = sa.create_engine(f"sqlite:///{path}", connect_args={"timeout": BUSY_TIMEOUT_S}, poolclass=sa.NullPool)
    event.listen(engine, "connect", _prepare_upgrade)
    event.listen(engine, "begin", _begin)
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
        if broken := connection.exec_driver_sql("PRAGMA foreign_key_check").all():
            raise StoreError(f"{path}: the upgrade would break {len(broken)} references; nothing was changed")


def _revision(path: Path) -> str | None:
    """The schema revision of a file; None when it is new or empty. Raises StoreError when it is not ours."""
    if not path.exists() or path.stat().st_size == 0:
        return None
    with closing(_connect_read_only(path)) as connection:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if not tables:
            return None
        if "alembic_version" not in tables or "attempts" not in tables:
            raise StoreError(f"{path}: a database of another program (it has {', '.join(sorted(tables)[:3])}); name another file")
        (revision,) = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    if revision > head_revision():
        raise StoreError(
            f"{path}: written by a newer scalemark (schema {revision}, this one knows {head_revision()}); upgrade scalemark"
        )
    return str(revision)


def _connect_read_only(path: Path) -> sqlite3.Connection:
    wal = path.with_name(f"{path.name}-wal")
    # Beside a database in WAL mode SQLite wants to write two files; where it cannot, nobody else can either.
    frozen = not os.access(path.parent, os.W_OK) and not (wal.exists() and wal.stat().st_size)
    mode = "immutable=1" if frozen else "mode=ro"
    connection = sqlite3.connect(f"{path.resolve().as_uri()}?{mode}", uri=True, timeout=BUSY_TIMEOUT_S)
    connection.set_authorizer(_allow_no_other_file)
    return connection


def _allow_no_other_file(action: int, *_: str | None) -> int:
    """VACUUM INTO writes another file even through a read-only connection; it begins by attaching it."""
    return sqlite3.SQLITE_DENY if action == sqlite3.SQLITE_ATTACH else sqlite3.SQLITE_OK


def check_writable(path: Path) -> None:
    """Raises StoreError when there can be no database of ours at this path."""
    if path.exists() and not os.access(path, os.W_OK):
        raise StoreError(f"{path}: read-only; make it writable, or choose another file with store.url=FILE")
    if not path.parent.is_dir():
        raise StoreError(f"{path}: there is no folder {path.parent}; make it, or choose another file with store.url=FILE")
    if not os.access(path.parent, os.W_OK):
        raise StoreError(f"{path}: its folder is read-only; choose another file with store.url=FILE")
    with _explained(path):
        _revision(path)


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except (IntegrityError, sqlite3.IntegrityError):
        raise  # our own mistake: nothing a user could mend
    except (DatabaseError, sqlite3.DatabaseError) as error:
        cause = error.orig if isinstance(error, DatabaseError) else error
        kind = LockedError if "locked" in str(cause) else StoreError
        raise kind(f"{path}: {cause}; {_remedy(str(cause))}") from error


def _remedy(cause: str) -> str:
    for sign, remedy in _REMEDIES.items():
        if sign in cause:
            return remedy
    return "choose another file with store.url=FILE"


_REMEDIES = {
    "not a database": "another file, or a damaged one: choose another with store.url=FILE",
    "full": "free some space and repeat the command; finished trials are kept",
    "readonly": "make it writable, or choose another file with store.url=FILE",
    "locked": f"another program kept it so for {BUSY_TIMEOUT_S} s; end that and repeat the command; finished trials are kept",
    "disk I/O error": "a bad disk, or a file system without locks: choose a file on a local disk with store.url=FILE",
    "locking protocol": "its file system has no locks: choose a file on a local disk with store.url=FILE",
}


class _StillThere:
    """Refuses to go on in a file that was removed or replaced: SQLite would not notice, and all that is written be lost."""

    def __init__(self, path: Path) -> None:
        self._path, self._found = path, path.stat()

    def __call__(self, _connection: sa.Connection) -> None:
        try:
            if os.path.samestat(self._path.stat(), self._found):
                return
        except FileNotFoundError:
            pass
        raise StoreError(f"{self._path}: removed or replaced while it was in use; results made since are in their run folders")


def _own_transactions(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # the driver's own BEGIN would be deferred, and lose the race to upgrade its lock


def _prepare_upgrade(connection: Any, record: Any) -> None:
    _own_transactions(connection, record)
    connection.execute("PRAGMA legacy_alter_table = ON")  # views may name a table that is being rebuilt
    connection.execute("PRAGMA journal_mode = WAL")  # here, where one process is alone: of two at once one would be refused


def _prepare_writer(connection: Any, record: Any) -> None:
    _own_transactions(connection, record)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA foreign_keys = ON")


_ONLY_READS = "scalemark_only_reads"


def _begin(connection: sa.Connection) -> None:
    """Who may write takes the lock before it reads: what it read is then still true when it writes."""
    only_reads = connection.get_execution_options().get(_ONLY_READS, False)
    connection.exec_driver_sql("BEGIN" if only_reads else "BEGIN IMMEDIATE")
