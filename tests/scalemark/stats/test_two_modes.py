"""Repeats of two speeds are recognized, and those that merely scatter are not."""

import numpy as np
import pytest

from scalemark.stats.welch import two_modes


@pytest.mark.parametrize(
    ("speeds", "num_slow"),
    [
        ([100.0, 105.1, 100.1, 105.0], 2),
        ([105.0, 100.0, 104.8, 100.3, 105.2, 104.9], 2),
        ([100.0, 99.5, 100.5, 99.8, 100.2, 104.0, 103.5, 104.3], 5),
    ],
)
def test_two_speeds_are_recognized(speeds, num_slow):
    found = two_modes(speeds)
    assert (len(found.slow), sorted([*found.slow, *found.fast])) == (num_slow, sorted(speeds))


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
    assert two_modes(speeds) is None


def test_modes_without_any_scatter_are_modes():
    assert two_modes([100.0, 100.0, 105.0, 105.0]).fast == (105.0, 105.0)


@pytest.mark.parametrize("num", [4, 6, 10, 25])
def test_repeats_that_merely_scatter_have_modes_in_1_percent_of_trials(num):
    speeds = np.exp(0.03 * np.random.default_rng(num).normal(size=(1000, num))).tolist()
    assert sum(two_modes(one) is not None for one in speeds) <= 17  # and two standard errors


def test_modes_are_told_with_their_distance():
    words = two_modes([100.0, 105.1, 100.1, 105.0]).words
    assert words == (
        "two modes, 2 repeats at 100 to 100.1 and 2 at 105 to 105.1 (+5.0%): each process is in "
        "either, so few repeats tell little of how often"
    )
