"""Words results that repeats do not distinguish."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.results import Result
from scalemark.stats.welch import known_ratio_interval
from scalemark.text.wording import listed

CLOSE = 1.05  # times: less of a difference does not matter
LEVEL_UP_TO = 1.0005  # times: less of a difference is printed as none, 0.0%
SINGLE_RUN = "single run, not conclusive"


def tied_text(names: str, best: Result, tied: Sequence[Result]) -> str:
    """Return `a and b are as fast as each other`; `best` is the fastest of them."""
    if all(is_as_fast(best, result) for result in tied):
        return f"{names} are as fast as each other"
    return f"{names} tie"


def is_as_fast(best: Result, other: Result) -> bool:
    """Say whether the difference does not matter, wherever in its 95 % CI it is."""
    ratio = (best.throughput or 0.0) / (other.throughput or 1.0)
    low, high = known_ratio_interval(best.repeats, other.repeats)
    return min(ratio, low or ratio) >= 1 / CLOSE and max(ratio, high or ratio) <= CLOSE


def undecided(unknown: Sequence[str], out: Sequence[str], *, can_repeat: bool = True) -> list[str]:
    """Return what stays open against single runs, and against those that a race put out.
    `can_repeat`: they are trials of ours.
    """
    texts = []
    if unknown:
        how = " (sweep.repeats=3 would be)" if can_repeat else ""
        texts.append(f"{SINGLE_RUN} against {listed(unknown)}{how}")
    if out:
        texts.append(f"{listed(out)} put out of a race, with too few repeats to be conclusive")
    return texts
