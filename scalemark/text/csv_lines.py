"""Rows as lines of CSV that every reader takes apart again: a cell with any line end in it, a lone
"\\r", too, is quoted.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from typing import TextIO

_BEGIN_FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n")
_QUOTED = "\r\n"
"""The standard library quotes what holds a character of the line end it was told, and no other line
end.
"""


def guarded(text: str) -> str:
    """With an apostrophe before what a spreadsheet would take for a formula."""
    return f"'{text}" if text.startswith(_BEGIN_FORMULAS) else text


class CsvLines:
    """Writes rows, each ended by "\\n"."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._writer = csv.writer(self, lineterminator=_QUOTED)

    def write_rows(self, rows: Iterable[Iterable[object]]) -> None:
        self._writer.writerows(rows)

    def write(self, row: str) -> int:
        """What the standard library made of one row."""
        return self._out.write(f"{row.removesuffix(_QUOTED)}\n")
