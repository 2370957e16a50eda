"""Prints columns: fitted to a terminal, never cut where a file or a pipe reads them."""

from __future__ import annotations

import errno
import json
import math
import os
import sys
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any, TextIO

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from scalemark.text.untrusted import visible
from scalemark.text.wording import as_typed

PIPE_WIDTH = 100_000  # characters; a pipe has no width
_WIDE = 120  # characters that a table of attempts takes


def silence(*streams: TextIO) -> None:
    """Let streams whose reader has gone lead nowhere, so that flushing them cannot fail."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in streams:
        os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def print_json(value: object) -> None:
    """Print on stdout for scripts; infinity becomes null, and times become text."""
    print(json.dumps(finite(value), indent=1))


def finite(value: Any) -> Any:
    """Replace what JSON lacks: infinity, NaN, and the types of databases."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, Decimal):
        return finite(float(value))
    return bytes(value).hex() if isinstance(value, bytes | memoryview) else str(value)


def for_people(cell: object) -> str:
    """Format a cell of a table: fractions with four digits, and no control characters."""
    if isinstance(cell, float):
        return f"{cell:.0f}" if 1e4 <= abs(cell) < 1e15 else f"{cell:.4g}"
    if isinstance(cell, int | Decimal):
        return as_typed(cell)
    return "" if cell is None else visible(as_text(cell))


def as_text(cell: object) -> str:
    """Format whatever a database holds."""
    if isinstance(cell, dict | list | tuple):
        return json.dumps(finite(cell))
    return bytes(cell).hex() if isinstance(cell, bytes | memoryview) else str(cell)


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Raise; Rich would end the program here with exit code 1, silently."""
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


def make_console(*, stderr: bool = False) -> Console:
    # Jupyter asks for colors, but its streams are no terminals: they take plain lines
    is_terminal = False if "ipykernel" in sys.modules else None
    console = _Console(
        stderr=stderr, highlight=False, force_terminal=is_terminal, force_jupyter=False
    )
    if not console.is_terminal:
        console.width = PIPE_WIDTH
    return console


def is_narrow(console: Console) -> bool:
    """Return whether a table of the usual columns would be folded until it is unreadable."""
    return console.is_terminal and console.width < _WIDE


def tell_left_out(columns: Sequence[str], remedy: str) -> None:
    """Say on stderr which columns a narrow terminal has no room for, and how to see them."""
    reported = (
        f"left out, for the terminal is narrower than {_WIDE} characters: {', '.join(columns)}; "
        f"{remedy}"
    )
    make_console(stderr=True).print(reported, style="dim", markup=False)


def print_columns(
    console: Console,
    columns: Sequence[str],
    rows: Iterable[Iterable[str]],
    right: frozenset[str] = frozenset(),
) -> None:
    """Print a table without borders or markup; `right` names the columns to align right."""
    columns = [visible(column) for column in columns]
    shown = [[visible(cell) for cell in row] for row in rows]
    if not console.is_terminal:
        return _print_plain(console, columns, shown, right)
    widths = [max(map(cell_len, cells)) for cells in zip(columns, *shown, strict=True)]
    is_folded = sum(widths) + len(widths) - 1 > console.width
    table = Table(box=None, header_style="bold", padding=(0, 1, 0, 0), pad_edge=False)
    for column in columns:
        # or it is folded within its words
        heading = column.replace("_", "_\n") if is_folded else column
        table.add_column(
            Text(heading), justify="right" if column in right else "left", overflow="fold"
        )
    for row in shown:
        table.add_row(*map(Text, row))
    console.print(table)


def _print_plain(
    console: Console, columns: Sequence[str], rows: list[list[str]], right: frozenset[str]
) -> None:
    """Print the columns padded with spaces, except at the ends of lines."""
    widths = [max(map(len, cells)) for cells in zip(columns, *rows, strict=True)]
    for row in [list(columns), *rows]:
        padded = [
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, cell, width in zip(columns, row, widths, strict=True)
        ]
        console.print("  ".join(padded).rstrip(), markup=False, emoji=False, soft_wrap=True)
