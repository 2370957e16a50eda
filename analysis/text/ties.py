"""Words results that repeats do not distinguish."""

from __future__ import annotations

from collections.abc import Sequence

from scalemark.text.wording import listed

CLOSE = 1.05  # times: less of a difference does not matter
LEVEL_UP_TO = 1.0005  # times: less of a difference is printed as none, 0.0%
SINGLE_RUN = "single run, not conclusive"


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
