"""Reads tables that other programs wrote: CSV, TSV, Markdown, JSON lines and Parquet, with numbers
as people write them: `5,762`, `29 911`, `2.84M`, `1024 img/s`.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scalemark.records.references import Rejected
from scalemark.text.untrusted import quoted
from store.errors import StoreError

_DELIMITERS = ",;\t|"
_LONGEST_LINE = 2**20  # characters
_MOST_COLUMNS = 10_000
_MOST_SHOWN = 80  # characters of a cell in a message
_RULE = re.compile(r"[\s|:-]*-[\s|:-]*")  # of Markdown, below the names
_CELL_END = re.compile(r"(?<!\\)\|")


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignTable:
    """A table: texts of CSV and Markdown, typed values of JSON and Parquet, None for nothing."""

    columns: tuple[str, ...]
    rows: list[tuple[str, Sequence[Any]]] = field(default_factory=list)  # each with its place
    rejected: list[Rejected] = field(default_factory=list)
    # `1,234` is 1234 where commas part the cells, and may be 1.234 where ; or a tab does
    knows_decimals: bool = True


def read_table(path: Path) -> ForeignTable:
    """Read a table by its content. Raises StoreError for what is none, with the reason."""
    try:
        with path.open("rb") as file:
            begin = file.read(4096)
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}") from error
    if begin.startswith(b"PAR1"):
        return _of_parquet(path)
    if not begin.strip():
        raise StoreError(f"{path}: empty; wanted a table with a line of column names")
    if begin.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise StoreError(f"{path}: UTF-16; save it as UTF-8, as spreadsheets call CSV UTF-8")
    if b"\0" in begin:
        raise StoreError(f"{path}: no text; wanted CSV, TSV, Markdown, JSON lines or Parquet")
    with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as text:
        first = begin.removeprefix(b"\xef\xbb\xbf").lstrip()
        if first.startswith(b"{"):
            return _of_json_lines(path, _short_lines(path, text))
        if first.startswith(b"|"):
            return _of_markdown(path, _short_lines(path, text))
        return _of_delimited(path, _short_lines(path, text))


def shown(cell: object) -> str:
    """Return a cell for a message."""
    return quoted(str(cell), _MOST_SHOWN)


def _short_lines(path: Path, text: Any) -> Iterator[str]:
    while line := text.readline(_LONGEST_LINE):
        if len(line) == _LONGEST_LINE:
            raise StoreError(f"{path}: a line of {_LONGEST_LINE:,} characters or more")
        yield line


def _columns(path: Path, names: Sequence[str]) -> tuple[str, ...]:
    # others write an index without a name before the columns
    columns = [name.strip() or f"column {number}" for number, name in enumerate(names, 1)]
    if len(columns) > _MOST_COLUMNS:
        raise StoreError(f"{path}: {len(columns):,} columns; wanted {_MOST_COLUMNS:,} or fewer")
    twice = [name for name in dict.fromkeys(columns) if columns.count(name) > 1]
    if twice:
        raise StoreError(
            f"{path}: {', '.join(map(shown, twice[:5]))}: a name of more than one column; give "
            "each column its own name"
        )
    return tuple(columns)


def _of_delimited(path: Path, lines: Iterator[str]) -> ForeignTable:
    num_blank, first = 0, next(lines)
    while not first.strip():
        num_blank, first = num_blank + 1, next(lines)
    sizes = {mark: len(next(csv.reader([first], delimiter=mark), [])) for mark in _DELIMITERS}
    delimiter = max(sizes, key=lambda mark: sizes[mark])

    def every_line() -> Iterator[str]:
        yield first
        yield from lines

    reader = csv.reader(every_line(), delimiter=delimiter, strict=True)
    try:
        columns = _columns(path, next(reader))
    except csv.Error as error:
        raise StoreError(f"{path}: its line of column names cannot be read: {error}") from None
    table = ForeignTable(columns=columns, knows_decimals=delimiter not in ";\t")
    while True:
        where = f"{path} line {num_blank + reader.line_num + 1}"
        try:
            cells = next(reader)
        except StopIteration:
            return table
        except csv.Error as error:
            reason = f"{error}; is a quote not closed?"
            table.rejected.append(Rejected(where=where, reason=reason))
            continue
        _add_row(table, where, cells)


def _of_markdown(path: Path, lines: Iterable[str]) -> ForeignTable:
    table: ForeignTable | None = None
    has_rule = False
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text.startswith("|"):
            if table and text:
                raise StoreError(f"{path} line {number}: more than one table; wanted a file each")
            continue
        if _RULE.fullmatch(text):
            if has_rule:
                raise StoreError(f"{path} line {number}: more than one table; wanted a file each")
            has_rule = True
            continue
        cells = [_without_marks(cell) for cell in _CELL_END.split(text[1:].removesuffix("|"))]
        if table is None:
            table = ForeignTable(columns=_columns(path, cells))
        else:
            _add_row(table, f"{path} line {number}", cells)
    assert table is not None  # the first line began with |
    return table


def _without_marks(cell: str) -> str:
    """Return a cell of Markdown without the marks of bold text, and without escapes."""
    cell = cell.strip()
    for mark in ("**", "__", "`"):
        if cell.startswith(mark) and cell.endswith(mark):
            cell = cell.removeprefix(mark).removesuffix(mark)
    return re.sub(r"\\([\\|<`*_#])", r"\1", cell).strip()


def _add_row(table: ForeignTable, where: str, cells: Sequence[str]) -> None:
    if not any(cell.strip() for cell in cells):
        return
    wanted = len(table.columns)
    if len(cells) == wanted:
        table.rows.append((where, [cell.strip() or None for cell in cells]))
        return
    reason = f"{len(cells)} cells; wanted {wanted}, as the line of column names has"
    if len(cells) > wanted:
        reason += "; a cell with the delimiter in it belongs in quotes"
    table.rejected.append(Rejected(where=where, reason=reason))


def _of_json_lines(path: Path, lines: Iterable[str]) -> ForeignTable:
    rows: list[tuple[str, dict[str, Any]]] = []
    rejected: list[Rejected] = []
    for number, line in enumerate(lines, 1):
        where = f"{path} line {number}"
        try:
            if line.strip():
                rows.append((where, _json_object(line)))
        except (ValueError, RecursionError) as error:
            rejected.append(Rejected(where=where, reason=str(error)))
    names = dict.fromkeys(name for _, row in rows for name in row)
    if not names:
        reason = rejected[0].reason if rejected else "no row in it"
        raise StoreError(f"{path}: no table of JSON lines: {reason}")
    columns = _columns(path, list(names))
    cells: list[tuple[str, Sequence[Any]]] = []
    for where, row in rows:
        cells.append((where, [row.get(name) for name in names]))
    return ForeignTable(columns=columns, rows=cells, rejected=rejected)


def _json_object(line: str) -> dict[str, Any]:
    row = json.loads(line, object_pairs_hook=_without_doubles)
    if not isinstance(row, dict):
        raise ValueError(f"found {shown(line.strip())}, wanted an object of columns")
    return row


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{shown(twice)} is named twice")
    return row


def _of_parquet(path: Path) -> ForeignTable:
    import pyarrow as pa  # here, because it is slow to import, and other formats need none
    import pyarrow.parquet as pq

    try:
        parquet = pq.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise StoreError(f"{path}: cannot be read as Parquet: {shown(error)}") from error
    table = ForeignTable(columns=_columns(path, parquet.column_names))
    values = [column.to_pylist() for column in parquet.columns]
    for number, cells in enumerate(zip(*values, strict=True), 1):
        table.rows.append((f"{path} row {number}", cells))
    return table


_MULTIPLES = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "B": 1e9}
_SPACES = " \u00a0\u2009\u202f'\u2019"  # spaces, narrow ones, and apostrophes group digits too
_FORM = re.compile(
    rf"([+-]?)([\d.,{_SPACES}]*[\d.,])([eE][+-]?\d{{1,3}})?\s*([kKMGB]?)(?:\s*([A-Za-z]+\s*/.*))?",
    re.ASCII,
)
_DIGITS = re.compile(r"\d*", re.ASCII)
_OF_THREE = re.compile(r"[1-9]\d{0,2}([.,])\d{3}", re.ASCII)  # 1,234 or 1.234


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A number of a cell."""

    amount: float
    is_rounded: bool  # by a multiple, as 64k, which may be 64,000 or 65,536
    unit: str  # what follows, as img/s


