"""The error of a mean knows how long a series remembers, and how badly that is known."""

import numpy as np
import pytest
from scipy.signal import lfilter

from scalemark.stats.within_process import error_of_mean


def alike(correlation, num_values, seed=1):
    new = np.random.default_rng(seed).normal(size=num_values + 300)
    values = lfilter([1.0], [1.0, -correlation], new)[300:]
    return values - values.mean()


def test_of_white_noise_it_is_the_variance_by_their_number():
    values = alike(0.0, 1000)
    assert error_of_mean(values).variance == pytest.approx(values.var() / 1000, rel=0.1)


@pytest.mark.parametrize("num_values", [1999, 20_000])
def test_of_values_alike_it_is_that_of_their_long_run(num_values):
    """Average neighbors where there are more than 2,000 values; means tell the same."""
    expected = 1 / (1 - 0.9) ** 2 / num_values
    assert error_of_mean(alike(0.9, num_values)).variance == pytest.approx(expected, rel=0.3)


def test_slow_noise_is_found_below_white_noise():
    """Neighbors correlate by 0.3, though half of the variance lasts for 50 values."""
    slow = lfilter([1.0], [1.0, -0.98], np.random.default_rng(3).normal(size=5300))[300:]
    values = slow / slow.std() + np.random.default_rng(4).normal(size=5000)
    by_neighbors = values.var() / 5000 * (1 + 0.5) / (1 - 0.5)
    assert error_of_mean(values - values.mean()).variance > 5 * by_neighbors


def test_what_remembers_for_long_has_few_degrees_of_freedom():
    found = [error_of_mean(alike(correlation, 100)).freedom for correlation in (0.0, 0.6, 0.95)]
    assert found == sorted(found, reverse=True)
    assert found[-1] < 4


def test_equal_values_have_no_error():
    assert error_of_mean(np.zeros(8)).variance == 0.0
