"""Takes in what others export: each record is added, known already, or rejected with its place and
the reason.
"""

from __future__ import annotations

import codecs
import itertools
import pickle
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path

import sqlalchemy as sa

from scalemark.cli.progress import Progress, silent
from scalemark.records.references import Rejected
from scalemark.text.redact import masked, without_secrets
from scalemark.text.wording import listed
from store.database import explained, locate, open_for_reading, open_for_writing, reading, writing
from store.errors import StoreError
from store.exchange import logs
from store.exchange.bulk import ROWS_PER_TRANSACTION, Added, Bulk, Found
from store.exchange.exports import short_name
from store.exchange.foreign_columns import NOTHING_SAID, ImportOptions, figures, understood
from store.exchange.foreign_table import read_table
from store.exchange.portable import from_json
from store.exchange.portable_rows import PortableRows, database_id
from store.sqlite import SqliteFile, copy_whole


class ImportFormat(StrEnum):
    """The formats that are read."""

    JSONL = "jsonl"
    SQLITE = "sqlite"  # a database of scalemark, also postgresql://
    LOG = "log"  # of a training program
    TABLE = "table"  # of other programs: CSV, TSV, Markdown, JSON lines or Parquet


def import_files(
    url: str,
    paths: Sequence[str],
    *,
    wanted: ImportFormat | None = None,
    said: ImportOptions = NOTHING_SAID,
    strict: bool = False,
    dry_run: bool = False,
    progress: Progress = silent,
) -> Added:
    """Add the records of files to the database at `url`, 5000 in each transaction.

    With `strict` all is one transaction, of which nothing is left when any record is rejected; with
    `dry_run` nothing is left anyway. Both read everything before they keep others from writing.
    Raises StoreError for paths that are not there or of no known format, before anything is
    imported.
    """
    sources = [(path, wanted or guessed(path, is_table=said.has_columns)) for path in paths]
    if said.has_columns and not any(kind is ImportFormat.TABLE for _, kind in sources):
        raise StoreError(
            f"{masked(paths[0])}: no table, so that options about columns have no effect; leave "
            "them out, or name the format with --format table"
        )
    for path, kind in sources:
        _check(path, kind, said)
    added = Added()
    counter = itertools.count(1)
    with tempfile.TemporaryDirectory(prefix="scalemark-import-") as folder:

        def read(path: str, kind: ImportFormat) -> Iterator[Found]:
            for found in _read(path, kind, said):
                number = next(counter)
                if number < _SHOWN_EACH or number % _SHOWN_EACH == 0:
                    progress("records", number, 0)
                yield found

        files = [
            (Bulk(origin=Path(path).name, added=added), read(path, kind)) for path, kind in sources
        ]
        engine = _opened_to_try(url, Path(folder)) if dry_run else open_for_writing(url)
        try:
            if not strict and not dry_run:
                for bulk, found in files:
                    bulk.add_in_pieces(engine, found)
                return added
            # who writes keeps out everybody else, so all is read and checked before
            spooled = Path(folder) / "records"
            _spool([found for _, found in files], spooled)
            with writing(engine) as connection:
                for number, of_file in itertools.groupby(_unspooled(spooled), lambda one: one[0]):
                    while piece := list(itertools.islice(of_file, ROWS_PER_TRANSACTION)):
                        files[number][0].add(connection, [one for _, one in piece])
                if dry_run or added.rejected:
                    connection.rollback()
        finally:
            engine.dispose()
    return Added(rejected=added.rejected) if added.rejected and not dry_run else added


_SHOWN_EACH = 1000  # records, of which more are shown at once: a terminal takes its time


def _check(path: str, kind: ImportFormat, said: ImportOptions) -> None:
    """Raise StoreError for a file of which something is missing, before anything is imported."""
    if _is_url(path) and kind is not ImportFormat.SQLITE:
        raise StoreError(
            f"{masked(path)}: a URL is one of a database; give a file, or leave --format out"
        )
    if kind is ImportFormat.LOG:
        missing = [name for name in logs.NEEDED if name not in said.constants]
        if missing:
            options = listed([f"--{name.replace('_', '-')}" for name in missing])
            raise StoreError(f"{path}: a log, which does not name them itself: give {options}")
    if kind is ImportFormat.TABLE:
        understood(path, read_table(Path(path)), said)


