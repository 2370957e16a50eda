"""Finds damage in a write-ahead log, which SQLite takes for the log's end: what was committed after
it would be lost silently.

The format: https://www.sqlite.org/fileformat2.html#walformat
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_HEADER_BYTES, _FRAME_HEADER_BYTES = 32, 24
_MAGIC = 0x377F0682  # the lowest bit tells the byte order of checksums
_Checksum = tuple[int, int]


def wal_problem(path: Path) -> str:
    """What is wrong with it; empty when nothing is, or there is none. Asks twice, because somebody
    may be writing to it.
    """
    first = _problem(path)
    return first if first and first == _problem(path) else ""


def _problem(path: Path) -> str:
    content = path.read_bytes() if path.exists() else b""
    if len(content) <= _HEADER_BYTES:
        return ""
    magic, _, page_bytes, _, *salts = struct.unpack(">6I", content[:24])
    order = ">" if magic & 1 else "<"
    checksum = _checksum(content[:24], (0, 0), order)
    if magic & ~1 != _MAGIC or checksum != struct.unpack(">2I", content[24:32]):
        return "its header is damaged: SQLite ignores all that is in it"
    valid = True
    for number, frame in enumerate(_frames(content, page_bytes), 1):
        same = [ours == theirs for ours, theirs in zip(salts, frame.salts, strict=True)]
        if valid:
            checksum = _checksum(frame.page, _checksum(frame.begin, checksum, order), order)
            valid = all(same) and checksum == frame.checksum
        of_this_log = any(same)  # frames left over from earlier ones have other salts, both of them
        if not valid and of_this_log and (frame.commits or not all(same)):
            return (
                f"it is damaged in or before frame {number}: SQLite ignores the transactions "
                "from there on"
            )
    return ""


@dataclass(frozen=True, slots=True)
class _Frame:
    begin: bytes
    commits: bool
    salts: tuple[int, int]
    checksum: _Checksum
    page: bytes


def _frames(content: bytes, page_bytes: int) -> Iterator[_Frame]:
    size = _FRAME_HEADER_BYTES + page_bytes
    for at in range(_HEADER_BYTES, len(content) - size + 1, size):
        _, num_pages, *rest = struct.unpack(">6I", content[at : at + _FRAME_HEADER_BYTES])
        page = content[at + _FRAME_HEADER_BYTES : at + size]
        yield _Frame(
            content[at : at + 8], num_pages != 0, (rest[0], rest[1]), (rest[2], rest[3]), page
        )


def _checksum(data: bytes, start: _Checksum, order: str) -> _Checksum:
    first, second = start
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for even, odd in zip(words[::2], words[1::2], strict=True):
        first = (first + even + second) & 0xFFFFFFFF
        second = (second + odd + first) & 0xFFFFFFFF
    return first, second
