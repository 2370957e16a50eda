"""Prints columns, JSON and progress: fitted to a terminal, never cut for a file or a pipe."""

import errno
import json
import math
import os
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from decimal import Decimal
from itertools import zip_longest
from typing import Any, Literal, TextIO

from rich.cells import cell_len, chop_cells
from rich.console import Console
from rich.text import Text

from scalemark.text.untrusted import visible
from scalemark.text.wording import as_typed

UNPRINTED = {"unprinted": True}  # metadata of fields that scripts do not get
PIPE_WIDTH = 100_000  # characters; a pipe has no width
READING_WIDTH = 80  # characters of a screen that somebody reads, piped or not
_LINES = re.compile(r".+")
_WORDS = re.compile(r"\[[^\]]*\]|\S+")  # an interval in brackets is one
_PARTS = re.compile(r"[^\s_=,:/-]*[_=,:/-]+|[^\s_=,:/-]+")  # of words, where nothing else is left
_HEADINGS = re.compile(rf"\[[^\]]*\]|{_PARTS.pattern}")


def silence(*streams: TextIO) -> None:
    """Let streams whose reader has gone lead nowhere, so that flushing them cannot fail."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in streams:
        os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


@contextmanager
def reader_may_leave() -> Iterator[None]:
    """End what prints in here when its reader has read enough, as `head -1` has: the exit code is
    then still the command's.
    """
    try:
        yield
    except BrokenPipeError:
        silence(sys.stdout)


_answers: list[object] = []  # of the command that runs, for scripts


def begin_answer() -> None:
    """Forget what an earlier command of this process has answered."""
    _answers.clear()


def print_json(value: object) -> None:
    """Print on stdout for scripts: records become objects, infinity null, and times text."""
    _answers.append(value)
    print(json.dumps(finite(value), indent=1))


def tell_scripts(error: str) -> None:
    """Print on stdout what went wrong, where `--json` asked for an object and none was printed;
    people read stderr.
    """
    if "--json" in sys.argv and not _answers:
        with reader_may_leave():
            print_json({"error": error})
            sys.stdout.flush()


def finite(value: Any) -> Any:
    """Replace what JSON lacks: records, infinity, NaN, and the types of databases.

    A record becomes its fields without those that are `UNPRINTED`, or what its `facts()` returns.
    """
    if is_dataclass(value) and not isinstance(value, type):
        if hasattr(value, "facts"):
            return finite(value.facts())
        values = {}
        for field in fields(value):
            if not field.metadata.get("unprinted"):
                values[field.name] = finite(getattr(value, field.name))
        return values
    if isinstance(value, dict):
        return dict(zip(value, map(finite, value.values()), strict=True))
    if isinstance(value, list | tuple):
        return list(map(finite, value))
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        return value
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, Decimal):
        return finite(float(value))
    return as_text(value)


def for_people(cell: object) -> str:
    """Format a cell of a table: fractions with four digits, and no control characters."""
    if isinstance(cell, float):
        if 1e4 <= abs(cell) < 1e15:
            return f"{cell:.0f}"
        return f"{cell:.4g}"
    if isinstance(cell, int | Decimal):
        return as_typed(cell)
    if cell is None:
        return ""
    return visible(as_text(cell))


def as_text(cell: object) -> str:
    """Format whatever a database holds."""
    if isinstance(cell, dict | list | tuple):
        return json.dumps(finite(cell))
    if isinstance(cell, bytes | memoryview):
        return bytes(cell).hex()
    return str(cell)


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Raise; Rich would end the program here with exit code 1, silently."""
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


def color_system() -> Literal["auto"] | None:
    """Return None where NO_COLOR wants plain text: Rich alone would still write bold and dim."""
    return None if os.environ.get("NO_COLOR") else "auto"


def make_console(*, stderr: bool = False) -> Console:
    # Jupyter asks for colors, but its streams are no terminals: they take plain lines
    is_terminal = False if "ipykernel" in sys.modules else None
    console = _Console(
        stderr=stderr,
        highlight=False,
        force_terminal=is_terminal,
        force_jupyter=False,
        color_system=color_system(),
    )
    if not console.is_terminal:
        console.width = PIPE_WIDTH
    return console


def reading_width(console: Console) -> int:
    """Return the width of what is read at a terminal and piped alike: COLUMNS, else 80."""
    if console.is_terminal:
        return console.width
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns):
        return int(columns)
    return READING_WIDTH


def print_columns(
    console: Console,
    columns: Sequence[str],
    rows: Iterable[Iterable[str]],
    right: Collection[str] = (),
    spare: Sequence[str] = (),
    piped_width: int = PIPE_WIDTH,
    bold: Collection[tuple[int, int]] = (),
) -> None:
    """Print a table without borders or markup; `right` names the columns to align right, and `bold`
    the cells, by row and column, that a terminal shows bold; not together with `spare`.

    A terminal that is too narrow gets cells folded between words, and none of the `spare` columns
    that it has no room for; what is left out is named. Where words would be cut it gets a line for
    each cell that holds something. A pipe gets cells folded to `piped_width`.
    """
    headings = list(map(visible, columns))
    cells = [list(map(visible, row)) for row in rows]
    width = console.width if console.is_terminal else piped_width
    dropped: list[str] = []
    for name in spare if console.is_terminal else ():
        least = _least_widths(headings, cells, _WORDS)
        if name not in headings or sum(least) + len(least) <= width + 1:
            continue
        dropped.append(name)
        place = headings.index(name)
        for row in (headings, *cells):
            del row[place]
    least = _least_widths(headings, cells, _PARTS)
    if console.is_terminal and all(headings) and sum(least) + len(least) > width + 1:
        _print_cells(console, headings, cells)
    else:
        _print_table(console, headings, cells, width, right, bold)
    if dropped:
        reported = f"left out for width: {', '.join(dropped)}; --json has them"
        make_console(stderr=True).print(reported, style="dim", markup=False)


