"""Spread, interval and drift of step durations, on data whose truth is known."""

import numpy as np
import pytest

from trainer import statistics


def test_jitter_is_the_scaled_median_absolute_deviation():
    assert statistics.jitter([1.0, 1.0, 2.0, 4.0, 8.0]) == pytest.approx(1.4826 * 1.0)


def test_p90_is_exceeded_by_a_tenth():
    assert statistics.p90(list(range(101))) == 90


@pytest.mark.parametrize("correlation", [0.0, 0.5])
def test_the_interval_holds_the_true_mean_about_as_often_as_it_says(correlation):
    """200 series of 100 autocorrelated steps around 1.0; a plain bootstrap would fall far short for correlated ones."""
    random = np.random.default_rng(3)
    held = 0
    for _ in range(200):
        noise = random.normal(size=100)
        for step in range(1, 100):
            noise[step] += correlation * noise[step - 1]
        low, high = statistics.mean_interval(list(1.0 + 0.01 * noise))
        held += low <= 1.0 <= high
    assert 170 <= held <= 198


def test_equal_steps_have_an_interval_of_no_width():
    assert statistics.mean_interval([0.5] * 7) == (0.5, 0.5)


def test_steps_that_become_slower_drift_and_noisy_ones_do_not():
    random = np.random.default_rng(4)
    noise = 0.01 * random.normal(size=40)
    assert statistics.drift(list(1.0 + noise)) == 0.0
    assert statistics.drift(list(np.linspace(1.0, 1.4, 40) + noise)) == pytest.approx(0.18, abs=0.03)


def test_few_steps_say_nothing_of_drift():
    assert statistics.drift([1, 1, 1, 9, 9, 9]) == 0.0
