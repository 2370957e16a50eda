"""Writes arguments for a shell to paste, and rows for a program that reads CSV."""

from __future__ import annotations

import csv
import re
import shlex
from collections.abc import Iterable
from typing import TextIO

_WORD = re.compile(
    r"""(?:\$'(?:[^'\\]|\\.)*'|'[^']*'|"(?:[^"\\]|\\.)*"|\\.|[^\s'"\\])+""", re.DOTALL
)
_GOES_ON = " \\"


def joined(arguments: Iterable[str]) -> str:
    """Return a command line, with invisible characters as escapes: one pastes what one reads."""
    return " ".join(map(_quoted, arguments))


def continued(command: str, width: int) -> list[str]:
    """Return a command as lines of a width, which a shell joins by the backslashes at their ends.

    A word that is longer stays whole.
    """
    words = _WORD.findall(command)
    if len(command) <= width or " ".join(words) != command:
        return [command]
    lines = [words[0]]
    for word in words[1:]:
        if len(lines[-1]) + len(f" {word}{_GOES_ON}") <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(f"  {word}")
    return [*(f"{line}{_GOES_ON}" for line in lines[:-1]), lines[-1]]


def _quoted(argument: str) -> str:
    if argument.isprintable():
        return shlex.quote(argument)
    quoted = argument.replace("\\", r"\\").replace("'", r"\'")
    return f"$'{''.join(one if one.isprintable() else _escaped(one) for one in quoted)}'"


def _escaped(one: str) -> str:
    return f"\\U{ord(one):08x}" if ord(one) > 0x7F else f"\\x{ord(one):02x}"


_BEGIN_FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n")
_QUOTED = "\r\n"
"""The standard library quotes cells with a character of its own line end, and no other."""


def guarded(text: str) -> str:
    """Put an apostrophe before text that a spreadsheet would take for a formula."""
    return f"'{text}" if text.startswith(_BEGIN_FORMULAS) else text


class CsvLines:
    """Writes rows, each ended by "\\n"."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._writer = csv.writer(self, lineterminator=_QUOTED)

    def write_rows(self, rows: Iterable[Iterable[object]]) -> None:
        self._writer.writerows(rows)

    def write(self, row: str) -> int:
        """Take one row from the standard library."""
        return self._out.write(f"{row.removesuffix(_QUOTED)}\n")
