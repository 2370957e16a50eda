"""Spread, interval and drift of step durations, on data whose truth is known."""

import numpy as np
import pytest

from trainer import statistics


def test_jitter_is_the_scaled_median_absolute_deviation():
    assert statistics.jitter([1.0, 1.0, 2.0, 4.0, 8.0]) == pytest.approx(1.4826 * 1.0)


def test_p90_is_exceeded_by_a_tenth():
    assert statistics.p90(list(range(101))) == 90


def test_steps_that_become_slower_drift_and_noisy_ones_do_not():
    random = np.random.default_rng(4)
    noise = 0.01 * random.normal(size=40)
    assert statistics.drift(list(1.0 + noise)) == 0.0
    assert statistics.drift(list(np.linspace(1.0, 1.4, 40) + noise)) == pytest.approx(
        0.18, abs=0.03
    )


def test_few_steps_say_nothing_of_drift():
    assert statistics.drift([1, 1, 1, 9, 9, 9]) == 0.0
