"""Tables as CSV: no cell of which a spreadsheet would take for a formula, and every cell read back
as it was.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path

from scalemark.records.references import Rejected
from scalemark.records.validation import utc_text
from scalemark.text.csv_lines import CsvLines
from store.exchange.flat import Cell, Kind, Row

_LOOKS_LIKE_A_FORMULA = re.compile(r"'*[=+\-@\t\r]")
_ESCAPED = re.compile(r"'+[=+\-@\t\r]")
# the standard library takes no more than 131,072 characters unless it is told
_LONGEST_CELL = 2**24
_TRUTHS = {"true": True, "false": False}
_MAY_BE_NULL = (
    "verdict",
    "sweep_run_dir",
    "python",
    "tensorflow",
    "keras",
    "scalemark",
    "revision",
    "software_key",
)
_WHOLE = re.compile(r"-?\d{1,40}")


def write(path: Path, columns: Mapping[str, Kind], rows: Iterable[Row]) -> None:
    """UTF-8, a comma between cells; text that begins with = + - @ gets an apostrophe before it."""
    with path.open("w", newline="", encoding="utf-8") as file:
        lines = CsvLines(file)
        lines.write_rows([columns])
        lines.write_rows([_text(row[name], kind) for name, kind in columns.items()] for row in rows)


def read(
    path: Path, columns: Mapping[str, Kind], required: frozenset[str]
) -> Iterator[tuple[str, Row] | Rejected]:
    """Each row with its place. A file that is no such table is one rejected row."""
    before = csv.field_size_limit(_LONGEST_CELL)
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file, strict=True)
            header = next(reader, [])
            if why := wrong_header(header, columns, required):
                yield Rejected(where=str(path), reason=why)
                return
            for cells in reader:
                yield _row(f"{path} line {reader.line_num}", header, cells, columns)
    except UnicodeDecodeError as error:
        yield Rejected(where=str(path), reason=f"byte {error.start} is not UTF-8; save it as UTF-8")
    except csv.Error as error:
        yield Rejected(
            where=f"{path} line {reader.line_num}",
            reason=f"not CSV: {error}; what follows is not read",
        )
    finally:
        csv.field_size_limit(before)


def wrong_header(header: list[str], columns: Mapping[str, Kind], required: frozenset[str]) -> str:
    """Empty when it is right."""
    if missing := required - set(header):
        return (
            "not a table that `python -m store export` wrote: no column "
            f"{', '.join(sorted(missing)[:5])}"
        )
    if unknown := [name for name in header if name not in columns]:
        return f"unknown column {', '.join(unknown[:5])[:200]}; wanted {', '.join(columns)}"
    if len(set(header)) != len(header):
        return f"column {next(name for name in header if header.count(name) > 1)} is there twice"
    return ""


def _row(
    where: str, header: list[str], cells: list[str], columns: Mapping[str, Kind]
) -> tuple[str, Row] | Rejected:
    if len(cells) != len(header):
        return Rejected(
            where=where, reason=f"{len(cells)} cells; wanted {len(header)}, as in the header"
        )
    try:
        return where, {
            name: _value(name, cell, columns[name])
            for name, cell in zip(header, cells, strict=True)
        }
    except ValueError as error:
        return Rejected(where=where, reason=str(error))


def _text(cell: Cell, kind: Kind) -> str:
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, datetime):
        return utc_text(cell)
    if kind is Kind.TEXT:
        return f"'{cell}" if _LOOKS_LIKE_A_FORMULA.match(str(cell)) else str(cell)
    return repr(cell) if isinstance(cell, float) else str(cell)


def _value(name: str, text: str, kind: Kind) -> Cell:
    if kind is Kind.TEXT:
        return (
            None
            if not text and name in _MAY_BE_NULL
            else text.removeprefix("'")
            if _ESCAPED.match(text)
            else text
        )
    if not text:
        return None
    if kind in (Kind.JSON, Kind.TIME):
        return text
    if kind is Kind.TRUTH:
        if text.lower() not in _TRUTHS:  # spreadsheets write TRUE
            raise ValueError(f"{name}={text[:60]}: wanted true or false")
        return _TRUTHS[text.lower()]
    if kind is Kind.WHOLE:
        if not _WHOLE.fullmatch(text):
            raise ValueError(f"{name}={text[:60]}: wanted a whole number")
        return int(text)
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{name}={text[:60]}: wanted a number") from None
