"""Takes in what others export: each record is added, known already, or rejected with its place and
the reason.
"""

from __future__ import annotations

import itertools
import pickle
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from scalemark.cli.progress import Progress, silent
from scalemark.records.references import Reference, Rejected
from scalemark.text.redact import masked, without_secrets
from store.database import (
    explained,
    locate,
    open_for_reading,
    open_for_writing,
    reading,
    writing,
)
from store.errors import StoreError
from store.exchange.bulk import ROWS_PER_TRANSACTION, Added, Bulk, Located
from store.exchange.exports import short_name
from store.exchange.portable import from_json
from store.exchange.portable_rows import PortableRows, database_id
from store.formats import mlperf, tf_cnn_benchmarks
from store.sqlite import SqliteFile, copy_whole

Found = Located | Rejected
_Batch = tuple[str, Sequence[Found]]
"""Records of one sweep, and the name of where they come from."""


class ImportFormat(StrEnum):
    """What can be taken in."""

    JSONL = "jsonl"
    SQLITE = "sqlite"  # a database of scalemark, also postgresql://
    TF_CNN_BENCHMARKS = "tf_cnn_benchmarks"
    MLPERF = "mlperf"


LOGS = (ImportFormat.TF_CNN_BENCHMARKS, ImportFormat.MLPERF)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSource:
    """What a log of another program does not tell of itself."""

    source: str  # short name, as in charts
    citation: str  # where it can be looked up
    hardware: str
    model: str = ""  # as batch_size only asked of logs of tf_cnn_benchmarks
    num_gpus: int | None = None
    batch_size: int | None = None  # per GPU


def import_files(
    url: str,
    paths: Sequence[str],
    *,
    wanted: ImportFormat | None = None,
    log: LogSource | None = None,
    strict: bool = False,
    dry_run: bool = False,
    progress: Progress = silent,
) -> Added:
    """Into the database at `url`. Each piece of up to 5000 records of one sweep and file is one
    transaction.

    `strict`: all is one transaction, of which nothing is left when any record is rejected;
    `dry_run`: nothing is left anyway. Both read everything before they keep others from writing.
    Raises StoreError for paths that are not there or of no known format, before anything is
    imported.
    """
    sources = [(path, wanted or guessed(path)) for path in paths]
    for path, kind in sources:
        if _is_url(path) and kind is not ImportFormat.SQLITE:
            raise StoreError(
                f"{masked(path)}: a URL is one of a database; give a file, or leave --format out"
            )
        if kind in LOGS and not (log and log.source and log.citation and log.hardware):
            raise StoreError(
                f"{path}: a log of {kind} does not tell them itself: give --source, "
                "--citation and --hardware"
            )
    with tempfile.TemporaryDirectory(prefix="scalemark-import-") as name:
        folder, told = Path(name), _Telling(progress)
        batches = (
            one
            for path, kind in sources
            for one in _batches(path, told(_read(path, kind, log, folder)))
        )
        engine = _opened_to_try(url, folder) if dry_run else open_for_writing(url)
        try:
            if strict or dry_run:
                return _at_once(engine, _spooled(batches, folder), strict, dry_run)
            return _by_and_by(engine, batches)
        finally:
            engine.dispose()


def guessed(path: str) -> ImportFormat:
    """By its content where that tells, else by its name. Raises StoreError."""
    if _is_url(path):
        return ImportFormat.SQLITE
    file = Path(path)
    if file.exists() and not file.is_file():
        raise StoreError(
            f"{path}: not a file, and what is looked at to guess what it is would be lost; "
            "save it in a file first"
        )
    try:
        with file.open("rb") as opened:
            begin = opened.read(_LOOKED_AT_BYTES)
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}") from error
    if begin.startswith(b"SQLite format 3\0"):
        return ImportFormat.SQLITE
    if begin.startswith(b"PAR1") or file.suffix.lower() in (".csv", ".parquet"):
        raise StoreError(
            f"{path}: a table, which is written for other programs; wanted a database, or what "
            "`python -m store export --format jsonl` wrote"
        )
    if kind_of_name := _SUFFIXES.get(file.suffix.lower()):
        return kind_of_name
    for word, kind in _WORDS.items():
        if word in begin:
            return kind
    if begin.lstrip().startswith(b"{"):
        return ImportFormat.JSONL
    raise StoreError(
        f"{path}: of no format that is known; say which with --format {'|'.join(ImportFormat)}"
    )


def _is_url(path: str) -> bool:
    return "://" in path


_LOOKED_AT_BYTES = 2**20
_SUFFIXES = {
    ".jsonl": ImportFormat.JSONL,
    ".ndjson": ImportFormat.JSONL,
    ".db": ImportFormat.SQLITE,
    ".sqlite": ImportFormat.SQLITE,
}
_WORDS = {
    b":::ML": ImportFormat.MLPERF,
    b"images/sec": ImportFormat.TF_CNN_BENCHMARKS,
    b'"scalemark":': ImportFormat.JSONL,
}


def _opened_to_try(url: str, folder: Path) -> sa.Engine:
    """A copy of it, so that nobody waits; a server's own, where one transaction comes to nothing.
    Raises StoreError.
    """
    database = locate(url)
    with database.explained():
        if not database.is_made():
            return open_for_writing(str(folder / "nothing.db"))  # so that none is made
        if not isinstance(database, SqliteFile):
            return open_for_writing(url)
        tried = folder / "tried.db"
        copy_whole(database.path, tried)
    return open_for_writing(str(tried))


