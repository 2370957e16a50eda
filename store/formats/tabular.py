"""Rows as a table for people, as CSV, JSON, Parquet or Markdown: written as they come, whatever
stands in them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from enum import StrEnum
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, BinaryIO, TextIO

from rich.cells import cell_len

from scalemark.cli.terminal import as_text, finite, for_people, make_console, print_columns
from scalemark.text.csv_lines import CsvLines, guarded
from scalemark.text.untrusted import visible
from store.errors import StoreError

Columns = Sequence[str]
Rows = Iterable[Sequence[Any]]


class Format(StrEnum):
    """How rows are written."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"
    MARKDOWN = "markdown"


def write(form: Format, columns: Columns, rows: Rows, out: Path | None) -> None:
    """To the file `out`, which is there only once it is whole, or to stdout. A table on a terminal
    is fitted to it.

    Raises StoreError for Parquet on a terminal, and before a database is overwritten.
    """
    if out is None and form is Format.PARQUET:
        if sys.stdout.isatty():
            raise StoreError("Parquet is not for terminals; name a file with --out FILE")
        return _write_parquet(columns, rows, sys.stdout.buffer)
    if out is None and form is Format.TABLE and sys.stdout.isatty():
        return _print_table(columns, rows)
    if out is None:
        _never_fail_for_a_character(sys.stdout)
        if form is Format.CSV and sys.stdout.isatty():
            rows = (
                [visible(cell) if isinstance(cell, str) else cell for cell in row] for row in rows
            )
        return _TEXT_WRITERS[form](columns, rows, sys.stdout)
    with _whole(out) as draft:
        if form is Format.PARQUET:
            with draft.open("wb") as binary:
                _write_parquet(columns, rows, binary)
        else:
            with draft.open("w", encoding="utf-8", newline="") as text:
                _TEXT_WRITERS[form](columns, rows, text)


def _is_number(cell: object) -> bool:
    return isinstance(cell, int | float | Decimal) and not isinstance(cell, bool)


def _in_batches(rows: Rows, size: int) -> Iterator[list[Sequence[Any]]]:
    rest = iter(rows)
    while batch := list(islice(rest, size)):
        yield batch


def _distinct(columns: Columns) -> list[str]:
    """Names where each may stand once: the second `id` becomes `id_2`."""
    found: list[str] = []
    for column in columns:
        names = chain([column], (f"{column}_{count}" for count in range(2, len(columns) + 2)))
        found.append(next(name for name in names if name not in found))
    return found


def _numeric(columns: Columns, batch: Sequence[Sequence[Any]]) -> list[bool]:
    """Of each column whether it is one of numbers, by a first batch of rows."""
    cells = zip(*batch, strict=True) if batch else ((),) * len(columns)
    return [
        any(map(_is_number, of)) and all(cell is None or _is_number(cell) for cell in of)
        for of in cells
    ]


_TERMINAL_ROWS, _FILE_ROWS = 1_000, 10_000  # that are fitted to each other


def _print_table(columns: Columns, rows: Rows) -> None:
    console = make_console()
    headings = _distinct([visible(column) for column in columns])
    rest = _in_batches(rows, _TERMINAL_ROWS)
    for batch in chain([next(rest, [])], rest):
        numbers = frozenset(
            name
            for name, numeric in zip(headings, _numeric(columns, batch), strict=True)
            if numeric
        )
        print_columns(
            console, headings, ([for_people(cell) for cell in row] for row in batch), right=numbers
        )


def _write_table(columns: Columns, rows: Rows, out: TextIO) -> None:
    """Columns are as wide as the first rows need; a later cell that is wider moves its line
    only.
    """
    headings = [visible(column) for column in columns]
    widths, numeric = [cell_len(heading) for heading in headings], [False] * len(columns)
    lines: list[list[str]] = [headings]
    for batch in _in_batches(rows, _FILE_ROWS):
        if lines:
            numeric = _numeric(columns, batch)
        lines += [[for_people(cell) for cell in row] for row in batch]
        widths = [
            max(width, *map(cell_len, of))
            for width, of in zip(widths, zip(*lines, strict=True), strict=True)
        ]
        out.writelines(_padded(line, widths, numeric) for line in lines)
        lines = []
    out.writelines(_padded(line, widths, numeric) for line in lines)


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
    """Text that a spreadsheet would take for a formula gets an apostrophe; numbers are numbers."""
    if cell is None or _is_number(cell):
        return cell
    if isinstance(cell, bool):
        return str(cell).lower()
    return guarded(as_text(cell))


