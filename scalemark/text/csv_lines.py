"""Writes CSV in which every cell with a line end, also a lone carriage return, is quoted."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from typing import TextIO

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
