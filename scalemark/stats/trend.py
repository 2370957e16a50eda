"""The straight line through a series."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def without_trend(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what a straight line leaves."""
    time = np.arange(len(values)) - (len(values) - 1) / 2
    slope = np.dot(values, time) / np.dot(time, time)
    left: NDArray[np.float64] = values - values.mean() - slope * time
    return left
