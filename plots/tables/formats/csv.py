"""For spreadsheets and data frames: a line per result, all numbers as they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

from plots.tables.document import Document
from plots.tables.records import names, records
from store.csv_lines import CsvLines


def write(documents: Sequence[Document], out: TextIO) -> None:
    columns = names(documents)
    lines = CsvLines(out)
    lines.write_rows([columns])
    lines.write_rows([_cell(record[column]) for column in columns] for record in records(documents))


def _cell(value: object) -> object:
    """Lists with spaces."""
    if isinstance(value, list):
        return " ".join(map(str, value))
    return value
