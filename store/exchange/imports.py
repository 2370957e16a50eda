"""Takes in figures of others, out of tables and logs: each is added, known already, or rejected
with its place and the reason.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice
from pathlib import Path
from statistics import median

import sqlalchemy as sa

from scalemark.cli.terminal import Progress, silent
from scalemark.host.own_code import typed
from scalemark.readers.log_text import LogError, log_text
from scalemark.readers.reading import ReadError, Reading
from scalemark.readers.search import FoundReader, readings_of, search
from scalemark.records.free_axes import is_free, name_in_records
from scalemark.records.references import Reference, ReferenceKind, Rejected
from scalemark.text.untrusted import masked, without_secrets
from scalemark.text.wording import listed
from store.database import open_existing, open_for_writing, reading, writing
from store.errors import StoreError
from store.exchange.foreign_columns import (
    DEFAULTS,
    NOTHING_SAID,
    ForeignTable,
    ImportOptions,
    constants_of,
    figures,
    shown,
    understood,
)
from store.rows import add_references
from store.schema import ReferenceRow

AT_ONCE = 5000  # figures in a transaction
NEEDED_OF_LOGS = ("source", "citation", "hardware", "model", "num_gpus")
"""What no log says of itself, or none that every reader reads."""

_SHOWN_EACH = 1000  # records: a terminal takes its time
_AGREE = 1.05  # processes of one run print totals that differ by less
_LOOKED_AT_BYTES = 2**20
_CONTROLS = set(range(7))  # bytes that no text has
_DELIMITERS = ",;\t|"
_RULE = re.compile(r"[\s|:-]*-[\s|:-]*")  # of Markdown, below the names
_CELL_END = re.compile(r"(?<!\\)\|")


class ImportFormat(StrEnum):
    """The formats that are read."""

    LOG = "log"  # of a training program
    TABLE = "table"  # of other programs: CSV, TSV, Markdown or Parquet


@dataclass(slots=True)
class Imported:
    """The figures that were added, known already, or rejected."""

    num_references: int = 0  # new ones
    num_elsewhere: int = 0  # new rows of tables: measured elsewhere
    num_known: int = 0  # that were there already, or came twice
    rejected: list[Rejected] = field(default_factory=list)


def import_files(
    url: str,
    paths: Sequence[str],
    wanted: ImportFormat | None = None,
    said: ImportOptions = NOTHING_SAID,
    *,
    dry_run: bool = False,
    progress: Progress = silent,
) -> Imported:
    """Add the figures of files to the database at `url`; with `dry_run` nothing is added.

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
    added = Imported()

    def references() -> Iterator[Reference]:
        number = 0
        for path, kind in sources:
            for figure in _read(path, kind, said):
                number += 1
                if number % _SHOWN_EACH == 0:
                    progress("records", number, 0)
                if isinstance(figure, Rejected):
                    added.rejected.append(figure)
                else:
                    yield figure

    if dry_run:
        _count(url, references(), added)
    else:
        _add(url, references(), added)
    return added


def _add(url: str, references: Iterator[Reference], added: Imported) -> None:
    engine = open_for_writing(url)
    try:
        while piece := list(islice(references, AT_ONCE)):
            elsewhere = [figure for figure in piece if figure.origin == ReferenceKind.TABLE]
            cited = [figure for figure in piece if figure.origin != ReferenceKind.TABLE]
            with writing(engine) as connection:
                num_elsewhere = add_references(connection, elsewhere)
                num_cited = add_references(connection, cited)
            added.num_elsewhere += num_elsewhere
            added.num_references += num_cited
            added.num_known += len(piece) - num_elsewhere - num_cited
    finally:
        engine.dispose()


def _count(url: str, references: Iterator[Reference], added: Imported) -> None:
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
    missing = [name for name in NEEDED_OF_LOGS if name not in said.constants]
    if missing:
        options = listed([f"--set {name}=" for name in missing])
        raise StoreError(f"{path}: a log, which does not say it itself: give {options}")


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
    if text.startswith((b"|", b"PAR1")):
        return ImportFormat.TABLE
    if text and not _CONTROLS & set(text):
        return ImportFormat.LOG
    raise StoreError(
        f"{path}: of no format that is known; name it with --format {'|'.join(ImportFormat)}"
    )