def _spooled(batches: Iterable[_Batch], folder: Path) -> Iterator[_Batch]:
    """The same, once all are read and checked: who takes them holds up everybody who writes."""
    path = folder / "batches"
    with path.open("wb") as file:
        for batch in batches:
            pickle.dump(batch, file, pickle.HIGHEST_PROTOCOL)
    return _unspooled(path)


def _unspooled(path: Path) -> Iterator[_Batch]:
    with path.open("rb") as file:
        while file.peek(1):
            batch: _Batch = pickle.load(file)
            yield batch


class _RolledBackError(Exception):
    """Nothing shall be left."""


def _at_once(engine: sa.Engine, batches: Iterable[_Batch], strict: bool, dry_run: bool) -> Added:
    added = Added()
    try:
        with writing(engine) as connection:
            bulks: dict[str, Bulk] = {}
            for name, batch in batches:
                _add(bulks.setdefault(name, Bulk(origin=name, added=added)), connection, batch)
            if dry_run or (strict and added.rejected):
                raise _RolledBackError
    except _RolledBackError:
        return added if dry_run else Added(rejected=added.rejected)
    return added


def _by_and_by(engine: sa.Engine, batches: Iterable[_Batch]) -> Added:
    added = Added()
    bulks: dict[str, Bulk] = {}
    for name, batch in batches:
        with writing(engine) as connection:
            _add(bulks.setdefault(name, Bulk(origin=name, added=added)), connection, batch)
    return added


def _add(bulk: Bulk, connection: sa.Connection, batch: Sequence[Found]) -> None:
    bulk.added.rejected.extend(found for found in batch if isinstance(found, Rejected))
    bulk.add(connection, [found for found in batch if not isinstance(found, Rejected)])


def _batches(path: str, found: Iterable[Found]) -> Iterator[_Batch]:
    """Consecutive records of one sweep, with the name of where they come from; they are read before
    the database is locked.
    """
    for _, of_sweep in itertools.groupby(found, key=_sweep_of):
        while batch := list(itertools.islice(of_sweep, ROWS_PER_TRANSACTION)):
            yield Path(path).name, batch


def _sweep_of(found: Found) -> str:
    if isinstance(found, Rejected) or isinstance(found[1], Reference):
        return ""
    return found[1].sweep.uid


class _Telling:
    """Counts what passes, of all files together."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._num_read = 0

    def __call__(self, found: Iterable[Found]) -> Iterator[Found]:
        for one in found:
            self._num_read += 1
            self._progress("records", self._num_read, 0)
            yield one


def _read(path: str, kind: ImportFormat, log: LogSource | None, folder: Path) -> Iterator[Found]:
    """Every record with its place. A file that cannot be read is one rejected row, and what was
    read of it counts.
    """
    try:
        if kind is ImportFormat.SQLITE:
            yield from _of_database(path, folder)
        elif kind is ImportFormat.JSONL:
            yield from _of_lines(Path(path))
        else:
            assert log is not None  # refused before
            yield from _of_log(Path(path), kind, log)
    except (StoreError, OSError) as error:
        where = masked(path) if _is_url(path) else path
        yield Rejected(where=where, reason=without_secrets(str(error)).removeprefix(f"{where}: "))


_LONGEST_LINE = 2**28  # bytes: with a million steps an attempt takes some 2**25
_TOO_LONG = f"wanted a line of less than {_LONGEST_LINE:,} bytes; what follows is not read"


def _of_lines(path: Path) -> Iterator[Found]:
    with path.open("rb") as file:
        for number, line in enumerate(iter(partial(file.readline, _LONGEST_LINE), b""), 1):
            where = f"{path} line {number}"
            if len(line) == _LONGEST_LINE:
                yield Rejected(where=where, reason=_TOO_LONG)
                return
            if not line.strip():
                continue
            try:
                yield where, from_json(line.decode("utf-8-sig" if number == 1 else "utf-8"))
            except ValueError as error:
                yield Rejected(where=where, reason=_reason(error))


def _reason(error: ValueError) -> str:
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.start} of it is not UTF-8"
    return str(error)


def _of_log(path: Path, kind: ImportFormat, log: LogSource) -> Iterator[Found]:
    told: dict[str, Any] = {
        name: getattr(log, name) for name in ("source", "citation", "hardware", "num_gpus")
    }
    with path.open(encoding="utf-8", errors="replace") as lines:
        if kind is ImportFormat.MLPERF:
            references, rejected = mlperf.parse(lines, **told)
        else:
            references, rejected = tf_cnn_benchmarks.parse(
                lines, **told, model=log.model, batch_size=log.batch_size
            )
    yield from ((str(path), reference) for reference in references)
    yield from (
        Rejected(where=one.where.replace(log.source, str(path), 1), reason=one.reason)
        for one in rejected
    )


def _of_database(path: str, folder: Path) -> Iterator[Found]:
    """All that it holds."""
    name = short_name(path)
    engine = open_for_reading(path)
    try:
        with explained(engine), reading(engine) as connection:
            rows = PortableRows(connection, name, f"{database_id(connection)} {name}")
            for kind, records in (
                ("sweep", rows.sweeps()),
                ("trial", rows.trials()),
                ("attempt", rows.attempts()),
            ):
                for record in records:
                    yield record if isinstance(record, Rejected) else (f"{name} {kind}", record)
            for reference in rows.references():
                yield (
                    reference
                    if isinstance(reference, Rejected)
                    else (f"{name} reference", reference)
                )
    finally:
        engine.dispose()
