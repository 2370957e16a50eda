"""Two speeds of a process that took turns once or twice, and what only looks like them."""

import numpy as np
import pytest

from scalemark.stats.within_process import interval_within, two_speeds, without_trend


@pytest.mark.parametrize(
    ("num", "tau", "noise"), [(100, 20, 0.01), (300, 30, 0.005), (1000, 60, 0.005)]
)
def test_a_warm_up_that_fades_is_not_two_speeds(num, tau, noise):
    """A bug: its first steps were taken for another speed, and the interval left the true one out."""
    fades = 1 + 0.1 * np.exp(-np.arange(num) / tau)
    found = [
        fades * np.exp(np.random.default_rng(seed).normal(0, noise, num)) for seed in range(40)
    ]
    held = 0
    for values in found:
        low, high = interval_within(1 / values.mean(), values)
        held += low <= 1 <= high
    assert held >= 36


def test_a_run_that_reaches_the_end_has_all_of_it():
    """A bug: of more than 200 steps the last few were counted as the other speed."""
    values = np.concatenate([np.full(4998, 1.0), np.full(5042, 1.1)])
    values *= np.exp(np.random.default_rng(1).normal(0, 0.01, len(values)))
    found = two_speeds(values, without_trend(values))
    assert abs(found.rest).max() < 0.06