def _print_table(
    console: Console,
    headings: Sequence[str],
    cells: Sequence[Sequence[str]],
    width: int,
    right: Collection[str],
    bold: Collection[tuple[int, int]],
) -> None:
    """Print cells below each other, folded to a width."""
    widths, gap = fitted(headings, cells, width)
    is_right = [name in right for name in headings]
    if any(headings):
        folds = [
            _lines_of(console, *part, _HEADINGS) for part in zip(headings, widths, strict=True)
        ]
        if console.is_terminal:  # headings end above the first row
            most = max(map(len, folds))
            folds = [[""] * (most - len(lines)) + lines for lines in folds]
        _print_row(console, folds, widths, gap, is_right, range(len(widths)))
    bold_of: dict[int, list[int]] = defaultdict(list)
    for number, place in bold:
        bold_of[number].append(place)
    for number, row in enumerate(cells):
        folds = [_lines_of(console, *part, _WORDS) for part in zip(row, widths, strict=True)]
        _print_row(console, folds, widths, gap, is_right, bold_of[number])


def _print_cells(console: Console, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print `heading: cell` lines, and an empty line between rows."""
    for number, row in enumerate(rows):
        if number:
            console.print()
        for heading, cell in zip(headings, row, strict=True):
            if cell:
                console.print(f"{heading}: {cell}", markup=False)


def _lines_of(console: Console, text: str, width: int, units: re.Pattern[str]) -> list[str]:
    """Fold a cell; on a terminal, which would break the line, words are cut that are too long."""
    lines = folded(text, width, units).split("\n")
    if not console.is_terminal:
        return lines
    cut: list[str] = []
    for line in lines:
        cut += chop_cells(line, width) or [""]
    return cut


def _print_row(
    console: Console,
    cells: Sequence[Sequence[str]],
    widths: Sequence[int],
    gap: int,
    is_right: Sequence[bool],
    bold: Collection[int],
) -> None:
    """Print the lines of folded cells, padded with spaces but at their ends."""
    for parts in zip_longest(*cells, fillvalue=""):
        pieces = []
        for place, part in enumerate(parts):
            spaces = " " * (widths[place] - cell_len(part))
            piece = (part, "bold" if place in bold else "")
            if is_right[place]:
                pieces += [(spaces, ""), piece]
            else:
                pieces += [piece, (spaces, "")]
            pieces.append((" " * gap, ""))
        if console.is_terminal:
            line = Text.assemble(*pieces)
            line.rstrip()
            console.print(line, soft_wrap=True)
        else:  # Rich would take six times as long for the same line
            text = "".join([text for text, _ in pieces])
            print(text.rstrip(), file=console.file)


def fitted(
    columns: Sequence[str], rows: Sequence[Sequence[str]], width: int
) -> tuple[list[int], int]:
    """Return the widths of columns, and the gap between them, which together fit a terminal."""
    most = [max(map(cell_len, cells)) for cells in zip(columns, *rows, strict=True)]
    gap = 2 if sum(most) + 2 * (len(most) - 1) <= width else 1
    room = width - gap * (len(most) - 1)
    if sum(most) > room:
        return _narrowed(most, columns, rows, room), gap
    return most, gap


def folded(text: str, width: int, units: re.Pattern[str] = _WORDS) -> str:
    """Break lines between units; those of a wider unit are broken within it, between its parts."""
    if cell_len(text) <= width:
        return text
    lines = [""]
    end = 0
    for unit in units.finditer(text):
        space = " " if lines[-1] and unit.start() > end else ""
        end = unit.end()
        if cell_len(lines[-1]) + len(space) + cell_len(unit[0]) <= width:
            lines[-1] += space + unit[0]
        elif cell_len(unit[0]) > width and units is not _PARTS:
            lines += folded(unit[0], width, _PARTS).splitlines()
        else:
            lines.append(unit[0])
    return "\n".join(lines).strip("\n")


def _least_widths(
    columns: Sequence[str], rows: Sequence[Sequence[str]], units: re.Pattern[str]
) -> list[int]:
    """Return how narrow columns can be with no unit broken; headings break into parts."""
    least = []
    for place, name in enumerate(columns):
        parts = _HEADINGS.findall(name)
        for row in rows:
            parts += units.findall(row[place])
        least.append(max(map(cell_len, parts), default=0))
    return least


def _narrowed(
    most: Sequence[int], columns: Sequence[str], rows: Sequence[Sequence[str]], room: int
) -> list[int]:
    """Take what is too much from the widest columns: of headings, between words, within them."""
    widths = list(most)
    floors = [_least_widths(columns, rows, units) for units in (_LINES, _WORDS, _PARTS)]
    for floor in (*floors, [1] * len(widths)):
        while sum(widths) > room:
            spare = [place for place, width in enumerate(widths) if width > floor[place]]
            if not spare:
                break
            widths[max(spare, key=widths.__getitem__)] -= 1
    return widths


Progress = Callable[[str, int, int], None]
"""Called with what is done, how much of it is done, and of how much."""


def silent(what: str, done: int, total: int) -> None:
    """Show nothing."""


@contextmanager
def shown() -> Iterator[Progress]:
    """Show progress on one line of a terminal, which is cleared at the end; elsewhere nothing."""
    if not sys.stderr.isatty():
        yield silent
        return
    try:
        yield _show
    finally:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _show(what: str, done: int, total: int) -> None:
    line = f"{what}: {done:,}"
    if total:
        line += f" of {total:,}"
    print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)
