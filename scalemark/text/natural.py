"""Sorts text as people count: `zero=2` before `zero=10`."""

from __future__ import annotations

import re

_NUMBER = re.compile(r"(\d+(?:\.\d+)?)")

SortKey = tuple[tuple[int, float, str], ...]


def natural(text: str) -> SortKey:
    """Return a key to sort by, which compares runs of digits as numbers, and these before words."""
    parts = []
    # with one group in the pattern, every second part is a number
    for place, part in enumerate(_NUMBER.split(text)):
        if place % 2:
            parts.append((0, float(part), part))
        elif part:
            parts.append((1, 0.0, part))
    return tuple(parts)
