"""Reads tables that other programs wrote: CSV, TSV, JSON lines and Parquet, row by row."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, TextIO

from scalemark.records.references import Rejected
from scalemark.text.untrusted import quoted
from store.errors import StoreError

Row = Mapping[str, Any]
"""A row by its columns: texts of CSV, typed values of JSON and Parquet; None where it has none."""

_DELIMITERS = ",;\t|"
_LONGEST_LINE = 2**20  # characters
_LOOKED_AT_ROWS = 100  # of JSON lines, whose columns are those of the first rows
_PARQUET_ROWS = 10_000  # in memory at once
_MOST_COLUMNS = 10_000
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_MOST_SHOWN = 80  # characters of a cell in a message


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignTable:
    """A table that is being read."""

    columns: tuple[str, ...]
    rows: Iterator[tuple[str, Row] | Rejected]  # each with its place, as "results.csv line 12"


@contextmanager
def opened(path: Path) -> Iterator[ForeignTable]:
    """Open a table by its content. Raises StoreError for what is none, with the reason."""
    begin = _begin(path)
    if begin.startswith(b"PAR1"):
        with closing(_parquet_file(path)) as parquet:
            yield _of_parquet(path, parquet)
        return
    with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as text:
        if begin.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
            yield _of_json_lines(path, text)
        else:
            yield _of_delimited(path, text)


def shown(cell: object) -> str:
    """Return a cell for a message."""
    return quoted(str(cell), _MOST_SHOWN)


def _begin(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            begin = file.read(4096)
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}") from error
    if not begin.strip():
        raise StoreError(f"{path}: empty; wanted a table with a line of column names")
    if begin.startswith(_UTF_16):
        raise StoreError(f"{path}: UTF-16; save it as UTF-8, as spreadsheets call CSV UTF-8")
    if b"\0" in begin and not begin.startswith(b"PAR1"):
        raise StoreError(f"{path}: no text; wanted CSV, TSV, JSON lines or Parquet")
    return begin


def _checked(path: Path, columns: Sequence[str]) -> tuple[str, ...]:
    """Raise StoreError for too many columns, and for two of one name."""
    if len(columns) > _MOST_COLUMNS:
        raise StoreError(f"{path}: {len(columns):,} columns; wanted {_MOST_COLUMNS:,} or fewer")
    twice = [name for name in dict.fromkeys(columns) if columns.count(name) > 1]
    if twice:
        raise StoreError(
            f"{path}: {', '.join(map(shown, twice[:5]))}: a name of more than one column; give "
            "each column its own name"
        )
    return tuple(columns)


def _of_delimited(path: Path, text: TextIO) -> ForeignTable:
    lines = _lines(path, text)
    num_blank, first = 0, next(lines)  # a blank file is refused before
    while not first.strip():
        num_blank, first = num_blank + 1, next(lines)
    reader = csv.reader(chain([first], lines), delimiter=_delimiter(first), strict=True)
    try:
        names = next(reader)
    except csv.Error as error:
        raise StoreError(f"{path}: its line of column names cannot be read: {error}") from None
    # others write an index without a name before the columns
    named = [name.strip() or f"column {number}" for number, name in enumerate(names, 1)]
    columns = _checked(path, named)
    return ForeignTable(columns=columns, rows=_delimited_rows(path, reader, columns, num_blank))


def _lines(path: Path, text: TextIO) -> Iterator[str]:
    for line in iter(partial(text.readline, _LONGEST_LINE), ""):
        if len(line) == _LONGEST_LINE:
            raise StoreError(
                f"{path}: a line of {_LONGEST_LINE:,} characters or more; it and what follows are "
                "not read"
            )
        yield line


def _delimiter(line: str) -> str:
    """Return the delimiter that makes most columns of the line of names; of equals the first."""
    num_columns = {}
    for delimiter in _DELIMITERS:
        num_columns[delimiter] = len(next(csv.reader([line], delimiter=delimiter), []))
    return max(num_columns, key=lambda delimiter: num_columns[delimiter])


def _delimited_rows(
    path: Path, reader: Any, columns: tuple[str, ...], num_blank: int
) -> Iterator[tuple[str, Row] | Rejected]:
    while True:
        where = f"{path} line {num_blank + reader.line_num + 1}"
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield Rejected(where=where, reason=f"{error}; is a quote not closed?")
            continue
        if not any(cell.strip() for cell in cells):
            continue
        if len(cells) != len(columns):
            yield Rejected(where=where, reason=_other_length(cells, columns))
            continue
        values = [cell.strip() or None for cell in cells]
        yield where, dict(zip(columns, values, strict=True))


def _other_length(cells: Sequence[str], columns: Sequence[str]) -> str:
    reason = f"{len(cells)} cells; wanted {len(columns)}, as the line of column names has"
    if len(cells) > len(columns):
        reason += "; a cell with the delimiter in it belongs in quotes"
    return reason


def _of_json_lines(path: Path, text: TextIO) -> ForeignTable:
    rows = _json_rows(path, text)
    first = list(islice(rows, _LOOKED_AT_ROWS))
    names: dict[str, None] = {}
    for one in first:
        if not isinstance(one, Rejected):
            names.update(dict.fromkeys(one[1]))
    if not names:
        reason = first[0].reason if first and isinstance(first[0], Rejected) else "no row in it"
        raise StoreError(f"{path}: no table of JSON lines: {reason}")
    columns = _checked(path, list(names))
    return ForeignTable(columns=columns, rows=_of_known_columns(chain(first, rows), columns))


def _json_rows(path: Path, text: TextIO) -> Iterator[tuple[str, Row] | Rejected]:
    for number, line in enumerate(_lines(path, text), 1):
        if not line.strip():
            continue
        where = f"{path} line {number}"
        try:
            yield where, _json_object(line)
        except (ValueError, RecursionError) as error:
            yield Rejected(where=where, reason=str(error))


def _json_object(line: str) -> Row:
    found = json.loads(line, object_pairs_hook=_without_doubles)
    if not isinstance(found, dict):
        raise ValueError(f"found {shown(line.strip())}, wanted an object of columns")
    return found


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{shown(twice)} is named twice")
    return found


def _of_known_columns(
    rows: Iterator[tuple[str, Row] | Rejected], columns: tuple[str, ...]
) -> Iterator[tuple[str, Row] | Rejected]:
    known = frozenset(columns)
    for one in rows:
        if isinstance(one, Rejected) or one[1].keys() <= known:
            yield one
            continue
        new = ", ".join(shown(name) for name in one[1] if name not in known)
        yield Rejected(
            where=one[0],
            reason=f"{new}: a column that the first {_LOOKED_AT_ROWS} rows do not have; give them "
            "it, with null",
        )


def _parquet_file(path: Path) -> Any:
    import pyarrow as pa  # here, as below: it is slow to import, and other formats need none
    import pyarrow.parquet as pq

    try:
        return pq.ParquetFile(path)
    except (pa.ArrowException, OSError) as error:
        raise StoreError(f"{path}: cannot be read as Parquet: {shown(error)}") from error


def _of_parquet(path: Path, parquet: Any) -> ForeignTable:
    columns = _checked(path, parquet.schema_arrow.names)
    return ForeignTable(columns=columns, rows=_parquet_rows(path, parquet, columns))


def _parquet_rows(
    path: Path, parquet: Any, columns: tuple[str, ...]
) -> Iterator[tuple[str, Row] | Rejected]:
    import pyarrow as pa

    number = 0
    try:
        for batch in parquet.iter_batches(batch_size=_PARQUET_ROWS):
            of_columns = [column.to_pylist() for column in batch.columns]
            for cells in zip(*of_columns, strict=True):
                number += 1
                yield f"{path} row {number}", dict(zip(columns, cells, strict=True))
    except (pa.ArrowException, OSError) as error:
        reason = f"cannot be read behind row {number}: {shown(error)}"
        yield Rejected(where=str(path), reason=reason)
