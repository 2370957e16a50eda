"""Writes rows as CSV or Parquet, for other programs to read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path

from scalemark.records.validation import utc_text
from scalemark.text.csv_lines import CsvLines, guarded
from store.exchange.flat import Cell, Kind, Row

# A row group has as many rows as fit into the memory of its readers: texts may be long.
_ROWS_OF_A_GROUP = 10_000
_CHARACTERS_OF_A_GROUP = 2**26


def write_csv(path: Path, columns: Mapping[str, Kind], rows: Iterable[Row]) -> None:
    """Write UTF-8 with commas; text that a spreadsheet would take for a formula gets an apostrophe
    before it.
    """
    with path.open("w", newline="", encoding="utf-8") as file:
        lines = CsvLines(file)
        lines.write_rows([columns])
        lines.write_rows([_text(row[name], kind) for name, kind in columns.items()] for row in rows)


def write_parquet(path: Path, columns: Mapping[str, Kind], rows: Iterable[Row]) -> None:
    """Write in pieces, so that memory holds some thousand rows."""
    import pyarrow as pa  # here, as below: it is slow to import, and other formats need none
    import pyarrow.parquet as pq

    types = {
        Kind.TEXT: pa.string(),
        Kind.JSON: pa.string(),
        Kind.WHOLE: pa.int64(),
        Kind.NUMBER: pa.float64(),
        Kind.TRUTH: pa.bool_(),
        Kind.TIME: pa.timestamp("us", "UTC"),
    }
    schema = pa.schema([(name, types[kind]) for name, kind in columns.items()])
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for piece in _pieces(rows):
            writer.write_table(pa.Table.from_pylist(piece, schema=schema))


def _pieces(rows: Iterable[Row]) -> Iterator[list[Row]]:
    piece: list[Row] = []
    num_characters = 0
    for row in rows:
        piece.append(row)
        num_characters += sum(len(value) for value in row.values() if isinstance(value, str))
        if len(piece) == _ROWS_OF_A_GROUP or num_characters >= _CHARACTERS_OF_A_GROUP:
            yield piece
            piece, num_characters = [], 0
    if piece:
        yield piece


def _text(cell: Cell, kind: Kind) -> str:
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, datetime):
        return utc_text(cell)
    if kind is Kind.TEXT:
        return guarded(str(cell))
    return repr(cell) if isinstance(cell, float) else str(cell)
