"""Opens a results database: creates it for those who run sweeps, read-only for everyone else.

A database is a SQLite file or, by its URL, a PostgreSQL database; `store.sqlite` and
`store.postgresql` hold what differs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import ContextVar
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa

from scalemark.host.own_code import database_option, installing, typed
from scalemark.text.untrusted import command_line
from store.errors import NoSweepError, StoreError
from store.sqlite import ONLY_READS, SqliteFile, sqlite_explained
from store.tables import add_columns, missing_columns

if TYPE_CHECKING:
    from store.postgresql import PostgresDatabase


DEFAULT_FILE = "results.db"
DATABASE_VARIABLE = "SCALEMARK_DB"  # a URL may hold a password, and so is in no command line


def default_url() -> str:
    """SCALEMARK_DB, else results.db in the current folder."""
    return os.environ.get(DATABASE_VARIABLE) or DEFAULT_FILE


def locate(url: str) -> SqliteFile | PostgresDatabase:
    """Return the database behind a path, a sqlite:/// or a postgresql:// URL: both have the same
    methods. Raises StoreError for others, and for folders.
    """
    if not url:
        raise StoreError(f"{database_option('').strip()} is empty; give {_WANTED}")
    scheme, is_url, _ = url.partition("://")
    if is_url and scheme in ("postgresql", "postgres", "postgresql+psycopg"):
        if find_spec("psycopg") is None:
            raise StoreError(
                f"postgresql://...: psycopg is not installed; {installing('postgresql')} adds it"
            )
        from store.postgresql import PostgresDatabase  # here, because most never need its driver

        return PostgresDatabase(url)
    return SqliteFile(path_of(url))


def path_of(url: str) -> Path:
    """Return the file of a path or a sqlite:/// URL. Raises StoreError for all else."""
    prefix = "sqlite:///"
    if "://" in url and (not url.startswith(prefix) or url == prefix):
        kind = url.split("://")[0]
        raise StoreError(f"{kind}://...: no such kind of database; wanted {_WANTED}")
    if _MISTYPED.match(url):  # not quoted: it may hold a password
        raise StoreError(f"neither a file nor a URL; wanted {_WANTED}")
    path = Path(url.removeprefix(prefix)).expanduser()
    try:
        is_folder = path.is_dir()
    except OSError as error:
        raise StoreError(
            f"{path}: {error.strerror}; choose another file with {database_option('FILE')}"
        ) from error
    if is_folder:
        raise StoreError(f"{path}: a folder; a database is a file")
    return path


_WANTED = "a file, sqlite:///FILE or postgresql://USER@HOST/NAME"
_MISTYPED = re.compile(r"(sqlite|postgres(ql)?(\+\w+)?|mysql):(?!///)|[^/]*:[^/]*@|\w+=\S+\s+\w+=")


def file_of(url: str) -> Path | None:
    """Return the file of a SQLite database; None of others. Raises StoreError as `locate`."""
    database = locate(url)
    if isinstance(database, SqliteFile):
        return database.path
    return None


def open_for_writing(url: str) -> sa.Engine:
    """Open the database at `url`, which is created when it is not there.

    Raises StoreError when it cannot be written, is not a database, or is another program's or
    another version's.
    """
    database = locate(url)
    database.check_writable()
    with database.explained():
        if not database.is_made():
            database.make()
        engine = database.writer()
        try:
            with engine.begin() as connection:
                add_columns(connection)
        except BaseException:
            engine.dispose()
            raise
        return engine


OPENED: set[str] = set()
"""What this process has read: a command that fails looks there for damage, see `store.checks`."""


class _View:
    """Databases that are read as of one moment."""

    def __init__(self, connections: ExitStack) -> None:
        self.engines: dict[str, sa.Engine | None] = {}  # by URL
        self._by_engine: dict[sa.Engine, sa.Connection] = {}
        self._connections = connections

    def connection(self, engine: sa.Engine) -> sa.Connection:
        """Return the one connection, whose transaction begins with its first statement."""
        if engine not in self._by_engine:
            self._by_engine[engine] = self._connections.enter_context(_connected(engine))
        return self._by_engine[engine]


