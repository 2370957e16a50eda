"""Takes in figures of others, out of tables and logs: each is added, known already, or rejected
with its place and the reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice
from pathlib import Path

import sqlalchemy as sa

from scalemark.cli.terminal import Progress, silent
from scalemark.host.own_code import typed
from scalemark.records.references import Reference, ReferenceKind, Rejected
from scalemark.text.untrusted import masked, without_secrets
from scalemark.text.wording import listed
from store.database import open_existing, open_for_writing, reading, writing
from store.errors import StoreError
from store.exchange import logs
from store.exchange.foreign_columns import NOTHING_SAID, ImportOptions, figures, understood
from store.exchange.foreign_table import read_table
from store.reference_rows import add_references
from store.schema import ReferenceRow

AT_ONCE = 5000  # figures in a transaction, unless all must be in one
Found = tuple[str, Reference] | Rejected
"""A figure with its place, as "results.csv line 12"; or why there is none."""


class ImportFormat(StrEnum):
    """The formats that are read."""

    LOG = "log"  # of a training program
    TABLE = "table"  # of other programs: CSV, TSV, Markdown, JSON lines or Parquet


@dataclass(slots=True)
class Added:
    """The figures that were added, known already, or rejected."""

    num_references: int = 0  # new ones
    num_elsewhere: int = 0  # new rows of tables: measured elsewhere
    num_known: int = 0  # that were there already, or came twice
    rejected: list[Rejected] = field(default_factory=list)


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
    """Add the figures of files to the database at `url`.

    With `strict` nothing is added when any is rejected; with `dry_run` nothing is added at all.
    Raises StoreError for paths that are not there or of no known format, before anything is added.
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

    def references() -> Iterator[Reference]:
        number = 0
        for path, kind in sources:
            for found in _read(path, kind, said):
                number += 1
                if number < _SHOWN_EACH or number % _SHOWN_EACH == 0:
                    progress("records", number, 0)
                if isinstance(found, Rejected):
                    added.rejected.append(found)
                else:
                    yield found[1]

    if dry_run:
        _count(url, list(references()), added)
        return added
    if strict:
        whole = list(references())
        if not added.rejected:
            _add(url, iter(whole), len(whole) + 1, added)
        return added
    _add(url, references(), AT_ONCE, added)
    return added


_SHOWN_EACH = 1000  # records, of which more are shown at once: a terminal takes its time


def _add(url: str, references: Iterator[Reference], at_once: int, added: Added) -> None:
    engine = open_for_writing(url)
    try:
        while piece := list(islice(references, at_once)):
            with writing(engine) as connection:
                elsewhere = [one for one in piece if one.origin == ReferenceKind.TABLE]
                cited = [one for one in piece if one.origin != ReferenceKind.TABLE]
                num_elsewhere = add_references(connection, elsewhere)
                num_cited = add_references(connection, cited)
            added.num_elsewhere += num_elsewhere
            added.num_references += num_cited
            added.num_known += len(piece) - num_elsewhere - num_cited
    finally:
        engine.dispose()


def _count(url: str, references: Sequence[Reference], added: Added) -> None:
    """Count what would be added."""
    known: set[str] = set()
    engine = open_existing(url)
    if engine is not None:
        with reading(engine) as connection:
            known.update(connection.scalars(sa.select(ReferenceRow.key)))
        engine.dispose()
    for reference in references:
        if reference.key in known:
            added.num_known += 1
        elif reference.origin == ReferenceKind.TABLE:
            added.num_elsewhere += 1
        else:
            added.num_references += 1
        known.add(reference.key)


def _check(path: str, kind: ImportFormat, said: ImportOptions) -> None:
    """Raise StoreError for a file of which something is missing, before anything is imported."""
    if kind is ImportFormat.TABLE:
        understood(path, read_table(Path(path)), said)
        return
    missing = [name for name in logs.NEEDED if name not in said.constants]
    if missing:
        options = listed([f"--{name.replace('_', '-')}" for name in missing])
        raise StoreError(f"{path}: a log, which does not name them itself: give {options}")


def guessed(path: str, *, is_table: bool = False) -> ImportFormat:
    """Return the format by the content where that says, else by the name. `is_table`: something
    was said of its columns. Raises StoreError.
    """
    if "://" in path:
        raise StoreError(f"{masked(path)}: a URL; wanted a file with a table or a log")
    file = Path(path)
    if file.is_dir():
        raise StoreError(f"{path}: a folder; name its files, as {path.rstrip('/')}/*.csv")
    if file.exists() and not file.is_file():
        raise StoreError(f"{path}: not a file, which is read twice; save it in a file first")
    try:
        with file.open("rb") as opened:
            begin = opened.read(_LOOKED_AT_BYTES)
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}") from error
    if begin.startswith(b"SQLite format 3\0"):
        raise StoreError(
            f"{path}: a SQLite database; `{typed('store')} merge {path}` adds the results of one"
        )
    if is_table or file.suffix.lower() in (".csv", ".tsv", ".md", ".parquet"):
        return ImportFormat.TABLE
    text = begin.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text.startswith((b"{", b"|", b"PAR1")):
        return ImportFormat.TABLE
    if text and not _CONTROLS & set(text):
        return ImportFormat.LOG
    raise StoreError(
        f"{path}: of no format that is known; name it with --format {'|'.join(ImportFormat)}"
    )


_LOOKED_AT_BYTES = 2**20
_CONTROLS = set(range(7))  # bytes that no text has


def _read(path: str, kind: ImportFormat, said: ImportOptions) -> Iterator[Found]:
    """Yield every figure with its place. A file that cannot be read is one rejected row."""
    try:
        if kind is ImportFormat.TABLE:
            table = read_table(Path(path))
            yield from figures(path, table, understood(path, table, said))
        else:
            yield path, logs.reference_of(Path(path), said)
    except (StoreError, OSError, ValueError) as error:
        reason = without_secrets(str(error)).removeprefix(f"{path}: ")
        yield Rejected(where=path, reason=reason)