def _read(path: str, kind: ImportFormat, said: ImportOptions) -> Iterator[Reference | Rejected]:
    """Yield every figure. A file that cannot be read is one rejected row."""
    try:
        if kind is ImportFormat.LOG:
            yield reference_of(Path(path), said)
        else:
            table = read_table(Path(path))
            yield from figures(path, table, understood(path, table, said))
    except (StoreError, OSError, ValueError) as error:
        reason = without_secrets(str(error)).removeprefix(f"{path}: ")
        yield Rejected(where=path, reason=reason)


def reference_of(path: Path, said: ImportOptions) -> Reference:
    """Return the figure of a log, read by the readers of own programs. Raises ValueError where the
    log and the options leave it open.
    """
    log = _readings(path, said.read)
    throughput, evidence = _throughput(log.readings)
    constants = constants_of(said)
    axes = {name_in_records(name): constants.pop(name) for name in [*constants] if is_free(name)}
    wanted = constants.pop("item", "")
    item = log.item or wanted
    if not item:
        raise ValueError(
            f"{evidence}, of what is not known: say what is counted with --set item=NAME"
        )
    if wanted not in ("", item):
        raise ValueError(f"the log counts {item}; wanted --set item={item}, or another --read")
    num_gpus = constants["num_gpus"]
    per_gpu = log.per_gpu if said.per_gpu is None else said.per_gpu
    if per_gpu is None and num_gpus > 1:
        raise ValueError(
            f"found {throughput:.6g} {item}/s, of one GPU or of all {num_gpus}: "
            "say it with --per-gpu or --all-gpus"
        )
    evidence = f"log, read by {log.read.partition(':')[0]}: {evidence}"
    return Reference(
        **{**DEFAULTS, "evidence": evidence, **constants},
        origin=ReferenceKind.ADDED.value,
        throughput=throughput * num_gpus if per_gpu else throughput,
        item=item,
        axes=axes,
    )


def _readings(path: Path, read: str) -> FoundReader:
    try:
        lines = log_text(path).lines
        if read:
            return FoundReader(read=read, readings=readings_of(read, lines, None))
    except (LogError, ReadError) as error:
        raise ValueError(str(error)) from error
    result = search(lines)
    if result.is_unsure:
        labels = ", ".join(fit.candidate.label for fit in result.fits if fit.candidate)
        raise ValueError(f"nothing says which of {labels} is the speed; choose with --read")
    for candidate in result.fits:
        if candidate.has_throughput:
            return candidate
    raise ValueError(
        "no reader finds items per second in it; `scalemark read` shows what it has, and "
        "--read takes a pattern"
    )


def _throughput(readings: Sequence[Reading]) -> tuple[float, str]:
    """Return items/s and how it is known: the total of the run, else its mean, else a median."""
    rated = [reading for reading in readings if reading.throughput is not None]
    totals = [reading.throughput for reading in rated if reading.is_total and reading.throughput]
    rates = [reading.throughput for reading in rated if reading.throughput]
    if not rates:
        raise ValueError("no rate in it; wanted items per second above 0")
    if totals:
        if max(totals) > _AGREE * min(totals):
            raise ValueError(
                f"{len(totals)} totals, from {min(totals):.6g} to {max(totals):.6g}; wanted one "
                "run: give each a file of its own"
            )
        return median(totals), "total of the run"
    if rated[-1].is_mean:
        return rates[-1], "mean at its end"
    return median(rates), f"median of {len(rates)} rates"


