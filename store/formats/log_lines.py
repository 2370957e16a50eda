"""Reads the lines of a log without what terminals added."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_TERMINAL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00\x07\x08]")  # colors and cursor moves


def numbered(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Number lines from 1, without colors and line ends."""
    for number, line in enumerate(lines, start=1):
        yield number, _TERMINAL.sub("", line).rstrip("\r\n")
