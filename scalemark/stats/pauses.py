"""Pauses: steps, or runs of steps, that take far longer or shorter than the others of a process."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scalemark.stats.median_deviation import median_deviation
from scalemark.stats.student import log_quantile

MOST_DEVIATIONS = 5.0  # from the median, in standard deviations by the median deviation
LARGEST_SHARE = 0.2  # of all steps
_NORMAL_QUANTILE = 1.96  # of a 95 % interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Pauses:
    """The steps of a process, taken apart."""

    smooth: NDArray[np.float64]  # of each step, where pauses have what their neighbors suggest
    # of each pause, which may be several steps in a row, how much time it took beyond that; below 0
    # it took less
    extra: NDArray[np.float64]


def pauses(around: NDArray[np.float64]) -> Pauses:
    """Take pauses out of a series without trend; of more than a fifth of steps there are none."""
    from_median = np.abs(around - np.median(around))
    is_pause = from_median > MOST_DEVIATIONS * median_deviation(around)
    if not 0 < is_pause.mean() <= LARGEST_SHARE:
        return Pauses(smooth=around, extra=np.empty(0))
    time = np.arange(len(around))
    smooth = around.copy()
    smooth[is_pause] = np.interp(time[is_pause], time[~is_pause], around[~is_pause])
    begins = is_pause & ~np.concatenate([[False], is_pause[:-1]])
    extra = np.add.reduceat(around - smooth, np.flatnonzero(begins))  # 0 between pauses
    return Pauses(smooth=smooth, extra=extra)


def reaches(extra: NDArray[np.float64]) -> tuple[float, float]:
    """Return how much less, and how much more, pauses may take in all if a process runs on.

    They are the ends of a 95 % interval of a sum of rare events that are not alike (Fay & Feuer
    1997, doi:10.1002/(SICI)1097-0258(19970415)16:7<791::AID-SIM500>3.0.CO;2-#), as if one usual
    pause more had come instead of the longest, which grows with how many came, and with the
    quantile of t instead of the normal one, since few do not tell how long pauses are. Both
    are 0 where none came.
    """
    less, more = _reaches(extra[extra > 0])
    more_of_short, less_of_short = _reaches(-extra[extra < 0])
    return math.hypot(less, less_of_short), math.hypot(more, more_of_short)


def _reaches(extra: NDArray[np.float64]) -> tuple[float, float]:
    """Return those of pauses that all take longer."""
    num = len(extra)
    if num == 0:
        return 0.0, 0.0
    total, squares = float(extra.sum()), float(np.dot(extra, extra))
    quantile = math.exp(log_quantile(num + 2))
    low = _gamma(total, squares, -_NORMAL_QUANTILE)
    usual = squares / num  # of one, squared
    high = _gamma(total + math.sqrt(usual), squares + usual, quantile)
    return total - low, high - total


def _gamma(mean: float, variance: float, quantile: float) -> float:
    """Return the quantile of a gamma distribution at a normal one (Wilson & Hilferty 1931)."""
    ninth = variance / mean**2 / 9
    return mean * max(0.0, 1 - ninth + quantile * math.sqrt(ninth)) ** 3
