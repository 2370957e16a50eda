"""A results database in PostgreSQL, through psycopg 3: the same rules as in SQLite, so that both
give the same answers. Sweeps of several people may write into it at once, each by one process.
"""

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import psycopg
import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine import make_url
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError

from scalemark.host.own_code import database_option
from store import sqlite
from store.errors import AwayError, LockedError, StoreError
from store.schema import Base
from store.sqlite import ONLY_READS, SCALEMARK_ONLY_READS
from store.tables import VERSION_QUERY, check_is_ours, check_version, create

_WRITERS, _MAKERS = 0x5CA1E, 0x5CA1F  # names of locks within the database
_CONNECT_TIMEOUT_S = 10
# of who writes: who stands still with locks keeps all others waiting, which give up after 5 minutes
_IDLE_IN_TRANSACTION_S = 240
_ASK_AGAIN_S = 0.5
_CONNECT_AGAIN_S = 5  # then who writes says that it waits, and tries again
# after some 30 s of silence the server is taken for gone: a host without power says no goodbye
_KEEPALIVES = {"keepalives_idle": 10, "keepalives_interval": 10, "keepalives_count": 2}


# not with the tables: naming the dialect there would import it at every start
for _table in Base.metadata.tables.values():
    for _index in _table.indexes:
        _index.dialect_options["postgresql"]["where"] = _index.dialect_options["sqlite"]["where"]


class PostgresDatabase:
    """A results database, with the methods of `SqliteFile`. They raise StoreError, which names the
    database, never a password. Tables lie in the first schema of the user's search path.
    """

    def __init__(self, url: str) -> None:
        """Raises StoreError for no such URL, or a password that would be taken for the host."""
        which = f"the database's URL ({database_option('URL')} or SCALEMARK_DB)"
        try:
            self._url = make_url(url).set(drivername="postgresql+psycopg")
        except (ArgumentError, ValueError) as error:
            raise StoreError(
                f"{which} is not a valid URL; wanted postgresql://USER:PASSWORD@HOST:PORT/NAME, "
                "with %40 for @, %2F for / and %3A for : in a password"
            ) from error
        after_user = url.partition("://")[2].partition(":")[2]
        if self._url.password is not None and "@" in after_user.partition("@")[2]:
            raise StoreError(
                f"{which} has more than one @ behind the user; write each @ of the password as %40"
            )

    @property
    def name(self) -> str:
        return _shown(self._url)

    def is_made(self) -> bool:
        """Say whether its tables are there. Raises StoreError for those of another version."""
        own = "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"
        with self._connected() as connection:
            tables = set(connection.scalars(sa.text(own)))
            if not tables:
                return False
            check_is_ours(self.name, tables)
            check_version(self.name, connection.scalar(sa.text(VERSION_QUERY)), tables)
        return True

    def check_writable(self) -> None:
        """Do nothing: only the server knows, once something is written."""

    def make(self) -> None:
        """Create its tables, by one process alone while others wait."""
        with self._connected() as connection, connection.begin():
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_MAKERS)))
            if not self.is_made():
                create(connection)

    def writer(self) -> sa.Engine:
        """Return an engine whose transactions each have the database for themselves."""
        waits = f"-c idle_in_transaction_session_timeout={_IDLE_IN_TRANSACTION_S}s"
        engine = _engine(self._url, waits, pool_pre_ping=True)
        event.listen(engine, "begin", _begin)
        # who may not write learns it now, not after hours of trials
        with engine.begin() as connection:
            connection.execute(sa.text("UPDATE database_info SET value = value"))
        event.listen(engine, "do_connect", _connect_again)
        return engine

    def reader(self) -> sa.Engine:
        engine = _engine(self._url, poolclass=sa.NullPool)
        return engine.execution_options(**ONLY_READS["postgresql"])

    def explained(self) -> AbstractContextManager[None]:
        return postgresql_explained(self._url)

    def settle(self, engine: sa.Engine) -> None:
        """Do nothing: nobody copies the server's files, and it may be away now."""

    def _connected(self) -> sa.Connection:
        return _engine(self._url, poolclass=sa.NullPool).connect()


