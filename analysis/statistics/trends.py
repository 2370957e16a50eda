"""Finds trends in the steps of an attempt, which may merely resemble their neighbors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scalemark.stats.trend import without_trend
from scalemark.stats.within_process import FEWEST_STEPS

ALPHA = 0.01  # each attempt is asked
WORTH_TELLING = 0.01  # of growth over the attempt
_MOST_ALIKE = 0.95  # correlation of neighbors: with more, so few steps tell next to nothing
_MOST_VALUES = 250  # of more steps, medians of neighbors: all pairs of values are compared


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """The trend of the step times of one attempt."""

    # over the whole attempt, as a share of the median step; below 0: it became faster
    growth: float
    p: float  # chance of so much order, or more, without a trend

    @property
    def is_drift(self) -> bool:
        return self.p < ALPHA and abs(self.growth) >= WORTH_TELLING

    @property
    def words(self) -> str:
        how = "slower" if self.growth > 0 else "faster"
        return f"steps become {how} by {abs(self.growth):.1%} over the attempt"


def trend(durations_s: Sequence[float]) -> Trend | None:
    """Test by Kendall's tau against time and Theil and Sen's slope, which outliers do not move.

    Returns None for fewer than 8 steps.

    Steps that resemble their neighbors count as fewer, by the correlation of neighboring ranks
    (Hamed & Rao 1998). Without that a third of attempts whose neighbors correlate by 0.8 would seem
    to drift; with it 1 to 3 % (`benchmarks/coverage.py`).
    """
    from scipy.special import stdtr

    # their import takes longer than most commands do
    from scipy.stats import kendalltau, rankdata, theilslopes

    if len(durations_s) < FEWEST_STEPS:
        return None
    parts = np.array_split(np.asarray(durations_s), min(len(durations_s), _MOST_VALUES))
    values = np.array([np.median(part) for part in parts])
    n = len(values)
    if np.ptp(values) == 0:
        return Trend(growth=0.0, p=1.0)
    alike = _correlation(without_trend(rankdata(values)))
    stretched = (1 + alike) / (1 - alike)
    variance = 2 * (2 * n + 5) / (9 * n * (n - 1)) * stretched
    away = abs(float(kendalltau(np.arange(n), values).statistic)) / math.sqrt(variance)
    slope = float(theilslopes(values).slope)
    return Trend(
        growth=slope * (n - 1) / float(np.median(values)),
        p=2 * float(stdtr(max(n / stretched - 2, 1.0), -away)),
    )


def _correlation(around: NDArray[np.float64]) -> float:
    """Return the correlation of neighbors in a series without trend and mean, 0 or more.

    It is corrected for what the trend has taken away.
    """
    power = float(np.dot(around, around))
    if power == 0:
        return 0.0
    found = float(np.dot(around[1:], around[:-1])) / power
    return min(max(found + (2 + 4 * found) / len(around), 0.0), _MOST_ALIKE)
