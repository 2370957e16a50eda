"""How far values lie from their median, whatever a few of them do."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

_OF_NORMAL = 1.4826  # median absolute deviation -> standard deviation of a normal distribution


def median_deviation(values: Sequence[float]) -> float:
    """Return 1.4826 x the median absolute deviation, as tf_cnn_benchmarks defines jitter.

    Raises StatisticsError where there are no values.
    """
    center = statistics.median(values)
    return _OF_NORMAL * statistics.median(abs(value - center) for value in values)
