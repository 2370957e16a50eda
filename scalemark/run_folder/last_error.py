"""Finds what a log says last of what went wrong: TensorFlow logs much that is no error."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from scalemark.run_folder.regular_file import open_regular
from scalemark.text.error_line import GRAPH_ERROR, telling_line
from scalemark.text.untrusted import quoted

_TAIL_BYTES = 2**16
_NO_ERROR = "failed call to cuInit"  # what TensorFlow always says where there is no GPU
_ERROR_LINE = re.compile(r"^[EF]\d{4} |Error\b|Fatal|Check failed|terminate called")
_MOST_CHARACTERS = 300


def last_error(log: Path) -> str:
    """The last line near the end of the log that looks like an error; empty where there is none.
    Raises OSError.
    """
    with open_regular(log) as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
        lines = [
            line.strip() for line in file.read(_TAIL_BYTES).decode(errors="replace").splitlines()
        ]
    is_error = (number for number in reversed(range(len(lines))) if _is_error(lines[number]))
    number = next(is_error, None)
    return "" if number is None else quoted(_whole(lines[number:]), _MOST_CHARACTERS)


def _is_error(line: str) -> bool:
    return bool(_ERROR_LINE.search(line)) and _NO_ERROR not in line


def _whole(lines: Sequence[str]) -> str:
    """The first, and what follows it where that only says that an error of a graph follows."""
    first, *following = lines
    if not first.endswith(GRAPH_ERROR):
        return first
    why = telling_line("\n".join(following))
    return f"{first} {why}".rstrip()
