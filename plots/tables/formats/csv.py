"""For spreadsheets and data frames: a line per result, all numbers as they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TextIO

from plots.tables.document import Document
from plots.tables.records import names, records
from scalemark.text.csv_lines import CsvLines, guarded
from scalemark.text.untrusted import visible


def write(documents: Sequence[Document], out: TextIO) -> None:
    columns = names(documents)
    lines = CsvLines(out)
    lines.write_rows([columns])
    shown = visible if out.isatty() else str  # a file keeps text as it is
    lines.write_rows(
        [_cell(record[column], shown) for column in columns] for record in records(documents)
    )


def _cell(value: object, shown: Callable[[str], str]) -> object:
    """Lists with spaces; text of which no spreadsheet makes a formula."""
    if isinstance(value, list):
        value = " ".join(map(str, value))
    return guarded(shown(value)) if isinstance(value, str) else value