def guessed(path: str, *, is_table: bool = False) -> ImportFormat:
    """Return the format by the content where that says, else by the name. `is_table`: something
    was said of its columns. Raises StoreError.
    """
    if _is_url(path):
        return ImportFormat.SQLITE
    file = Path(path)
    if file.is_dir():
        raise StoreError(f"{path}: a folder; name its files, as {path.rstrip('/')}/*.jsonl")
    if file.exists() and not file.is_file():
        raise StoreError(f"{path}: not a file, which is read twice; save it in a file first")
    try:
        with file.open("rb") as opened:
            begin = opened.read(_LOOKED_AT_BYTES)
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}") from error
    suffix = file.suffix.lower()
    if begin.startswith(b"PAR1") or suffix in (".csv", ".tsv", ".md", ".parquet"):
        return ImportFormat.TABLE
    if begin.startswith(_SQLITE) or suffix in (".db", ".sqlite"):
        return ImportFormat.SQLITE
    if is_table:
        return ImportFormat.TABLE
    if suffix in (".jsonl", ".ndjson"):
        return ImportFormat.JSONL
    if begin.removeprefix(codecs.BOM_UTF8).lstrip().startswith(b"{"):
        return ImportFormat.JSONL
    if begin and not _CONTROLS & set(begin):
        return ImportFormat.LOG
    raise StoreError(
        f"{path}: of no format that is known; name it with --format {'|'.join(ImportFormat)}"
    )


_LOOKED_AT_BYTES = 2**20
_CONTROLS = set(range(7))  # bytes that no text has
_SQLITE = b"SQLite format 3\0"  # what its files begin with


def _check_is_database(path: str) -> None:
    with Path(path).open("rb") as file:
        begin = file.read(len(_SQLITE))
    if begin and begin != _SQLITE:
        others = "|".join(one for one in ImportFormat if one is not ImportFormat.SQLITE)
        raise StoreError(f"{path}: file is not a database; say what it is, with --format {others}")


def _is_url(path: str) -> bool:
    return "://" in path


def _opened_to_try(url: str, folder: Path) -> sa.Engine:
    """Open a copy of the database, so that nobody waits; of a server's the database itself."""
    database = locate(url)
    tried = folder / "tried.db"
    with database.explained():
        if not database.is_made():
            return open_for_writing(str(tried))  # so that none is made
        if not isinstance(database, SqliteFile):
            return open_for_writing(url)
        copy_whole(database.path, tried)
    return open_for_writing(str(tried))


def _spool(files: Sequence[Iterable[Found]], path: Path) -> None:
    """Write all records of all files, each with its file's number."""
    with path.open("wb") as file:
        for number, found in enumerate(files):
            for one in found:
                pickle.dump((number, one), file, pickle.HIGHEST_PROTOCOL)


def _unspooled(path: Path) -> Iterator[tuple[int, Found]]:
    with path.open("rb") as file:
        while file.peek(1):
            yield pickle.load(file)


def _read(path: str, kind: ImportFormat, said: ImportOptions) -> Iterator[Found]:
    """Yield every record with its place. A file that cannot be read is one rejected row, and what
    was read of it counts.
    """
    try:
        if kind is ImportFormat.SQLITE:
            yield from _of_database(path)
        elif kind is ImportFormat.JSONL:
            yield from _of_lines(Path(path))
        elif kind is ImportFormat.TABLE:
            table = read_table(Path(path))
            yield from figures(path, table, understood(path, table, said))
        else:
            yield path, logs.reference_of(Path(path), said)
    except (StoreError, OSError, ValueError) as error:
        where = masked(path) if _is_url(path) else path
        yield Rejected(where=where, reason=without_secrets(str(error)).removeprefix(f"{where}: "))


_LONGEST_LINE = 2**28  # bytes: with a million steps an attempt takes some 2**25


def _of_lines(path: Path) -> Iterator[Found]:
    with path.open("rb") as file:
        for number, line in enumerate(iter(partial(file.readline, _LONGEST_LINE), b""), 1):
            where = f"{path} line {number}"
            if len(line) == _LONGEST_LINE:
                reason = f"wanted less than {_LONGEST_LINE:,} bytes; what follows is not read"
                yield Rejected(where=where, reason=reason)
                return
            if not line.strip():
                continue
            try:
                yield where, from_json(line.decode("utf-8-sig" if number == 1 else "utf-8"))
            except UnicodeDecodeError as error:
                yield Rejected(where=where, reason=f"byte {error.start} of it is not UTF-8")
            except ValueError as error:
                yield Rejected(where=where, reason=str(error))


def _of_database(path: str) -> Iterator[Found]:
    if not _is_url(path):
        _check_is_database(path)
    name = short_name(path)
    engine = open_for_reading(path)
    try:
        with explained(engine), reading(engine) as connection:
            rows = PortableRows(connection, name, f"{database_id(connection)} {name}")
            for record in rows.everything():
                yield record if isinstance(record, Rejected) else (name, record)
    finally:
        engine.dispose()
