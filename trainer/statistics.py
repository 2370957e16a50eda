"""What the step durations of one process tell: jitter, percentile, drift."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import numpy as np

JITTER_FACTOR = 1.4826  # median absolute deviation -> standard deviation of a normal distribution
NUM_MEDIANS_APART = 3.0  # standard errors between two medians that noise does not explain


def jitter(durations: Sequence[float]) -> float:
    """1.4826 x median absolute deviation, as tf_cnn_benchmarks defines jitter. Same unit as the
    durations.
    """
    center = statistics.median(durations)
    return JITTER_FACTOR * statistics.median(abs(duration - center) for duration in durations)


def p90(durations: Sequence[float]) -> float:
    return float(np.percentile(durations, 90))


def drift(durations: Sequence[float]) -> float:
    """Median of the second half over that of the first, less 1; 0 when noise explains the
    difference, or under 8 steps.
    """
    if len(durations) < 8:
        return 0.0
    halves = durations[: len(durations) // 2], durations[len(durations) // 2 :]
    first, second = map(statistics.median, halves)
    # The standard error of a median is 1.2533 times that of a mean, for normal noise.
    error = 1.2533 * sum(jitter(half) ** 2 / len(half) for half in halves) ** 0.5
    return second / first - 1 if abs(second - first) > NUM_MEDIANS_APART * error else 0.0