def _engine(url: sa.URL, settings: str = "", **options: Any) -> sa.Engine:
    """Make an engine; `settings` are more options of the server's session."""
    given = url.query.get("options", "")
    usual = f"-c lock_timeout={int(sqlite.BUSY_TIMEOUT_S * 1000)} -c timezone=UTC"
    connect_args = {
        "connect_timeout": _CONNECT_TIMEOUT_S,
        "application_name": "scalemark",
        "options": f"{given} {usual} {settings}".strip(),
        **_KEEPALIVES,
    }
    return sa.create_engine(
        url, json_serializer=sqlite.compact_json, connect_args=connect_args, **options
    )


def _connect_again(
    dialect: sa.Dialect, _record: Any, arguments: list[Any], options: dict[str, Any]
) -> DBAPIConnection:
    """Wait a little for a server that was there and is started again: sweeps last for days."""
    gives_up_s = time.monotonic() + _CONNECT_AGAIN_S
    while True:
        try:
            return dialect.connect(*arguments, **options)
        except psycopg.OperationalError:
            if time.monotonic() > gives_up_s:
                raise
            time.sleep(_ASK_AGAIN_S)


def _begin(connection: sa.Connection) -> None:
    """Let in one writer at a time, as in SQLite: what it read is then still true when it writes."""
    if not connection.get_execution_options().get(SCALEMARK_ONLY_READS, False):
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_WRITERS)))


@contextmanager
def postgresql_explained(url: sa.URL) -> Iterator[None]:
    """Turn what the driver raises into StoreError."""
    try:
        yield
    except IntegrityError:
        raise  # our own mistake: nothing a user could mend
    except (DBAPIError, psycopg.Error) as error:
        cause = error.orig if isinstance(error, DBAPIError) else error
        kind, remedy = StoreError, "see the server's log"
        for of_driver, (of_ours, what_to_do) in _REMEDIES.items():
            if isinstance(cause, of_driver):
                kind, remedy = of_ours, what_to_do
                break
        # without a code it is the driver that found no server, or lost it
        code: str | None = getattr(cause, "sqlstate", None)
        if kind is AwayError and code is not None and not code.startswith(_AWAY):
            kind = StoreError
        remedy = remedy.replace("{another}", f"name another database with {database_option('URL')}")
        raise kind(f"{_shown(url)}: {' '.join(str(cause).split())}; {remedy}") from error


# the connection broke; the server ended what stood still, shuts down, has crashed, is starting
_AWAY = ("08", "25P03", "57P01", "57P02", "57P03")
# the first that fits: the last is the base of others
_REMEDIES: dict[type[Exception], tuple[type[StoreError], str]] = {
    psycopg.errors.LockNotAvailable: (
        LockedError,
        "another program has held the lock too long; stop it and repeat the command",
    ),
    psycopg.errors.DiskFull: (
        StoreError,
        "free some space on the server and repeat the command; finished trials are kept",
    ),
    psycopg.errors.InsufficientPrivilege: (StoreError, "grant its user the right, or {another}"),
    psycopg.errors.IdleInTransactionSessionTimeout: (
        AwayError,
        "this program stood still while it wrote, and nothing of that is kept; repeat the command",
    ),
    psycopg.errors.ReadOnlySqlTransaction: (StoreError, "it only reads; {another}"),
    psycopg.OperationalError: (
        AwayError,
        "is the server there, and are user, password and database right?",
    ),
}


def _shown(url: sa.URL) -> str:
    """Return the URL without its password."""
    query = {name: "***" if "pass" in name else value for name, value in url.query.items()}
    return url.set(drivername="postgresql", query=query).render_as_string(hide_password=True)
