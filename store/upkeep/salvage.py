"""Saves what can be read of a damaged database into a new one of this version's schema."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

import sqlalchemy as sa

from scalemark.cli.progress import Progress, silent
from store.checks.cells import Text, fit_of, row_name, shown
from store.checks.every import check
from store.checks.finding import MOST_OF_ONE_CHECK, Finding
from store.database import locate, path_of
from store.errors import StoreError
from store.sqlite import SqliteFile, make_last, migrate, remove_file
from store.upgrade import head_revision
from store.upkeep.damaged import (
    Damage,
    mend_schema,
    mended_copy,
    num_rows,
    opened,
    rows,
    rows_without_tree,
    table_names,
)

_ROWS_AT_ONCE = 1000
_SIGNS = (("placements", "0004"), ("repeats", "0003"))  # tables that a schema is the first to have
_LOST_PARENT = "what it belongs to is lost"


@dataclass(slots=True, kw_only=True)
class SavedTable:
    """What came of one table."""

    name: str
    num_read: int = 0
    num_saved: int = 0
    num_there: int | None = None  # as far as an index tells
    error: str = ""  # why not all could be read
    left_out: list[Finding] = field(default_factory=list)  # the first; all are num_read - num_saved

    def leave_out(self, table: sa.Table, row: tuple[object, ...], why: str) -> None:
        if len(self.left_out) < MOST_OF_ONE_CHECK:
            self.left_out.append(
                Finding(table=table.name, row=row_name(table, row), what=why, remedy="")
            )

    @property
    def lost(self) -> str:
        """How many rows could not be read."""
        if not self.error:
            return "none"
        return "some" if self.num_there is None else str(max(0, self.num_there - self.num_read))


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """What a salvage made."""

    path: Path
    revision: str  # that the damaged database had
    tables: list[SavedTable]
    num_findings: int  # of a check of the new database

    def told(self) -> Iterator[str]:
        for table in self.tables:
            why = f" ({table.error})" if table.error else ""
            left_out = table.num_read - table.num_saved
            yield (
                f"{table.name}: {table.num_saved} rows saved, {left_out} left out, {table.lost} "
                f"could not be read{why}"
            )
            for finding in table.left_out:
                yield f"  {finding.table} {finding.row}: left out: {finding.what}"
            if left_out > len(table.left_out):
                yield f"  and {left_out - len(table.left_out)} more"
        yield f"{self.path}: made of what could be read"
        if self.num_findings:
            yield (
                f"{self.path}: `python -m store check` tells what lacks its other half: "
                f"{self.num_findings} findings"
            )


def salvage(url: str, out: str, progress: Progress = silent) -> Saved:
    """Raises StoreError when `out` exists, or nothing can be read at all."""
    database, target = locate(url), path_of(out)
    if not isinstance(database, SqliteFile):
        raise StoreError(
            f"{database.name}: only files are salvaged; a server keeps its own backups"
        )
    if not database.path.is_file():
        raise StoreError(f"{database.name}: no such file")
    if target.exists():
        raise StoreError(f"{target}: exists; name a new file for what is saved")
    if not target.parent.is_dir():
        raise StoreError(
            f"{target}: there is no folder {target.parent}; make it, or name another file"
        )
    draft = target.with_name(f"{target.name}.draft")
    work = target.with_name(f"{target.name}.damaged.draft")
    remove_file(draft)
    try:
        with SqliteFile(target).explained(), mended_copy(database.path, work):
            revision = _revision(work, database.path)
            migrate(draft, revision)
            mend_schema(work, draft)
            with closing(opened(work)) as source:
                tables = list(_copied(source, work, draft, progress))
            if not any(table.num_saved for table in tables):
                raise StoreError(
                    f"{database.path}: nothing can be read: not one row of a database of "
                    "scalemark is in it"
                )
            if revision != head_revision():
                migrate(draft)
        draft.replace(target)
        make_last(target.parent)
    finally:
        remove_file(draft)
    num_findings = sum(1 for _ in check(str(target), progress))
    return Saved(path=target, revision=revision, tables=tables, num_findings=num_findings)


def _revision(work: Path, path: Path) -> str:
    """As it says, or else as its tables tell."""
    told = ""
    with closing(opened(work)) as source:
        with suppress(sqlite3.DatabaseError):  # then by its tables
            (found,) = source.execute("SELECT version_num FROM alembic_version").fetchone() or (
                b"",
            )
            told = found.decode(errors="replace") if isinstance(found, bytes) else ""
        if told.isdecimal() and len(told) == 4:
            if told > head_revision():
                raise StoreError(
                    f"{path}: written by a newer scalemark (schema {told}); upgrade scalemark"
                )
            return str(told)
        tables = table_names(work)
        if "attempts" not in tables and "trials" not in tables:
            return head_revision()  # its rows may be found without
        if _has_column(source, "repeats", "turn"):
            return "0006"
        if _has_column(source, "trials", "planted"):
            return "0005"
        return next((revision for table, revision in _SIGNS if table in tables), _first_two(source))


def _first_two(source: sqlite3.Connection) -> str:
    return "0002" if _has_column(source, "trials", "onednn") else "0001"


def _has_column(source: sqlite3.Connection, table: str, column: str) -> bool:
    try:
        source.execute(f"SELECT {column} FROM {table} LIMIT 0")
    except sqlite3.DatabaseError:
        return False
    return True


def _copied(
    source: sqlite3.Connection, work: Path, draft: Path, progress: Progress
) -> Iterator[SavedTable]:
    """Parents before their children, so that whose parent is lost is left out."""
    tables = [table for table in _tables_of(draft) if table.name != "alembic_version"]
    with closing(sqlite3.connect(draft, isolation_level=None)) as target:
        target.execute("PRAGMA foreign_keys = ON")
        target.execute("BEGIN")
        for table in tables:
            saved = _copy(source, target, table, progress)
            if saved.error:
                for row in rows_without_tree(work, table, tables):
                    _add(target, table, row, saved, again=True)
            yield saved
        target.execute("COMMIT")


def _tables_of(path: Path) -> list[sa.Table]:
    engine = sa.create_engine(sa.URL.create("sqlite", database=str(path)), poolclass=sa.NullPool)
    metadata = sa.MetaData()
    metadata.reflect(engine)
    return metadata.sorted_tables


def _copy(
    source: sqlite3.Connection, target: sqlite3.Connection, table: sa.Table, progress: Progress
) -> SavedTable:
    saved, damage = SavedTable(name=table.name, num_there=num_rows(source, table)), Damage()
    fits = [fit_of(column) for column in table.columns]
    for row in rows(source, table, damage):
        if saved.num_read % _ROWS_AT_ONCE == 0:
            progress(f"rows of {table.name}", saved.num_read, saved.num_there or 0)
        cells = zip(table.columns, fits, row, strict=True)
        unfit = [
            f"{column.name} holds {shown(value)}" for column, fit, value in cells if not fit(value)
        ]
        if unfit:
            saved.num_read += 1
            saved.leave_out(table, row, unfit[0])
        else:
            _add(target, table, row, saved)
    saved.error = damage.error
    return saved


def _add(
    target: sqlite3.Connection,
    table: sa.Table,
    row: tuple[object, ...],
    saved: SavedTable,
    *,
    again: bool = False,
) -> None:
    """`again`: it may be there already, and then does not count."""
    # the new one has its own id until then
    verb = "INSERT OR REPLACE" if table.name == "database_info" else "INSERT"
    insert = f'{verb} INTO "{table.name}" VALUES ({", ".join("?" * len(row))})'
    why = _inserted(target, insert, row)
    if again and why not in ("", _LOST_PARENT):
        return
    saved.num_read += 1
    if why:
        saved.leave_out(table, row, why)
    else:
        saved.num_saved += 1


def _inserted(target: sqlite3.Connection, insert: str, row: tuple[object, ...]) -> str:
    """Why it is not; empty when it is."""
    try:
        target.execute(
            insert, [value.decode() if isinstance(value, Text) else value for value in row]
        )
    except sqlite3.IntegrityError as error:
        return _LOST_PARENT if "FOREIGN KEY" in str(error) else str(error)
    return ""
