"""Steps that come at two speeds, as where a clock changes between two rates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

LEAST_GAP = 0.005  # between the two speeds, as a share; clocks change by more
LEAST_DISTANCE = 4.0  # of the two speeds, in standard deviations around them
SHORTEST_STAY = 3.0  # steps, on average; what is shorter is a pause, no speed
SMALLEST_SHARE = 0.1  # of all steps; what is rarer is a pause, too


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoSpeeds:
    """The two speeds of a process."""

    levels: NDArray[np.float64]  # of each step, the mean of those of its speed
    num_changes: int  # between them


def two_speeds(values: NDArray[np.float64]) -> TwoSpeeds | None:
    """Split the times of steps (steps,), as shares of their mean, into those of two speeds.

    They are split where the variance between both sides is greatest (Otsu 1979). A single step of
    the other side between two of one side counts with these. Returns None where the sides are not
    clearly apart, or where the steps of the rarer side come one by one or are few.
    """
    ordered = np.sort(values)
    num = len(values)
    below = np.arange(1, num)
    sums = np.cumsum(ordered)
    low, high = sums[:-1] / below, (sums[-1] - sums[:-1]) / (num - below)
    split = int(np.argmax(below * (num - below) * (high - low) ** 2))
    is_high = values > (ordered[split] + ordered[split + 1]) / 2
    is_high[1:-1] = is_high[:-2].astype(int) + is_high[1:-1] + is_high[2:] >= 2
    levels = np.where(is_high, high[split], low[split])
    num_changes = int(np.count_nonzero(is_high[1:] != is_high[:-1]))
    rarer = min(np.count_nonzero(is_high), np.count_nonzero(~is_high))
    num_stays = (num_changes + 1) / 2
    gap = high[split] - low[split]
    apart = gap >= max(LEAST_GAP, LEAST_DISTANCE * np.std(values - levels))
    is_pause = rarer < max(SHORTEST_STAY * num_stays, SMALLEST_SHARE * num)
    if num_changes and apart and not is_pause:
        return TwoSpeeds(levels=levels, num_changes=num_changes)
    return None
