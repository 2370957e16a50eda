"""A results database in PostgreSQL, through psycopg 3: the same rules as in SQLite, so that both
give the same answers.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

import psycopg
import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine import make_url
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError

from store import engine as engines
from store.engine import ONLY_READS, SCALEMARK_BESIDE_OTHERS, SCALEMARK_ONLY_READS
from store.errors import AwayError, LockedError, StoreError
from store.version import VERSION_QUERY, check_is_ours, check_version, create

_WRITERS, _MAKERS = 0x5CA1E, 0x5CA1F  # names of locks within the database
_CONNECT_TIMEOUT_S = 10
# of silence the other end is taken for gone: a host without power says no goodbye, and holds its
# locks
_GONE_AFTER_S = 30
_IDLE_IN_TRANSACTION_S = 60  # of who writes: who stands still with locks keeps all others waiting
_ASK_AGAIN_S = 0.5


class PostgresDatabase:
    """See `store.database.Database`. Tables lie in the first schema of the user's search path."""

    def __init__(self, url: str) -> None:
        """Raises StoreError when it is no such URL, or its password would be taken for a part of
        the host.
        """
        try:
            self._url = make_url(url).set(drivername="postgresql+psycopg")
        except (ArgumentError, ValueError) as error:
            raise StoreError(
                "the database's URL (store.url, --db or SCALEMARK_DB) is none; wanted postgresql://USER:PASSWORD@HOST:PORT/NAME, "
                "with %40 for @, %2F for / and %3A for : in a password"
            ) from error
        if (
            self._url.password is not None
            and "@" in url.partition("://")[2].partition(":")[2].partition("@")[2]
        ):
            raise StoreError(
                "the database's URL (store.url, --db or SCALEMARK_DB) has more than one @ behind the user; write each @ of the "
                "password as %40"
            )

    @property
    def name(self) -> str:
        return _shown(self._url)

    def is_made(self) -> bool:
        with self._connected() as connection:
            own = (
                "SELECT table_name FROM information_schema.tables WHERE table_schema = "
                "current_schema() ORDER BY 1"
            )
            tables = set(connection.scalars(sa.text(own)))
            if not tables:
                return False
            check_is_ours(self.name, tables)
            check_version(self.name, connection.scalar(sa.text(VERSION_QUERY)), tables)
        return True

    def check_writable(self) -> None:
        """Only the server can tell, once something is written."""

    def make(self) -> None:
        with self._connected() as connection, connection.begin():
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_MAKERS)))
            if not self.is_made():
                create(connection)

    def writer(self) -> sa.Engine:
        engine = _engine(
            self._url,
            f"-c idle_in_transaction_session_timeout={_IDLE_IN_TRANSACTION_S * 1000}",
            pool_pre_ping=True,
        )
        event.listen(engine, "begin", _begin)
        # who may not write learns it now, not after hours of trials
        with engine.begin() as connection:
            connection.execute(sa.text("UPDATE database_info SET value = value"))
        event.listen(engine, "do_connect", _connect_again)
        return engine

    def reader(self) -> sa.Engine:
        return _engine(self._url, poolclass=sa.NullPool).execution_options(
            **ONLY_READS["postgresql"]
        )

    def explained(self) -> AbstractContextManager[None]:
        return postgresql_explained(self._url)

    def size_bytes(self) -> int:
        with self._connected() as connection:
            return int(
                connection.scalar(sa.text("SELECT pg_database_size(current_database())")) or 0
            )

    def settle(self) -> None:
        """Nothing to do: the server is asked, whatever its files hold."""

    def compact(self) -> None:
        with self._connected() as connection:
            outside = connection.execution_options(isolation_level="AUTOCOMMIT")
            tables = ", ".join(sa.inspect(outside).get_table_names())
            # no others: they may belong to other users
            outside.exec_driver_sql(f"VACUUM (ANALYZE) {tables}")

    @contextmanager
    def _connected(self) -> Iterator[sa.Connection]:
        with _engine(self._url, poolclass=sa.NullPool).connect() as connection:
            yield connection


def answer_within(engine: sa.Engine, within_s: float) -> None:
    """From now on connecting, a lock, the server's answer and its silence are each waited for no
    longer than about that.

    For who has to know in time that it cannot write. Statements have twice as long: they may wait
    for a lock first.
    """
    lock_ms = max(1, int(within_s * 1000))
    own = (
        f"-c lock_timeout={lock_ms} -c statement_timeout={2 * lock_ms} -c "
        f"idle_in_transaction_session_timeout={2 * lock_ms}"
    )
    tight = _told_when_gone(within_s) | {
        "connect_timeout": max(_LEAST_CONNECT_TIMEOUT_S, round(within_s))
    }

    def connect(
        dialect: sa.Dialect, _record: Any, arguments: list[Any], options: dict[str, Any]
    ) -> DBAPIConnection:
        # of what is told twice the last holds
        told = f"{options['options']} {_heard_when_gone(within_s)} {own}"
        return _connect(dialect, arguments, {**options, **tight, "options": told}, within_s)

    if event.contains(engine, "do_connect", _connect_again):
        event.remove(engine, "do_connect", _connect_again)
    event.listen(engine, "do_connect", connect)
    engine.dispose()  # connections that were made otherwise


