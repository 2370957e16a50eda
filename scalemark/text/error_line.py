"""Finds the line of an error that says why: those of a TensorFlow graph begin with where."""

from __future__ import annotations

import re

GRAPH_ERROR = "Graph execution error:"
_WHERE = re.compile(
    rf"{GRAPH_ERROR}|Detected at node|File \"|<stack traces unavailable>|\[\[\{{\{{node"
)


def telling_line(text: str) -> str:
    """Return the first line that does not only say where; else the first line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for line in lines:
        if not _WHERE.match(line):
            return line
    return lines[0] if lines else ""
