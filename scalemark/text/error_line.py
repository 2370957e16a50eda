"""Finds in an error of many lines the one that says why: those of a TensorFlow graph begin with
where.
"""

from __future__ import annotations

import re

GRAPH_ERROR = "Graph execution error:"
_WHERE = re.compile(
    rf"{GRAPH_ERROR}|Detected at node|File \"|<stack traces unavailable>|\[\[\{{\{{node"
)


def telling_line(text: str) -> str:
    """Its first line that does not only say where; without one the first, and empty where all
    are.
    """
    lines = [line for line in map(str.strip, text.splitlines()) if line]
    return next((line for line in lines if not _WHERE.match(line)), lines[0] if lines else "")
