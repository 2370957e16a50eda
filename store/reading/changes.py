"""Says cheaply whether a database may show other results than it did when it was last asked."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Protocol

import sqlalchemy as sa

from store.database import explained, file_of, open_for_reading
from store.reading.queries import rows
from store.sqlite import connect_read_only, sqlite_explained, wal_of

_SHOWN = """
SELECT (SELECT value FROM database_info WHERE name = 'id') AS of_database,
       attempts.*, sweeps.*, figures.*, tags.*, notes.*
FROM (
  SELECT max(id) AS newest_attempt, count(*) AS num_attempts, count(deleted_at) AS num_deleted,
         sum(CASE WHEN deleted_at IS NULL THEN 0 ELSE id END) AS deleted
  FROM attempts
) AS attempts
CROSS JOIN (
  SELECT max(id) AS newest_sweep, count(*) AS num_sweeps, count(finished_at) AS num_finished
  FROM sweeps
) AS sweeps
CROSS JOIN (
  SELECT max(id) AS newest_figure, count(*) AS num_figures FROM reference_results
) AS figures
CROSS JOIN (SELECT max(id) AS newest_tag, count(*) AS num_tags FROM tags) AS tags
CROSS JOIN (SELECT max(id) AS newest_note, count(*) AS num_notes FROM notes) AS notes
"""
"""What changes with what results show, and not with states of repeats and heartbeats."""


class Changes:
    """Watches a database for one thread; keeps a SQLite file open, and nothing of PostgreSQL."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._glance: _Glance | None = None
        self._mark = ""
        # another one with anything that was written, as of the last call; None when not known
        self.last_write: str | None = None

    def mark(self) -> str:
        """Return the same text as before when no attempt, sweep, tag, note or published figure was
        added or changed. Raises StoreError when the database cannot be read.
        """
        if self._glance is None:
            self._glance = _glance_at(self._url)
        try:
            # before reading: what is written meanwhile shows the next time
            seen = self._glance.look()
            if seen is None or seen != self.last_write:
                self._mark = repr(rows(open_for_reading(self._url), _SHOWN))
                self.last_write = seen
        except BaseException:
            self.close()
            raise
        return self._mark

    def close(self) -> None:
        if self._glance is not None:
            self._glance.close()
        self._glance = self.last_write = None


class _Glance(Protocol):
    """Says whether anything at all was written, without reading it."""

    def look(self) -> str | None:
        """Return the rows, those of before when nothing was written, or None when there is nothing
        yet."""

    def close(self) -> None: ...


def _glance_at(url: str) -> _Glance:
    path = file_of(url)
    return _SqliteGlance(path) if path else _PostgresGlance(open_for_reading(url))


class _SqliteGlance:
    """Asks SQLite, which tells each connection whether others have written since; a file that was
    replaced is opened again.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None
        self._identity: tuple[object, ...] = ()
        self._num_opened = 0

    def look(self) -> str | None:
        try:
            found = self._path.stat()
        except FileNotFoundError:
            self.close()
            return None
        identity = (found.st_dev, found.st_ino, found.st_mtime_ns, wal_of(self._path).exists())
        with sqlite_explained(self._path):
            if self._connection is None or identity != self._identity:
                self.close()
                self._connection, self._identity = connect_read_only(self._path), identity
                self._num_opened += 1
            (version,) = self._connection.execute("PRAGMA data_version").fetchone()
        return f"{self._num_opened} {version}"

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None


class _PostgresGlance:
    """Looks at which transactions are over: every one that wrote changes it, also in other
    databases of the server.
    """

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def look(self) -> str | None:
        with explained(self._engine), self._engine.connect() as connection:
            return str(connection.scalar(sa.text("SELECT pg_current_snapshot()::text")))

    def close(self) -> None:
        self._engine.dispose()
