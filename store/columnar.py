"""Tables as Parquet, in pieces of some thousand rows."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from store.delimited import wrong_header
from store.flat import Cell, Kind, Row
from store.references import Rejected

_ROWS_AT_ONCE = 10_000


def write(path: Path, columns: Mapping[str, Kind], rows: Iterable[Row]) -> None:
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
    remaining = iter(rows)
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        while piece := list(itertools.islice(remaining, _ROWS_AT_ONCE)):
            writer.write_table(pa.Table.from_pylist(piece, schema=schema))


def read(path: Path, columns: Mapping[str, Kind], required: frozenset[str]) -> Iterator[tuple[str, Row] | Rejected]:
    """Each row with its place. A file that is no such table is one rejected row."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    number = 0
    try:
        with pq.ParquetFile(path) as file:
            if why := wrong_header(file.schema_arrow.names, columns, required):
                yield Rejected(where=str(path), reason=why)
                return
            for piece in file.iter_batches(_ROWS_AT_ONCE):
                rows: list[dict[str, Any]] = piece.to_pylist()
                for row in rows:
                    number += 1
                    yield _row(f"{path} row {number}", row, columns)
    except (pa.ArrowException, UnicodeDecodeError, OSError) as error:
        first = str(error).splitlines()[0]
        yield Rejected(where=f"{path} row {number + 1}", reason=f"cannot be read as Parquet: {first}; what follows is not read")


def _row(where: str, row: dict[str, Cell], columns: Mapping[str, Kind]) -> tuple[str, Row] | Rejected:
    for name, value in row.items():
        if columns[name] is Kind.JSON and value is not None and not isinstance(value, str):
            return Rejected(where=where, reason=f"{name}={value}: wanted JSON as text")
    return where, row
