"""Writes rows as a table for people, as CSV or as JSON, whatever stands in them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from decimal import Decimal
from enum import StrEnum
from itertools import count, islice
from typing import Any, NamedTuple

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

Columns = Sequence[str]
Rows = Iterable[Sequence[Any]]

# rows that are fitted to each other; those behind them are streamed
_TERMINAL_ROWS = 1_000
_FILE_ROWS = 10_000


class Format(StrEnum):
    """A format of rows."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"


class Spare(NamedTuple):
    """Columns that a table on a narrow terminal can do without."""

    names: Sequence[str]  # the first that is left out first
    remedy: str  # says how to see them


NO_SPARE = Spare((), "")


def write(form: Format, columns: Columns, rows: Rows, spare: Spare = NO_SPARE) -> None:
    """Write rows to stdout. A table on a terminal is fitted to it, and has no `spare` column that
    it has no room for.
    """
    is_terminal = sys.stdout.isatty()
    if form is Format.JSON:
        _write_json(columns, rows)
    elif form is Format.CSV:
        _write_csv(columns, rows, is_terminal=is_terminal)
    elif is_terminal:
        _print_table(columns, rows, spare)
    else:
        _write_table(columns, rows)


def _print_table(columns: Columns, rows: Rows, spare: Spare) -> None:
    console = make_console()
    headings = _distinct(list(map(visible, columns)))
    rest = iter(rows)
    batch = list(islice(rest, _TERMINAL_ROWS))
    first = [list(map(for_people, row)) for row in batch]
    left_out = no_room_for(console, headings, first, spare.names)
    kept = [place for place, name in enumerate(headings) if name not in left_out]
    names = [headings[place] for place in kept]
    while True:
        numeric = _numeric(len(headings), batch)
        right = frozenset(headings[place] for place in kept if numeric[place])
        lines = []
        for row in batch:
            lines.append([for_people(row[place]) for place in kept])
        print_columns(console, names, lines, right)
        batch = list(islice(rest, _TERMINAL_ROWS))
        if not batch:
            break
    if left_out:
        tell_left_out(left_out, spare.remedy)


def _write_table(columns: Columns, rows: Rows) -> None:
    """Make columns as wide as the first rows need; a later, wider cell moves its own line only."""
    rest = iter(rows)
    first = list(islice(rest, _FILE_ROWS))
    numeric = _numeric(len(columns), first)
    lines = [list(map(visible, columns))]
    lines += [list(map(for_people, row)) for row in first]
    widths = [max(map(cell_len, cells)) for cells in zip(*lines, strict=True)]
    for line in lines:
        sys.stdout.write(_padded(line, widths, numeric))
    for row in rest:
        sys.stdout.write(_padded(list(map(for_people, row)), widths, numeric))


def _padded(cells: Sequence[str], widths: Sequence[int], numeric: Sequence[bool]) -> str:
    padded = []
    for cell, width, right in zip(cells, widths, numeric, strict=True):
        space = " " * (width - cell_len(cell))
        if right:
            padded.append(space + cell)
        else:
            padded.append(cell + space)
    return "  ".join(padded).rstrip() + "\n"


def _write_csv(columns: Columns, rows: Rows, *, is_terminal: bool) -> None:
    lines = CsvLines(sys.stdout)
    lines.write_rows([list(map(_csv_cell, columns))])
    for row in rows:
        cells = []
        for cell in map(_csv_cell, row):
            cells.append(visible(cell) if is_terminal and isinstance(cell, str) else cell)
        lines.write_rows([cells])


def _csv_cell(cell: object) -> object:
    """Put an apostrophe before text that a spreadsheet would take for a formula."""
    if cell is None or _is_number(cell):
        return cell
    if isinstance(cell, bool):
        return str(cell).lower()
    return guarded(as_text(cell))


def _write_json(columns: Columns, rows: Rows) -> None:
    """Write a list of objects, each on its own line."""
    names = _distinct(columns)
    separator = "\n"
    sys.stdout.write("[")
    for row in rows:
        cells = dict(zip(names, map(finite, row), strict=True))
        sys.stdout.write(separator + json.dumps(cells))
        separator = ",\n"
    sys.stdout.write("\n]\n")


def _distinct(columns: Columns) -> list[str]:
    """Number names that come twice: the second `id` becomes `id_2`."""
    names: list[str] = []
    for column in columns:
        name = column
        numbers = count(2)
        while name in names:
            name = f"{column}_{next(numbers)}"
        names.append(name)
    return names


def _numeric(num_columns: int, batch: Sequence[Sequence[Any]]) -> list[bool]:
    """Return for each column whether it has numbers and nothing else."""
    numeric = []
    for place in range(num_columns):
        cells = [row[place] for row in batch if row[place] is not None]
        numeric.append(bool(cells) and all(map(_is_number, cells)))
    return numeric


def _is_number(cell: object) -> bool:
    return isinstance(cell, int | float | Decimal) and not isinstance(cell, bool)
