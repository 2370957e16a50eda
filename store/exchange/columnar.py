"""Tables as Parquet, in pieces of some thousand rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from scalemark.records.references import Rejected
from store.exchange.delimited import wrong_header
from store.exchange.flat import Kind, Row

_ROWS_AT_ONCE = 10_000
# or one per byte of the file: measured numbers take more, so ours may have any number of rows
_MOST_ROWS = 20_000_000
_MOST_BYTES_OF_A_GROUP = 2**30  # uncompressed; what is written has a fourth at most
_MOST_BYTES_OF_A_ROW = 2**20  # of text; those of an attempt take some tens of thousands
_MOST_BYTES_AT_ONCE = 2**26


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
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for piece in _pieces(rows):
            writer.write_table(pa.Table.from_pylist(piece, schema=schema))


def read(
    path: Path, columns: Mapping[str, Kind], required: frozenset[str]
) -> Iterator[tuple[str, Row] | Rejected]:
    """Each row with its place. A file that is no such table is one rejected row."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    number = 0
    try:
        with pq.ParquetFile(path) as file:
            schema = file.schema_arrow
            why = (
                _too_large(file.metadata, path.stat().st_size)
                or wrong_header(schema.names, columns, required)
                or _wrong_type(schema, columns)
            )
            if why:
                yield Rejected(where=str(path), reason=why)
                return
        texts = [field.name for field in schema if pa.types.is_string(field.type)]
        with pq.ParquetFile(path, read_dictionary=texts) as file:  # equal texts are held once
            for piece in file.iter_batches(_ROWS_AT_ONCE):
                for row in _rows(piece):
                    number += 1
                    where = f"{path} row {number}"
                    yield (
                        (where, row) if isinstance(row, dict) else Rejected(where=where, reason=row)
                    )
    except (pa.ArrowException, ValueError, OverflowError, OSError) as error:
        first = next(iter(str(error).splitlines()), type(error).__name__)
        yield Rejected(
            where=f"{path} row {number + 1}",
            reason=f"cannot be read as Parquet: {first}; what follows is not read",
        )


def _pieces(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """As many rows as one row group takes, by their number and by their texts."""
    piece: list[Row] = []
    num_characters = 0  # each takes four bytes at most
    for row in rows:
        piece.append(row)
        num_characters += sum(len(value) for value in row.values() if isinstance(value, str))
        if len(piece) == _ROWS_AT_ONCE or num_characters >= _MOST_BYTES_OF_A_GROUP // 16:
            yield piece
            piece, num_characters = [], 0
    if piece:
        yield piece


def _too_large(metadata: Any, file_bytes: int) -> str:
    """Empty when it is not, as far as the file tells before it is read: some kilobytes may hold
    gigabytes.
    """
    if metadata.num_rows > max(_MOST_ROWS, file_bytes):
        wanted = f"wanted no more than {_MOST_ROWS:,}, or one per byte"
        return (
            f"{metadata.num_rows:,} rows in {file_bytes:,} bytes; {wanted}; split it into "
            "several files"
        )
    for index in range(metadata.num_row_groups):
        group = metadata.row_group(index)
        num_bytes = max(
            group.total_byte_size,
            sum(group.column(at).total_uncompressed_size for at in range(group.num_columns)),
        )
        if num_bytes > _MOST_BYTES_OF_A_GROUP:
            wanted = f"wanted no more than {_MOST_BYTES_OF_A_GROUP:,}"
            return (
                f"its row group {index + 1} has {num_bytes:,} bytes; {wanted}; export it anew, "
                "or as jsonl"
            )
    return ""


def _wrong_type(schema: Any, columns: Mapping[str, Kind]) -> str:
    """Empty when each column can hold what is wanted of it; one of another kind of numbers is
    looked at row by row.
    """
    import pyarrow as pa

    is_plain = (
        pa.types.is_null,
        pa.types.is_boolean,
        pa.types.is_integer,
        pa.types.is_floating,
        pa.types.is_string,
        pa.types.is_large_string,
        pa.types.is_timestamp,
    )
    for field in schema:
        found = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        if not any(is_of(found) for is_of in is_plain):
            return (
                f"column {field.name} is of type {found}; wanted {columns[field.name].name.lower()}"
            )
    return ""


def _rows(piece: Any) -> Iterator[Row | str]:
    """Each row, or why it is none. So few are made at once that their texts, which were held once,
    fit into memory.
    """
    sizes = _bytes_of_rows(piece)
    first = 0
    while first < len(sizes):
        if sizes[first] > _MOST_BYTES_OF_A_ROW:
            yield f"{sizes[first]:,} bytes; wanted no more than {_MOST_BYTES_OF_A_ROW:,} in a row"
            first += 1
            continue
        num_rows = num_bytes = 0
        while first + num_rows < len(sizes):
            size = sizes[first + num_rows]
            num_bytes += size
            if size > _MOST_BYTES_OF_A_ROW or num_bytes > _MOST_BYTES_AT_ONCE:
                break
            num_rows += 1
        yield from piece.slice(first, num_rows).to_pylist()
        first += num_rows


def _bytes_of_rows(piece: Any) -> list[int]:
    """Of the texts of each row."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    sizes = np.zeros(piece.num_rows, dtype=np.int64)
    for column in piece.columns:
        if pa.types.is_dictionary(column.type):
            lengths = pc.binary_length(column.dictionary).take(column.indices)
        elif pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            lengths = pc.binary_length(column)
        else:
            continue
        sizes += pc.fill_null(lengths, 0).to_numpy(zero_copy_only=False).astype(np.int64)
    return [int(size) for size in sizes]
