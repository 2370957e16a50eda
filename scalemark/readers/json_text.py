"""Finds a JSON object in a line, whatever stands before and after it."""

from __future__ import annotations

import json


def first_object(line: str, begin: int = 0) -> object:
    """Return the first object of a line from `begin` on; None where there is none."""
    begin = line.find("{", begin)
    if begin < 0:
        return None
    try:
        content: object = json.JSONDecoder().raw_decode(line, begin)[0]
    except (ValueError, RecursionError):
        return None
    return content