def _write_json(columns: Columns, rows: Rows, out: TextIO) -> None:
    """A list of objects, each on its own line."""
    names, separator = _distinct(columns), "\n"
    out.write("[")
    for row in rows:
        out.write(separator + json.dumps(dict(zip(names, map(finite, row), strict=True))))
        separator = ",\n"
    out.write("\n]\n")


def _write_markdown(columns: Columns, rows: Rows, out: TextIO) -> None:
    out.write(_markdown_row(columns))
    for number, batch in enumerate(_in_batches(rows, _FILE_ROWS)):
        if number == 0:
            out.write(_markdown_rule(_numeric(columns, batch)))
        out.writelines(_markdown_row(for_people(cell) for cell in row) for row in batch)
        columns = ()
    if columns:
        out.write(_markdown_rule([False] * len(columns)))


def _markdown_rule(numeric: Sequence[bool]) -> str:
    return f"| {' | '.join('---:' if right else '---' for right in numeric)} |\n"


def _markdown_row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(visible(cell).translate(_MARKDOWN) for cell in cells)} |\n"


_MARKDOWN = str.maketrans({character: f"\\{character}" for character in "\\|<`"})

_TEXT_WRITERS: Mapping[Format, Callable[[Columns, Rows, TextIO], None]] = {
    Format.TABLE: _write_table,
    Format.CSV: _write_csv,
    Format.JSON: _write_json,
    Format.MARKDOWN: _write_markdown,
}


def _write_parquet(columns: Columns, rows: Rows, out: BinaryIO) -> None:
    import pyarrow as pa  # here, because it takes longer to import than most commands take
    import pyarrow.parquet as pq

    chunks: list[list[Any]] = [[] for _ in columns]
    for batch in _in_batches(rows, _FILE_ROWS):
        for of, cells in zip(chunks, zip(*batch, strict=True), strict=True):
            of.append(_array([_parquet_cell(cell) for cell in cells]))
    pq.write_table(pa.table([_of_one_type(of) for of in chunks], names=_distinct(columns)), out)


def _parquet_cell(cell: object) -> object:
    if isinstance(cell, Decimal):
        return float(cell)
    return as_text(cell) if isinstance(cell, dict | list | tuple) else cell


def _array(cells: list[Any]) -> Any:
    """Of cells of several types, as SQLite allows, an array of texts."""
    import pyarrow as pa

    try:
        return pa.array(cells)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return pa.array(_texts(cells), pa.string())


def _of_one_type(chunks: Sequence[Any]) -> Any:
    import pyarrow as pa

    types = {chunk.type for chunk in chunks} - {pa.null()}
    if len(types) < 2 or types == {pa.int64(), pa.float64()}:
        wanted = pa.float64() if len(types) == 2 else next(iter(types), pa.null())
        return pa.chunked_array([chunk.cast(wanted) for chunk in chunks], wanted)
    return pa.chunked_array(
        [pa.array(_texts(chunk.to_pylist()), pa.string()) for chunk in chunks], pa.string()
    )


def _texts(cells: Iterable[object]) -> list[str | None]:
    return [None if cell is None else as_text(cell) for cell in cells]


def _never_fail_for_a_character(stream: IO[str]) -> None:
    """Where a terminal knows no such letter, its number is shown."""
    if reconfigure := getattr(stream, "reconfigure", None):
        reconfigure(errors="backslashreplace")


@contextmanager
def _whole(out: Path) -> Iterator[Path]:
    """A place to write to, which becomes `out` at the end; a pipe or device is written to as it
    is.
    """
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
