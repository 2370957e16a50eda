"""What may be said of results that repeats cannot tell apart: as fast as each other, or not told
apart.
"""

from __future__ import annotations

from collections.abc import Sequence

from analysis.results import Result
from analysis.text.wording import listed
from scalemark.stats.welch import known_ratio_interval

CLOSE = 1.05  # times: less of a difference does not matter


def tied_text(names: str, best: Result, tied: Sequence[Result]) -> str:
    """As `a and b are as fast as each other`; `best` is the fastest of them."""
    if all(is_as_fast(best, one) for one in tied):
        return f"{names} are as fast as each other"
    return f"{names} cannot be told apart"


def is_as_fast(best: Result, other: Result) -> bool:
    """Whether the difference does not matter, wherever in its 95 % interval it is; a published
    figure stands as it is.
    """
    ratio = (best.throughput or 0.0) / (other.throughput or 1.0)
    low, high = known_ratio_interval(best.repeats, other.repeats)
    return min(ratio, low or ratio) >= 1 / CLOSE and max(ratio, high or ratio) <= CLOSE


def undecided(unknown: Sequence[str], out: Sequence[str]) -> list[str]:
    """What stays open against those with one process, and those that a race put out; parts of a
    sentence, joined by `; `.
    """
    told = (
        [f"against {listed(unknown)} a process alone cannot tell, sweep.repeats=3 would"]
        if unknown
        else []
    )
    return told + (
        [f"against {listed(out)}, put out of a race, few repeats cannot tell"] if out else []
    )
