"""Reads what can be read of a damaged SQLite file: row by row, around the pages that cannot."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa

from store.checks.cells import Text, fit_of
from store.sqlite import remove_file, wal_of
from store.upkeep.leaf_pages import INDEX_LEAF, TABLE_LEAF, LeafRow, leaf_rows

_PAGE_BYTES = 4096  # SQLite's default, when the header tells none that is possible
_MOST_ROWS_OF_A_PAGE = 500
_FIRST_TREE_PAGE_AT, _KINDS_OF_TREE_PAGES = 100, (5, 13)
_SINGLE_STEPS, _LONGEST_STEP = 64, 16


@dataclass(slots=True)
class Damage:
    """What was not there when a table was read."""

    error: str = ""  # of SQLite, the first; empty: none
    num_gaps: int = 0


@contextmanager
def mended_copy(path: Path, work: Path) -> Iterator[None]:
    """A copy of it at `work`, which is removed in the end. Its header is made good, and the first
    page if it can be.
    """
    remove_file(work)
    try:
        shutil.copyfile(path, work)
        if wal_of(path).exists():
            shutil.copyfile(wal_of(path), wal_of(work))
        _mend_header(work)
        # then the log stays beside it
        with closing(opened(work)) as connection, suppress(sqlite3.DatabaseError):
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        _mend_header(work)
        _mend_first_page(work)
        yield
    finally:
        remove_file(work)


def mend_schema(work: Path, like: Path) -> None:
    """Gives tables whose definition makes no sense any more that of the whole database `like`."""
    with closing(sqlite3.connect(like)) as whole:
        definitions = whole.execute(
            "SELECT sql, name FROM sqlite_master WHERE type = 'table' AND sql IS NOT NULL"
        ).fetchall()
    with closing(opened(work)) as connection:
        for sql, name in definitions:
            try:
                connection.execute(f'SELECT 1 FROM "{name}" LIMIT 0')
            except sqlite3.DatabaseError:
                # then its rows cannot be read, which is told of them
                with suppress(sqlite3.DatabaseError):
                    connection.execute(
                        "UPDATE sqlite_master SET sql = ? WHERE type = 'table' AND name = ?",
                        (sql, name),
                    )


def opened(work: Path) -> sqlite3.Connection:
    """Its text comes as `Text`; what makes no sense in its schema hides nothing else."""
    connection = sqlite3.connect(work, isolation_level=None)
    connection.text_factory = Text
    connection.execute("PRAGMA writable_schema = ON")
    # the first statement tells of the schema; those that follow work with what there is
    with suppress(sqlite3.DatabaseError):
        connection.execute("SELECT 1 FROM sqlite_master").fetchone()
    return connection


def rows(
    connection: sqlite3.Connection, table: sa.Table, damage: Damage
) -> Iterator[tuple[object, ...]]:
    """All rows that can be read, in the order of their keys; `damage` tells of the others."""
    key = (
        "rowid"
        if table.dialect_options["sqlite"]["with_rowid"]
        else next(iter(table.primary_key)).name
    )
    names = ", ".join(f'"{column.name}"' for column in table.columns)
    select = f'SELECT {key}, {names} FROM "{table.name}" WHERE {key} >= ? ORDER BY {key}'
    at: int | None = 0
    while at is not None:
        try:
            for row in connection.execute(select, (at,)):
                if type(row[0]) is int:
                    at = max(at, row[0] + 1)
                yield row[1:]
            return
        except sqlite3.DatabaseError as error:
            damage.error = damage.error or str(error)
            damage.num_gaps += 1
        at = _next_readable(connection, f"{select} LIMIT 1", at)


def rows_without_tree(
    work: Path, table: sa.Table, others: Sequence[sa.Table]
) -> Iterator[tuple[object, ...]]:
    """Rows in any page that can be of this table and of none of the others."""
    with work.open("rb") as file:
        page_bytes = int.from_bytes(file.read(18)[16:]) % 65535 or 65536
    takes = _taker(table)
    takes_others = [
        _taker(other)
        for other in others
        if other is not table and len(other.columns) == len(table.columns)
    ]
    for row in leaf_rows(work, page_bytes):
        found = takes(row)
        if found is not None and not any(other(row) is not None for other in takes_others):
            yield found


def _taker(table: sa.Table) -> Callable[[LeafRow], tuple[object, ...] | None]:
    """Makes of what lies in a page a row of this table; None of what can be none."""
    fits = [fit_of(column) for column in table.columns]
    kind = TABLE_LEAF if table.dialect_options["sqlite"]["with_rowid"] else INDEX_LEAF
    keys = list(table.primary_key)
    is_rowid = [
        len(keys) == 1 and column is keys[0] and isinstance(column.type, sa.Integer)
        for column in table.columns
    ]

    def take(row: LeafRow) -> tuple[object, ...] | None:
        if row.kind != kind or len(row.values) != len(fits):
            return None
        values = tuple(
            row.rowid if of_key else value
            for value, of_key in zip(row.values, is_rowid, strict=True)
        )
        return values if all(fit(value) for fit, value in zip(fits, values, strict=True)) else None

    return take


def num_rows(connection: sqlite3.Connection, table: sa.Table) -> int | None:
    """As an index may still tell; None when none can."""
    try:
        (found,) = connection.execute(f'SELECT count(*) FROM "{table.name}"').fetchone()
    except sqlite3.DatabaseError:
        return None
    return int(found)


def _next_readable(connection: sqlite3.Connection, probe: str, at: int) -> int | None:
    """The least key after this one from which on something can be read; None when there is no
    more.
    """
    (num_pages,) = connection.execute("PRAGMA page_count").fetchone()
    most = at + num_pages * _MOST_ROWS_OF_A_PAGE
    failing, step = at, 1
    for tried in range(most):
        found = failing + step
        if found > most:
            return None
        if _can_be_read(connection, probe, found):
            break
        failing, step = found, 1 if tried < _SINGLE_STEPS else min(2 * step, _LONGEST_STEP)
    while found - failing > 1:
        middle = (failing + found) // 2
        failing, found = (
            (failing, middle) if _can_be_read(connection, probe, middle) else (middle, found)
        )
    return found


def _can_be_read(connection: sqlite3.Connection, probe: str, at: int) -> bool:
    try:
        connection.execute(probe, (at,)).fetchone()
    except sqlite3.DatabaseError:
        return False
    return True


def _mend_first_page(path: Path) -> None:
    """The list of the tables begins on it: whether it is a leaf of a tree or not, one bit tells."""
    with path.open("r+b") as file:
        for kind in (None, *_KINDS_OF_TREE_PAGES):
            if kind is not None:
                file.seek(_FIRST_TREE_PAGE_AT)
                file.write(bytes([kind]))
                file.flush()
            if table_names(path):
                return


def table_names(path: Path) -> set[str]:
    """As much as can be read of their list."""
    names: set[str] = set()
    with closing(opened(path)) as connection, suppress(sqlite3.DatabaseError):
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'"):
            names.add(name.decode(errors="replace"))
    return names


def _mend_header(path: Path) -> None:
    """As scalemark's databases have it, where it is not possible:
    https://www.sqlite.org/fileformat2.html#the_database_header.
    """
    with path.open("r+b") as file:
        header = bytearray(file.read(100).ljust(100, b"\0"))
        told = int.from_bytes(header[16:18])
        page_bytes = (
            65536 if told == 1 else told if told >= 512 and told.bit_count() == 1 else _PAGE_BYTES
        )
        size = file.seek(0, 2)
        num_pages = -(-size // page_bytes)
        header[:16] = b"SQLite format 3\0"
        header[16:18] = (1 if page_bytes == 65536 else page_bytes).to_bytes(2)
        if header[18] not in (1, 2) or header[19] not in (1, 2):
            header[18:20] = b"\2\2"
        header[20:24] = bytes([0, 64, 32, 32])
        header[28:32] = num_pages.to_bytes(4)
        header[32:40] = bytes(8)  # no free pages: nothing is written here
        header[44:48] = (4).to_bytes(4)
        header[52:56], header[64:68] = bytes(4), bytes(4)
        header[56:60] = (1).to_bytes(4)  # UTF-8
        header[92:96] = header[24:28]
        file.seek(0)
        file.write(header)
        file.truncate(num_pages * page_bytes)