def read_table(path: Path) -> ForeignTable:
    """Read a table by its content. Raises StoreError for what is none, with the reason."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}") from error
    if content.startswith(b"PAR1"):
        return _of_parquet(path)
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise StoreError(f"{path}: UTF-16; save it as UTF-8, as spreadsheets call CSV UTF-8")
    if b"\0" in content:
        raise StoreError(f"{path}: no text; wanted CSV, TSV, Markdown or Parquet")
    text = content.decode("utf-8-sig", errors="surrogateescape")
    if not text.strip():
        raise StoreError(f"{path}: empty; wanted a table with a line of column names")
    if text.lstrip().startswith("|"):
        return _of_markdown(path, text)
    return _of_delimited(path, text)


def _columns(path: Path, names: Sequence[str]) -> tuple[str, ...]:
    # others write an index without a name before the columns
    columns = [name.strip() or f"column {number}" for number, name in enumerate(names, 1)]
    twice = [name for name in dict.fromkeys(columns) if columns.count(name) > 1]
    if twice:
        raise StoreError(
            f"{path}: {', '.join(map(shown, twice[:5]))}: a name of more than one column; give "
            "each column its own name"
        )
    return tuple(columns)


def _of_delimited(path: Path, text: str) -> ForeignTable:
    begin = text.lstrip("\r\n")
    num_blank = len(text[: len(text) - len(begin)].splitlines())
    first = begin.splitlines()[0]
    sizes = {mark: len(next(csv.reader([first], delimiter=mark), [])) for mark in _DELIMITERS}
    delimiter = max(sizes, key=lambda mark: sizes[mark])
    reader = csv.reader(io.StringIO(begin, newline=""), delimiter=delimiter, strict=True)
    try:
        columns = _columns(path, next(reader))
    except csv.Error as error:
        raise StoreError(f"{path}: its line of column names cannot be read: {error}") from None
    table = ForeignTable(columns=columns, knows_decimals=delimiter not in ";\t")
    while True:
        where = f"{path} line {num_blank + reader.line_num + 1}"
        try:
            _add_row(table, where, next(reader))
        except StopIteration:
            return table
        except csv.Error as error:
            reason = f"{error}; is a quote not closed?"
            table.rejected.append(Rejected(where=where, reason=reason))


def _of_markdown(path: Path, text: str) -> ForeignTable:
    rows: list[tuple[str, list[str]]] = []
    num_rules = 0
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        # a later row of nothing but a dash each has no numbers
        is_rule = _RULE.fullmatch(line) is not None and (len(rows) == 1 or "--" in line)
        num_rules += line.startswith("|") and is_rule
        if num_rules > 1 or (line and not line.startswith("|")):
            raise StoreError(f"{path} line {number}: more than one table; wanted a file each")
        if line and not is_rule:
            cells = _CELL_END.split(line[1:].removesuffix("|"))
            cells = [cell.strip().strip("*`").replace("\\|", "|") for cell in cells]
            rows.append((f"{path} line {number}", cells))
    table = ForeignTable(columns=_columns(path, rows[0][1] if rows else ()))
    for where, cells in rows[1:]:
        _add_row(table, where, cells)
    return table


def _add_row(table: ForeignTable, where: str, cells: Sequence[str]) -> None:
    if not any(cell.strip() for cell in cells):
        return
    wanted = len(table.columns)
    if len(cells) == wanted:
        table.rows.append((where, [cell.strip() or None for cell in cells]))
        return
    reason = f"{len(cells)} cells; wanted {wanted}, as the line of column names has"
    if len(cells) > wanted:
        reason += "; a cell with the delimiter in it belongs in quotes"
    table.rejected.append(Rejected(where=where, reason=reason))


def _of_parquet(path: Path) -> ForeignTable:
    import pyarrow as pa  # here, because it is slow to import, and other formats need none
    import pyarrow.parquet as pq

    try:
        parquet = pq.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise StoreError(f"{path}: cannot be read as Parquet: {shown(error)}") from error
    table = ForeignTable(columns=_columns(path, parquet.column_names))
    for number, row in enumerate(parquet.to_pylist(), 1):
        table.rows.append((f"{path} row {number}", list(row.values())))
    return table
