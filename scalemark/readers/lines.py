"""Cuts the output of a program into lines: progress bars rewrite theirs, and some never end one."""

from __future__ import annotations

import re
from collections.abc import Iterator

MOST_CHARACTERS = 16_384
"""Length of a line that readers get; what is beyond is dropped."""

_ENDS = re.compile(rb"[\r\n\x08]+")  # a carriage return or backspaces: the next update of a bar
_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-_]|[\x00-\x07\x0b-\x1f\x7f]"
)


class Lines:
    """Cuts bytes as they arrive into lines without escapes, of bounded length."""

    def __init__(self) -> None:
        self._begun = b""  # of a line that has not ended, at most MOST_CHARACTERS

    def feed(self, chunk: bytes) -> Iterator[str]:
        """Yield the lines that end within a chunk."""
        *ended, rest = _ENDS.split(chunk)
        for piece in ended:
            line = cleaned((self._begun + piece)[:MOST_CHARACTERS].decode(errors="replace"))
            self._begun = b""
            if line:
                yield line
        self._begun = (self._begun + rest[:MOST_CHARACTERS])[:MOST_CHARACTERS]

    def end(self) -> Iterator[str]:
        """Yield the last line, where the output ends without a newline."""
        yield from self.feed(b"\n")


def cleaned(line: str) -> str:
    """Return a line as a terminal would show it last: no colors, no control characters."""
    if line.isprintable():
        return line[:MOST_CHARACTERS]
    for shown in reversed(re.split(r"[\r\n\x08]+", line[:MOST_CHARACTERS])):
        if shown.strip():
            return _ESCAPES.sub("", shown)
    return ""
