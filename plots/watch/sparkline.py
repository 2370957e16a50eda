"""A row of results as one character each: a block as high as its images/s, a letter for a
failure.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from analysis.results import Result
from plots.tables.layout import SYMBOLS
from scalemark.records.outcomes import Outcome

BLOCKS, DIGITS = "▁▂▃▄▅▆▇█", "12345678"
NOT_RUN, ASCII_NOT_RUN = "·", "."


def sparkline(results: Sequence[Result | None], most: float, *, ascii_only: bool = False) -> str:
    """The full block, or 8, is `most` images/s, the lowest the eighth of it or less; None: not
    run.
    """
    return "".join(_mark(result, most, ascii_only=ascii_only) for result in results)


def scale(results: Iterable[Result]) -> float:
    """The largest number, which the full block stands for; 0 when there is none."""
    return max(
        filter(math.isfinite, (result.images_per_second or 0.0 for result in results)), default=0.0
    )


def legend(results: Iterable[Result | None], *, ascii_only: bool = False) -> str:
    """What the marks mean that occur."""
    found = list(results)
    full = DIGITS[-1] if ascii_only else BLOCKS[-1]
    letters = dict.fromkeys(
        SYMBOLS[Outcome(one.outcome)] for one in found if one and one.images_per_second is None
    )
    told = [
        f"{full} the most images/s of the table",
        *(f"{symbol[0]} {symbol}" for symbol in letters),
    ]
    if None in found:
        told.append(f"{ASCII_NOT_RUN if ascii_only else NOT_RUN} not run")
    return ", ".join(told)


def _mark(result: Result | None, most: float, *, ascii_only: bool) -> str:
    if result is None:
        return ASCII_NOT_RUN if ascii_only else NOT_RUN
    number = result.images_per_second
    if number is None or not math.isfinite(number):
        return SYMBOLS[Outcome(result.outcome)][0] if number is None else "?"
    level = math.ceil(len(BLOCKS) * number / most) if most else 1
    return (DIGITS if ascii_only else BLOCKS)[min(len(BLOCKS), max(1, level)) - 1]
