"""Opens a results database: creates or upgrades it for those who run sweeps, read-only for everyone
else.

A database is a SQLite file or, by its URL, a PostgreSQL database; `store.sqlite` and
`store.postgresql` hold what differs.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

import sqlalchemy as sa

from scalemark.text.redact import masked
from store.engine import ONLY_READS
from store.errors import NoSweepError, StoreError
from store.sqlite import SqliteFile, sqlite_explained
from store.upgrade import Upgraded, head_revision


class Database(Protocol):
    """What both kinds can do. Every method raises StoreError, which names the database, never a
    password.
    """

    @property
    def name(self) -> str:
        """As messages call it."""

    def revision(self) -> str | None:
        """Of its schema; None when it is not there yet, or empty. Raises StoreError when it is
        another program's.
        """

    def check_writable(self) -> None: ...

    def upgrade(self) -> Upgraded | None:
        """To the head revision, by one process alone while others wait. What was there is kept
        beside it first.

        None when there is nothing to do, also because another process has done it meanwhile.
        """

    def writer(self) -> sa.Engine:
        """Whose transactions each have the database for themselves."""

    def reader(self) -> sa.Engine:
        """Through which nothing can be changed."""

    def explained(self) -> AbstractContextManager[None]:
        """Turns what the driver raises into StoreError."""

    def size_bytes(self) -> int: ...

    def settle(self) -> None:
        """Moves what was written into the database's own file, so that a copy of it has all; as far
        as nobody reads meanwhile.
        """

    def compact(self) -> None:
        """Gives back the space of what was removed."""


def default_url() -> str:
    """SCALEMARK_DB, else results.db in the current folder."""
    return os.environ.get("SCALEMARK_DB") or "results.db"


def locate(url: str) -> Database:
    """The database behind a path, a sqlite:/// or a postgresql:// URL. Raises StoreError for
    others, and for folders.
    """
    if not url:
        raise StoreError(
            "store.url is empty; give a file, sqlite:///FILE or postgresql://USER@HOST/NAME"
        )
    scheme, is_url, _ = url.partition("://")
    if is_url and scheme in ("postgresql", "postgres", "postgresql+psycopg"):
        from store.postgresql import PostgresDatabase  # here, because most never need its driver

        return PostgresDatabase(url)
    return SqliteFile(path_of(url))


def path_of(url: str) -> Path:
    """The file behind a path or a sqlite:/// URL. Raises StoreError for other databases, and for
    folders.
    """
    prefix = "sqlite:///"
    if "://" in url and (not url.startswith(prefix) or url == prefix):
        wanted = "a file, sqlite:///FILE or postgresql://USER@HOST/NAME"
        raise StoreError(f"{url.split('://')[0]}://...: no such kind of database; wanted {wanted}")
    if _MISTYPED.match(url):
        raise StoreError(
            "neither a file nor a URL; wanted a file, sqlite:///FILE or postgresql://USER@HOST/NAME"
        )
    path = Path(url.removeprefix(prefix)).expanduser()
    try:
        is_folder = path.is_dir()
    except OSError as error:
        raise StoreError(
            f"{path}: {error.strerror}; choose another file with store.url=FILE or --db FILE"
        ) from error
    if is_folder:
        raise StoreError(f"{path}: a folder; a database is a file")
    return path


# it may hold a password
_MISTYPED = re.compile(r"(sqlite|postgres(ql)?(\+\w+)?|mysql):(?!///)|[^/]*:[^/]*@|\w+=\S+\s+\w+=")


def file_of(url: str) -> Path | None:
    """The file of a SQLite database; None of others. Raises StoreError as `locate`."""
    found = locate(url)
    return found.path if isinstance(found, SqliteFile) else None


def open_for_writing(url: str) -> sa.Engine:
    """The database at `url`, created or upgraded to this version's schema.

    Raises StoreError when it cannot be written, is not a database, another program's, or newer than
    this version.
    """
    database = locate(url)
    database.check_writable()
    with database.explained():
        if known_revision(database) != head_revision():
            tell(database, database.upgrade())
        return database.writer()


def tell(database: Database, upgraded: Upgraded | None) -> None:
    """That it was upgraded, to whoever watches."""
    if upgraded is not None and upgraded.found is not None:
        kept = "" if upgraded.kept is None else f"; as it was: {upgraded.kept}"
        print(
            (
                f"store: {database.name} was upgraded from schema {upgraded.found} to "
                f"{upgraded.made}{kept}"
            ),
            file=sys.stderr,
        )


def open_for_reading(url: str) -> sa.Engine:
    """The database at `url`, which nothing done through this engine can change. Raises StoreError
    as for writing.
    """
    engine = open_existing(url)
    if engine is None:
        raise NoSweepError(
            f"{locate(url).name}: no such database; run a sweep first, or name another with "
            "--db or SCALEMARK_DB"
        )
    return engine


def open_existing(url: str) -> sa.Engine | None:
    """As `open_for_reading`; None when there is no database yet, or an empty one."""
    database = locate(url)
    with database.explained():
        found = known_revision(database)
        if found is None:
            return None
        if found != head_revision():
            named = "" if url == default_url() else f" --db {shlex.quote(masked(url))}"
            what_to_do = f"`python -m store upgrade{named}` makes it so, and keeps a copy as it is"
            raise StoreError(
                f"{database.name}: its schema is {found}, this version reads "
                f"{head_revision()}; {what_to_do}"
            )
        return database.reader()


def check_writable(url: str) -> None:
    """Raises StoreError when there can be no database of ours at this path or URL."""
    database = locate(url)
    database.check_writable()
    with database.explained():
        known_revision(database)


def known_revision(database: Database) -> str | None:
    """Raises StoreError when a newer scalemark wrote it."""
    found = database.revision()
    if found is not None and found > head_revision():
        known = f"schema {found}, this one knows {head_revision()}"
        raise StoreError(
            f"{database.name}: written by a newer scalemark ({known}); upgrade scalemark"
        )
    return found


@contextmanager
def writing(engine: sa.Engine) -> Iterator[sa.Connection]:
    """One transaction; StoreError, with the database's name, when the disk is full or the database
    locked.
    """
    with explained(engine), engine.begin() as connection:
        yield connection


@contextmanager
def reading(engine: sa.Engine) -> Iterator[sa.Connection]:
    """One view of the database for several statements, which keeps no writer out. StoreError as for
    writing.
    """
    with explained(engine), engine.connect() as connection:
        yield connection.execution_options(**ONLY_READS[engine.dialect.name])


def explained(engine: sa.Engine) -> AbstractContextManager[None]:
    """Turns what the driver raises into StoreError."""
    if engine.dialect.name == "sqlite":
        return sqlite_explained(Path(engine.url.database or ""))
    from store.postgresql import postgresql_explained  # here, as above

    return postgresql_explained(engine.url)
