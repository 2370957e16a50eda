"""Reads rows straight out of the pages of a SQLite file, where no tree leads to them any more.

The format: https://www.sqlite.org/fileformat2.html#b_tree_pages. Rows that were deleted long ago
may be among them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from store.checks.cells import Text

TABLE_LEAF, INDEX_LEAF = 13, 10
_INTERIOR = (2, 5)
_INTEGER_BYTES = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}
_CONSTANTS = {0: None, 8: 0, 9: 1}


@dataclass(frozen=True, slots=True)
class LeafRow:
    """A row as it lies in a page."""

    kind: int  # TABLE_LEAF, or INDEX_LEAF: of a table without rowid, or of an index
    rowid: int | None
    values: tuple[object, ...]  # text as Text; the column that is the rowid is None


def leaf_rows(path: Path, page_bytes: int) -> Iterator[LeafRow]:
    """Of every leaf in the file, in the order of pages. Cells that make no sense are passed
    over.
    """
    with path.open("rb") as file:
        file.seek(page_bytes)  # on the first page there is the list of the tables
        while len(page := file.read(page_bytes)) == page_bytes:
            if page[0] in (TABLE_LEAF, INDEX_LEAF):
                yield from _rows_of(path, page)
            elif page[0] not in _INTERIOR:  # other content than rows, or a damaged first byte
                for kind in (TABLE_LEAF, INDEX_LEAF):
                    yield from _rows_of(path, bytes([kind]) + page[1:])


def _rows_of(path: Path, page: bytes) -> Iterator[LeafRow]:
    num_cells = min(int.from_bytes(page[3:5]), (len(page) - 8) // 2)
    for (at,) in struct.iter_unpack(">H", page[8 : 8 + 2 * num_cells]):
        try:
            yield _row(path, page, at)
        # a cell that points out of its page, or holds no record
        except (ValueError, IndexError, struct.error):
            continue


def _row(path: Path, page: bytes, at: int) -> LeafRow:
    kind, rowid = page[0], None
    size, at = _varint(page, at)
    if kind == TABLE_LEAF:
        rowid, at = _varint(page, at)
    local = _local_bytes(kind, size, len(page))
    payload = page[at : at + local]
    if local < size:
        payload += _overflow(
            path, int.from_bytes(page[at + local : at + local + 4]), size - local, len(page)
        )
    if len(payload) != size:
        raise ValueError("cut off")
    return LeafRow(kind, rowid, tuple(_values(payload)))


def _local_bytes(kind: int, size: int, page_bytes: int) -> int:
    """Of a record of this size what lies in the page itself."""
    most = page_bytes - 35 if kind == TABLE_LEAF else (page_bytes - 12) * 64 // 255 - 23
    if size <= most:
        return size
    least = (page_bytes - 12) * 32 // 255 - 23
    fitting = least + (size - least) % (page_bytes - 4)
    return fitting if fitting <= most else least


def _overflow(path: Path, number: int, size: int, page_bytes: int) -> bytes:
    found = b""
    with path.open("rb") as file:
        while number > 0 and len(found) < size:
            file.seek((number - 1) * page_bytes)
            page = file.read(page_bytes)
            if len(page) < page_bytes:
                raise ValueError("cut off")
            number = int.from_bytes(page[:4])
            found += page[4 : 4 + size - len(found)]
    return found


def _values(payload: bytes) -> Iterator[object]:
    header_size, at = _varint(payload, 0)
    place = header_size
    if not at <= header_size <= len(payload):
        raise ValueError("no header")
    while at < header_size:
        kind, at = _varint(payload, at)
        size = _INTEGER_BYTES.get(kind, 8 if kind == 7 else (kind - 12) // 2 if kind >= 12 else 0)
        content = payload[place : place + size]
        place += size
        if len(content) != size:
            raise ValueError("cut off")
        yield _value(kind, content)
    if place != len(payload):
        raise ValueError("too long")


def _value(kind: int, content: bytes) -> object:
    if kind in _CONSTANTS:
        return _CONSTANTS[kind]
    if kind in _INTEGER_BYTES:
        return int.from_bytes(content, signed=True)
    if kind == 7:
        return struct.unpack(">d", content)[0]
    if kind < 12:
        raise ValueError("no such kind of value")
    return Text(content) if kind % 2 else content


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """The number, and where the next thing begins."""
    found = 0
    for place in range(at, at + 8):
        found = found << 7 | data[place] & 0x7F
        if data[place] < 0x80:
            return found, place + 1
    return found << 8 | data[at + 8], at + 9
