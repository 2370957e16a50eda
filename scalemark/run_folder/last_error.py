"""Finds the last error in a log; TensorFlow logs much that only looks like one."""

from __future__ import annotations

import os
import re
from pathlib import Path

from scalemark.run_folder.regular_file import open_regular
from scalemark.text.error_line import GRAPH_ERROR, telling_line
from scalemark.text.untrusted import quoted

_TAIL_BYTES = 2**16
_NO_ERROR = "failed call to cuInit"  # what TensorFlow always says where there is no GPU
_ERROR_LINE = re.compile(r"^[EF]\d{4} |Error\b|Fatal|Check failed|terminate called")
_MOST_CHARACTERS = 300


def last_error(log: Path) -> str:
    """Return the last line that looks like an error, or nothing. Raises OSError."""
    with open_regular(log) as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
        return last_error_in(file.read(_TAIL_BYTES).decode(errors="replace"))


def last_error_in(text: str) -> str:
    """Return the last line of a text that looks like an error, or nothing."""
    lines = text.splitlines()
    for number in reversed(range(len(lines))):
        line = lines[number].strip()
        if not _ERROR_LINE.search(line) or _NO_ERROR in line:
            continue
        if line.endswith(GRAPH_ERROR):  # which only announces the error
            line = f"{line} {telling_line(chr(10).join(lines[number + 1 :]))}".rstrip()
        return quoted(line, _MOST_CHARACTERS)
    return ""
