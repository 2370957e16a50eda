"""Noise of step times, by seed: a process's own pace, autocorrelated noise, and drift."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping

import numpy as np

AUTOCORRELATION = 0.3  # of the noise of neighboring steps: steps are no independent samples


def process_factor(random: np.random.Generator, injected: Mapping[str, float]) -> float:
    """Draw the factor of all step times of one process: log-normal, of mean 1."""
    spread = _log_spread(injected.get("process_noise", 0.0))
    return math.exp(spread * random.standard_normal() - spread**2 / 2)


def step_factors(
    random: np.random.Generator, injected: Mapping[str, float], num_steps: int
) -> Iterator[float]:
    """Yield the factors of the steps of one process without end, of mean 1.

    The drift grows over `num_steps`, from half of it below the mean to half of it above.
    """
    spread, drift = _log_spread(injected.get("noise", 0.0)), injected.get("drift", 0.0)
    fresh = math.sqrt(1 - AUTOCORRELATION**2)
    noise = random.standard_normal()
    for number in itertools.count():
        passed = min(1.0, number / max(1, num_steps - 1))
        yield math.exp(spread * noise - spread**2 / 2) * (1 + drift * (passed - 0.5))
        noise = AUTOCORRELATION * noise + fresh * random.standard_normal()


def step_times(
    random: np.random.Generator, step_s: float, injected: Mapping[str, float], num_steps: int
) -> list[float]:
    """Draw the step times of one process, whose mean over all processes is `step_s`."""
    mean_s = step_s * process_factor(random, injected)
    factors = step_factors(random, injected, num_steps)
    return [mean_s * factor for factor in itertools.islice(factors, num_steps)]


def _log_spread(deviation: float) -> float:
    """Return the spread of the logarithm for a standard deviation over the mean."""
    return math.sqrt(math.log1p(deviation**2))
