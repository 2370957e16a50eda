"""Writes rows as a table for people, as CSV, JSON, Markdown or Parquet, whatever stands in them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from enum import StrEnum
from itertools import count, islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TextIO

from rich.cells import cell_len

from scalemark.cli.terminal import (
    as_text,
    finite,
    for_people,
    make_console,
    no_room_for,
    print_columns,
    tell_left_out,
)
from scalemark.text.untrusted import visible
from scalemark.text.wording import CsvLines, guarded
from store.errors import StoreError

Columns = Sequence[str]
Rows = Iterable[Sequence[Any]]

# rows that are fitted to each other; those behind them are streamed
_TERMINAL_ROWS = 1_000
_FILE_ROWS = 10_000
_MARKDOWN = str.maketrans({character: f"\\{character}" for character in "\\|<`"})


class Format(StrEnum):
    """A format of rows."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"
    MARKDOWN = "markdown"


class Spare(NamedTuple):
    """Columns that a table on a narrow terminal can do without."""

    names: Sequence[str]  # the first that is left out first
    remedy: str  # says how to see them


NO_SPARE = Spare((), "")


def write(
    form: Format, columns: Columns, rows: Rows, out: Path | None, spare: Spare = NO_SPARE
) -> None:
    """Write rows to stdout, or to the file `out`, which is there only once it is whole.

    A table on a terminal is fitted to it, and has no `spare` column that it has no room for.
    Raises StoreError for Parquet on a terminal, and before a database is overwritten.
    """
    if out is not None:
        with _whole(out) as draft:
            if form is Format.PARQUET:
                with draft.open("wb") as binary:
                    _write_parquet(columns, rows, binary)
            else:
                with draft.open("w", encoding="utf-8", newline="") as text:
                    _TEXT_WRITERS[form](columns, rows, text)
        return
    is_terminal = sys.stdout.isatty()
    if form is Format.PARQUET:
        if is_terminal:
            raise StoreError("Parquet is not for terminals; name a file with --out FILE")
        _write_parquet(columns, rows, sys.stdout.buffer)
    elif form is Format.TABLE and is_terminal:
        _print_table(columns, rows, spare)
    else:
        if form is Format.CSV and is_terminal:
            rows = (_visible(row) for row in rows)
        _TEXT_WRITERS[form](columns, rows, sys.stdout)


def _visible(row: Sequence[Any]) -> list[Any]:
    return [visible(cell) if isinstance(cell, str) else cell for cell in row]


def _is_number(cell: object) -> bool:
    return isinstance(cell, int | float | Decimal) and not isinstance(cell, bool)


def _in_batches(rows: Rows, size: int) -> Iterator[list[Sequence[Any]]]:
    rest = iter(rows)
    while batch := list(islice(rest, size)):
        yield batch


def _distinct(columns: Columns) -> list[str]:
    """Number names that come twice: the second `id` becomes `id_2`."""
    found: list[str] = []
    for column in columns:
        name = column
        numbers = count(2)
        while name in found:
            name = f"{column}_{next(numbers)}"
        found.append(name)
    return found


def _numeric(num_columns: int, batch: Sequence[Sequence[Any]]) -> list[bool]:
    """Return for each column whether it has numbers and nothing else."""
    found = []
    for index in range(num_columns):
        cells = [row[index] for row in batch if row[index] is not None]
        found.append(bool(cells) and all(map(_is_number, cells)))
    return found


def _print_table(columns: Columns, rows: Rows, spare: Spare) -> None:
    console = make_console()
    headings = _distinct([visible(column) for column in columns])
    dropped: list[str] | None = None  # for all batches what the first has no room for
    for batch in _in_batches(rows, _TERMINAL_ROWS):
        cells = [[for_people(cell) for cell in row] for row in batch]
        if dropped is None:
            dropped = no_room_for(console, headings, cells, spare.names)
        kept = [place for place, name in enumerate(headings) if name not in dropped]
        numeric = zip(headings, _numeric(len(headings), batch), strict=True)
        right = frozenset(heading for heading, is_numeric in numeric if is_numeric)
        shown = ([row[place] for place in kept] for row in cells)
        print_columns(console, [headings[place] for place in kept], shown, right)
    if dropped is None:
        print_columns(console, headings, [])
    elif dropped:
        tell_left_out(dropped, spare.remedy)


