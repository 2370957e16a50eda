"""Prints columns: fitted to a terminal, never cut where a file or a pipe reads them."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Sequence
from typing import TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

PIPE_WIDTH = 100_000  # characters; a pipe has no width


def silence(*streams: TextIO) -> None:
    """Let these streams lead nowhere: who read them has gone, and what is still buffered shall not fail at the end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in streams:
        os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Rich would end the program here, with exit code 1 and without a word."""
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


def make_console(*, stderr: bool = False) -> Console:
    console = _Console(stderr=stderr, highlight=False)
    if not console.is_terminal:
        console.width = PIPE_WIDTH
    return console


def print_columns(
    console: Console, columns: Sequence[str], rows: Iterable[Iterable[str]], right: frozenset[str] = frozenset()
) -> None:
    """A table without borders; `right` names the columns to align right. Text is taken as it is, without markup."""
    if not console.is_terminal:
        return _print_plain(console, columns, [list(row) for row in rows], right)
    table = Table(box=None, header_style="bold", padding=(0, 1, 0, 0))
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    console.print(table)


def _print_plain(console: Console, columns: Sequence[str], rows: list[list[str]], right: frozenset[str]) -> None:
    """Padded with spaces, except at the ends of lines."""
    widths = [max(map(len, cells)) for cells in zip(columns, *rows, strict=True)]
    for row in [list(columns), *rows]:
        padded = [
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, cell, width in zip(columns, row, widths, strict=True)
        ]
        console.print("  ".join(padded).rstrip(), markup=False)
