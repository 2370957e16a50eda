"""How far values lie from their median, whatever a few of them do."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_OF_NORMAL = 1.4826  # median absolute deviation -> standard deviation of a normal distribution


def median_deviation(values: Sequence[float] | NDArray[np.float64]) -> float:
    """Return 1.4826 x the median absolute deviation, as tf_cnn_benchmarks defines jitter."""
    return _OF_NORMAL * float(np.median(np.abs(np.asarray(values) - np.median(values))))