_LEAST_CONNECT_TIMEOUT_S = 2  # libpq takes less for as much


def _engine(url: sa.URL, more: str = "", **options: Any) -> sa.Engine:
    """`more`: settings of the server's session."""
    own = (
        f"-c lock_timeout={int(engines.BUSY_TIMEOUT_S * 1000)} -c timezone=UTC "
        f"{_heard_when_gone(_GONE_AFTER_S)} {more}"
    )
    told = f"{url.query.get('options', '')} {own}".strip()
    connect_args = {
        "connect_timeout": _CONNECT_TIMEOUT_S,
        "application_name": "scalemark",
        "options": told,
    }
    connect_args |= _told_when_gone(_GONE_AFTER_S)
    return sa.create_engine(
        url, json_serializer=engines.compact_json, connect_args=connect_args, **options
    )


def _told_when_gone(after_s: float) -> dict[str, Any]:
    """How this end learns that the server's host is not there any more."""
    every_s = max(1, round(after_s / 3))
    probes = {
        "keepalives": 1,
        "keepalives_idle": every_s,
        "keepalives_interval": every_s,
        "keepalives_count": 2,
    }
    return probes | {"tcp_user_timeout": 3 * every_s * 1000}


def _heard_when_gone(after_s: float) -> str:
    """The same, for the server."""
    every_s = max(1, round(after_s / 3))
    probes = (
        f"-c tcp_keepalives_idle={every_s} -c tcp_keepalives_interval={every_s} -c "
        "tcp_keepalives_count=2"
    )
    return f"{probes} -c tcp_user_timeout={3 * every_s * 1000}"


def _connect_again(
    dialect: sa.Dialect, _record: Any, arguments: list[Any], options: dict[str, Any]
) -> DBAPIConnection:
    """Once it was there, a server that is started anew is waited for: sweeps last for days."""
    return _connect(dialect, arguments, options, engines.BUSY_TIMEOUT_S)


def _connect(
    dialect: sa.Dialect, arguments: list[Any], options: dict[str, Any], within_s: float
) -> DBAPIConnection:
    gives_up_s = time.monotonic() + within_s
    while True:
        try:
            return dialect.connect(*arguments, **options)
        except psycopg.OperationalError:
            if time.monotonic() > gives_up_s:
                raise
            time.sleep(_ASK_AGAIN_S)


def _begin(connection: sa.Connection) -> None:
    """One writer at a time, as in SQLite: what it read is then still true when it writes."""
    options = connection.get_execution_options()
    if not (
        options.get(SCALEMARK_ONLY_READS, False) or options.get(SCALEMARK_BESIDE_OTHERS, False)
    ):
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_WRITERS)))


@contextmanager
def postgresql_explained(url: sa.URL) -> Iterator[None]:
    """Turns what the driver raises into StoreError."""
    try:
        yield
    except IntegrityError:
        raise  # our own mistake: nothing a user could mend
    except (DBAPIError, psycopg.Error) as error:
        cause = error.orig if isinstance(error, DBAPIError) else error
        told = partial("{}: {}; {}".format, _shown(url), " ".join(str(cause).split()))
        if isinstance(cause, psycopg.errors.LockNotAvailable):
            raise LockedError(
                told("another program kept it so for long; end that and repeat the command")
            ) from error
        if isinstance(cause, psycopg.errors.QueryCanceled):
            raise LockedError(
                told("the server is too busy, or stands still; repeat the command")
            ) from error
        for kind, remedy in _REMEDIES.items():
            if isinstance(cause, kind):
                raise (AwayError if _is_away(cause) else StoreError)(told(remedy)) from error
        raise StoreError(told("see the server's log")) from error


def _is_away(error: BaseException) -> bool:
    """Without a code it is the driver that found no server, or lost it."""
    code = error.sqlstate if isinstance(error, psycopg.OperationalError) else ""
    return code is None or code.startswith(_AWAY)


# the connection broke; the server shuts down, has crashed, is starting
_AWAY = ("08", "57P01", "57P02", "57P03")
_REMEDIES = {
    psycopg.errors.DiskFull: "free some space on the server and repeat the command; finished trials are kept",
    psycopg.errors.InsufficientPrivilege: "grant its user the right, or name another database with store.url=URL or --db URL",
    psycopg.errors.ReadOnlySqlTransaction: "it only reads; name another database with store.url=URL or --db URL",
    psycopg.OperationalError: "is the server there, and are user, password and database right?",
}


def _shown(url: sa.URL) -> str:
    """Without its password."""
    query = {name: "***" if "pass" in name else value for name, value in url.query.items()}
    return url.set(drivername="postgresql", query=query).render_as_string(hide_password=True)
