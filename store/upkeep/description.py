"""What a database is: of which schema, in which engine, how big. Of any schema, also one from the
future.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass

import sqlalchemy as sa

from store.database import locate, reading
from store.errors import StoreError
from store.sqlite import SqliteFile, wal_of
from store.upgrade import head_revision


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """A database from outside."""

    name: str
    revision: str  # of its schema
    known_revision: str  # of this version of scalemark
    id: str | None  # by which it is told from others; none before schema 0004
    engine: str  # with its version
    size_bytes: int  # with what is in the write-ahead log alone
    wal_bytes: int | None  # transactions that are not in the file itself yet; none on PostgreSQL
    num_rows: Mapping[str, int]  # of each table

    @property
    def is_newer(self) -> bool:
        return self.revision > self.known_revision

    @property
    def what_to_do(self) -> str:
        if self.is_newer:
            return "written by a newer scalemark; upgrade scalemark"
        if self.revision < self.known_revision:
            return (
                "`python -m store upgrade` brings it to this version's schema, and keeps a copy "
                "as it is"
            )
        return "it has this version's schema"


def describe(url: str) -> Description:
    """Raises StoreError when there is none, or it is another program's, or no database at all."""
    database = locate(url)
    with database.explained():
        revision = database.revision()
        if revision is None:
            raise StoreError(
                f"{database.name}: no such database, or an empty one; `python -m store "
                "upgrade` makes one"
            )
        wal = wal_of(database.path) if isinstance(database, SqliteFile) else None
        wal_bytes = None if wal is None else wal.stat().st_size if wal.exists() else 0
        engine = database.reader()
        try:
            with reading(engine) as connection:
                tables = sorted(set(sa.inspect(connection).get_table_names()) - {"alembic_version"})
                return Description(
                    name=database.name,
                    revision=revision,
                    known_revision=head_revision(),
                    id=_id(connection) if "database_info" in tables else None,
                    engine=_engine(connection),
                    size_bytes=database.size_bytes(),
                    wal_bytes=wal_bytes,
                    num_rows={table: _num_rows(connection, table) for table in tables},
                )
        finally:
            engine.dispose()


def _id(connection: sa.Connection) -> str | None:
    found = connection.scalar(sa.text("SELECT value FROM database_info WHERE name = 'id'"))
    return None if found is None else str(found)


def _engine(connection: sa.Connection) -> str:
    if connection.dialect.name == "sqlite":
        return f"SQLite {sqlite3.sqlite_version}"
    return f"PostgreSQL {connection.scalar(sa.text('SHOW server_version'))}"


def _num_rows(connection: sa.Connection, table: str) -> int:
    return connection.scalar(sa.select(sa.func.count()).select_from(sa.table(table))) or 0