_VIEW: ContextVar[_View | None] = ContextVar("view", default=None)


@contextmanager
def one_view() -> Iterator[None]:
    """Read each database as of one moment in here: what others delete is still there."""
    with ExitStack() as connections:
        token = _VIEW.set(_View(connections))
        try:
            yield
        finally:
            _VIEW.reset(token)


def open_for_reading(url: str) -> sa.Engine:
    """Open the database at `url`, which cannot be changed so. Raises StoreError as for writing."""
    engine = open_existing(url)
    OPENED.add(url)
    if engine is None:
        file = file_of(url)
        why = "no such database"
        if file is not None and file.exists():
            what = "database" if file.stat().st_size else "file"
            why = f"an empty {what}, no database of scalemark"
        raise NoSweepError(
            f"{locate(url).name}: {why}; run a sweep first, or name another with "
            f"{database_option('FILE')} or SCALEMARK_DB"
        )
    return engine


def open_existing(url: str) -> sa.Engine | None:
    """Open for reading; None when there is no database yet, or an empty one. A database from before
    an axis was defined is given its column; of one that cannot be written a copy in memory is.
    """
    view = _VIEW.get()
    if view is None:
        return _opened(url)
    if url not in view.engines:
        view.engines[url] = _opened(url)
    return view.engines[url]


def _opened(url: str) -> sa.Engine | None:
    database = locate(url)
    with database.explained():
        if not database.is_made():
            return None
        engine = database.reader()
        with engine.connect() as connection:
            missing = missing_columns(connection)
        if missing and isinstance(database, SqliteFile) and not database.can_be_written():
            engine = database.reader_of_copy()
            with engine.begin() as connection:
                add_columns(connection)
        elif missing:
            open_for_writing(url).dispose()
    return engine


def check_writable(url: str) -> None:
    """Raise StoreError when there can be no database of ours at this path or URL."""
    database = locate(url)
    database.check_writable()
    with database.explained():
        database.is_made()


@contextmanager
def writing(engine: sa.Engine) -> Iterator[sa.Connection]:
    """Run one transaction. Raises StoreError when the disk is full or the database locked."""
    with explained(engine), engine.begin() as connection:
        yield connection


@contextmanager
def reading(engine: sa.Engine) -> Iterator[sa.Connection]:
    """Give one view to several statements, and keep no writer out. Raises StoreError."""
    view = _VIEW.get()
    with explained(engine):
        if view is None or engine not in view.engines.values():
            with _connected(engine) as connection:
                yield connection
            return
        connection = view.connection(engine)
        try:
            yield connection
        except sa.exc.DBAPIError:
            connection.rollback()  # a server answers nothing more in this transaction
            raise


@contextmanager
def _connected(engine: sa.Engine) -> Iterator[sa.Connection]:
    with engine.connect() as connection:
        yield connection.execution_options(**ONLY_READS[engine.dialect.name])


def explained(engine: sa.Engine) -> AbstractContextManager[None]:
    """Turn what the driver raises into StoreError."""
    if engine.dialect.name == "sqlite":
        return sqlite_explained(Path(engine.url.database or ""))
    from store.postgresql import postgresql_explained  # here, as above

    return postgresql_explained(engine.url)


def own_command(database: str | sa.Engine, program: str, *words: str) -> str:
    """Return a command of `store`, `plots` or `analysis` to paste, without a password."""
    if isinstance(database, str):
        url = database
    elif database.dialect.name == "sqlite":
        url = database.url.database or ""
    else:
        url = database.url.render_as_string(hide_password=True)
    named = [] if _is_default(url) else ["--db", url]
    return f"{typed(program)} {command_line([*words, *named])}".rstrip()


def _is_default(url: str) -> bool:
    """Return whether it names the default database, whatever is said of driver and password."""
    default = default_url()
    if "://" not in url or "://" not in default:
        return url == default
    asked, known = sa.make_url(url), sa.make_url(default)
    place = (asked.host, asked.port, asked.username, asked.database)
    return place == (known.host, known.port, known.username, known.database)