def read_number(text: str, *, decimal_comma: bool = False) -> Written | None:
    """Return the number of a cell; None where it is none. The other mark groups digits."""
    form = _FORM.fullmatch(text.strip())
    if form is None:
        return None
    sign, digits, exponent, multiple, unit = form.groups()
    plain = _plain(digits, *(",." if decimal_comma else ".,"))
    if plain is None:
        return None
    return Written(
        amount=float(f"{sign}{plain}{exponent or ''}") * _MULTIPLES[multiple],
        is_rounded=bool(multiple),
        unit=unit or "",
    )


def _plain(digits: str, decimal: str, group: str) -> str | None:
    """Return digits without groups and with a point; None where groups are not of three."""
    whole, _, fraction = digits.partition(decimal)
    if not _DIGITS.fullmatch(fraction) or not (whole or fraction):
        return None
    if not _DIGITS.fullmatch(whole):
        grouped = rf"[1-9]\d{{0,2}}(?:([{group}{_SPACES}])\d{{3}})(?:\1\d{{3}})*"
        if not re.fullmatch(grouped, whole, re.ASCII):
            return None
        whole = re.sub(r"\D", "", whole)
    return f"{whole or '0'}.{fraction or '0'}"


def open_mark(cells: Iterable[str]) -> str:
    """Return a number of a column that says 1,234 or 1.234 where nothing tells which mark is the
    decimal one; empty where that is known.
    """
    doubtful = ""
    for cell in cells:
        marks = [character for character in cell if character in ".,"]
        if len(marks) > 1:
            return ""  # 1,234.5 or 1.234.567
        if marks and not _OF_THREE.match(cell.strip()):
            return ""  # 12.5
        if marks:
            doubtful = doubtful or cell
    return doubtful
