"""Why no two steps take the same time: a process's own pace, noise that lasts for a few steps,
drift. A function of its seed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping

import numpy as np

AUTOCORRELATION = 0.3  # of the noise of neighboring steps: steps are no independent samples


def process_factor(random: np.random.Generator, planted: Mapping[str, float]) -> float:
    """What the step times of one process are multiplied with; log-normal, of mean 1."""
    spread = _log_spread(planted.get("process_noise", 0.0))
    return math.exp(spread * random.standard_normal() - spread**2 / 2)


def step_factors(
    random: np.random.Generator, planted: Mapping[str, float], num_steps: int
) -> Iterator[float]:
    """What the steps of one process are multiplied with, without end; of mean 1.

    The drift grows over `num_steps`, from half of it below the mean to half of it above, and stays
    there.
    """
    spread, drift = _log_spread(planted.get("noise", 0.0)), planted.get("drift", 0.0)
    fresh = math.sqrt(1 - AUTOCORRELATION**2)
    noise = random.standard_normal()
    for number in itertools.count():
        passed = min(1.0, number / max(1, num_steps - 1))
        yield math.exp(spread * noise - spread**2 / 2) * (1 + drift * (passed - 0.5))
        noise = AUTOCORRELATION * noise + fresh * random.standard_normal()


def step_times(
    random: np.random.Generator, step_s: float, planted: Mapping[str, float], num_steps: int
) -> list[float]:
    """Durations of the steps of one process whose steps take `step_s` in the mean over all
    processes, seconds.
    """
    mean_s = step_s * process_factor(random, planted)
    return [
        mean_s * factor
        for factor in itertools.islice(step_factors(random, planted, num_steps), num_steps)
    ]


def _log_spread(deviation: float) -> float:
    """Of the logarithm, where the standard deviation over the mean is this."""
    return math.sqrt(math.log1p(deviation**2))
