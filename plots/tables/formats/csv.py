"""CSV for spreadsheets and data frames: a line per result, with unrounded numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TextIO

from plots.tables.document import Document
from plots.tables.records import records
from scalemark.text.csv_lines import CsvLines, guarded
from scalemark.text.untrusted import visible
from scalemark.text.wording import as_typed


def write(documents: Sequence[Document], out: TextIO) -> None:
    found = records(documents)
    shown = visible if out.isatty() else str  # a file keeps text as it is
    lines = CsvLines(out)
    # free axes may differ between trials: the first record has those of its own only
    columns = list(dict.fromkeys(name for record in found for name in record))
    lines.write_rows([columns])
    lines.write_rows([_cell(record.get(name), shown) for name in columns] for record in found)


def _cell(value: object, shown: Callable[[str], str]) -> object:
    """Join lists with spaces, and guard text that a spreadsheet would take for a formula."""
    if isinstance(value, bool):
        return as_typed(value)
    if isinstance(value, list):
        value = " ".join(map(str, value))
    return guarded(shown(value)) if isinstance(value, str) else value