def _write_table(columns: Columns, rows: Rows, out: TextIO) -> None:
    """Make columns as wide as the first rows need; a later, wider cell moves its own line only."""
    rest = iter(rows)
    first = list(islice(rest, _FILE_ROWS))
    numeric = _numeric(len(columns), first)
    lines = [[visible(column) for column in columns]]
    lines += [[for_people(cell) for cell in row] for row in first]
    widths = [max(map(cell_len, cells)) for cells in zip(*lines, strict=True)]
    for line in lines:
        out.write(_padded(line, widths, numeric))
    for row in rest:
        out.write(_padded([for_people(cell) for cell in row], widths, numeric))


def _padded(cells: Sequence[str], widths: Sequence[int], numeric: Sequence[bool]) -> str:
    padded = []
    for cell, width, right in zip(cells, widths, numeric, strict=True):
        space = " " * (width - cell_len(cell))
        padded.append(space + cell if right else cell + space)
    return "  ".join(padded).rstrip() + "\n"


def _write_csv(columns: Columns, rows: Rows, out: TextIO) -> None:
    lines = CsvLines(out)
    lines.write_rows([[_csv_cell(column) for column in columns]])
    lines.write_rows([_csv_cell(cell) for cell in row] for row in rows)


def _csv_cell(cell: object) -> object:
    """Put an apostrophe before text that a spreadsheet would take for a formula."""
    if cell is None or _is_number(cell):
        return cell
    if isinstance(cell, bool):
        return str(cell).lower()
    return guarded(as_text(cell))


def _write_json(columns: Columns, rows: Rows, out: TextIO) -> None:
    """Write a list of objects, each on its own line."""
    names = _distinct(columns)
    separator = "\n"
    out.write("[")
    for row in rows:
        out.write(separator + json.dumps(dict(zip(names, map(finite, row), strict=True))))
        separator = ",\n"
    out.write("\n]\n")


def _write_markdown(columns: Columns, rows: Rows, out: TextIO) -> None:
    rest = iter(rows)
    first = list(islice(rest, _FILE_ROWS))
    rule = ["---:" if numeric else "---" for numeric in _numeric(len(columns), first)]
    out.write(_markdown_row(columns))
    out.write(f"| {' | '.join(rule)} |\n")
    for batch in (first, rest):
        for row in batch:
            out.write(_markdown_row(map(for_people, row)))


def _markdown_row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(visible(cell).translate(_MARKDOWN) for cell in cells)} |\n"


_TEXT_WRITERS: Mapping[Format, Callable[[Columns, Rows, TextIO], None]] = {
    Format.TABLE: _write_table,
    Format.CSV: _write_csv,
    Format.JSON: _write_json,
    Format.MARKDOWN: _write_markdown,
}


def _write_parquet(columns: Columns, rows: Rows, out: BinaryIO) -> None:
    import pyarrow as pa  # here, because it takes longer to import than most commands take
    import pyarrow.parquet as pq

    cells: list[list[Any]] = [[] for _ in columns]
    for row in rows:
        for column, cell in zip(cells, row, strict=True):
            column.append(_parquet_cell(cell))
    pq.write_table(pa.table([_array(column) for column in cells], names=_distinct(columns)), out)


def _parquet_cell(cell: object) -> object:
    if isinstance(cell, Decimal):
        return float(cell)
    return as_text(cell) if isinstance(cell, dict | list | tuple) else cell


def _array(cells: list[Any]) -> Any:
    """Make an array of texts of cells of several types, which SQLite allows in one column."""
    import pyarrow as pa

    try:
        return pa.array(cells)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return pa.array([None if cell is None else as_text(cell) for cell in cells], pa.string())


@contextmanager
def _whole(out: Path) -> Iterator[Path]:
    """Give a draft that becomes `out` at the end; a pipe or device is written to as it is."""
    if out.exists() and not out.is_file():
        yield out
        return
    if out.exists():
        with out.open("rb") as file:
            if file.read(16) == b"SQLite format 3\0":
                raise StoreError(
                    f"{out}: a SQLite database, which the output would replace; name another file"
                )
    draft = out.with_name(f"{out.name}.draft")
    try:
        yield draft
        draft.replace(out)
    finally:
        draft.unlink(missing_ok=True)
