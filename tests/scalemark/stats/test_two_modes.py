"""Repeats of two speeds are recognized, and those that merely scatter are not."""

import numpy as np
import pytest

from scalemark.stats.welch import has_two_modes


@pytest.mark.parametrize(
    "speeds",
    [
        [100.0, 105.1, 100.1, 105.0],
        [105.0, 100.0, 104.8, 100.3, 105.2, 104.9],
        [100.0, 99.5, 100.5, 99.8, 100.2, 104.0, 103.5, 104.3],
        [100.0, 100.0, 105.0, 105.0],  # without any scatter
    ],
)
def test_two_speeds_are_recognized(speeds):
    assert has_two_modes(speeds)


@pytest.mark.parametrize(
    "speeds",
    [
        [100.0],
        [100.0, 105.0, 105.1],
        [100.0, 101.0, 102.0, 103.0, 104.0],
        [100.0, 100.1, 100.2, 100.1, 105.0],
        [100.0] * 5,
        [100.0, 100.0, 100.1, 100.1],
    ],
)
def test_few_even_equal_and_one_outlying_repeat_are_no_modes(speeds):
    assert not has_two_modes(speeds)


@pytest.mark.parametrize("num", [4, 6, 10, 25])
def test_repeats_that_merely_scatter_have_modes_in_1_percent_of_trials(num):
    speeds = np.exp(0.03 * np.random.default_rng(num).normal(size=(1000, num))).tolist()
    assert sum(map(has_two_modes, speeds)) <= 17  # and two standard errors
