"""How many more repeats would tell two sides apart: checked against simulation, and honest where it is not worth it."""

import math

import numpy as np
import pytest

from analysis.statistics.judgement import Decision, judge
from analysis.statistics.planning import more_repeats, power
from analysis.statistics.sample import Sample


@pytest.mark.parametrize(
    ("a", "b", "more"),
    [
        ([100, 101, 99], [97, 99, 98], 3),
        ([100, 101, 99], [40, 41, 39], 0),
        ([4.0, 4.0], [2.0, 2.0], 0),
        ([100, 110], [101, 110], None),  # more than are worth it
        ([100, 110], [110, 100], None),  # no number of repeats would show a difference
        ([100.0], [90.0, 91.0], None),  # the spread of a single run is not known
    ],
)
def test_more_repeats_are_planned_from_the_spread_over_processes(a, b, more):
    assert more_repeats(Sample.of(a), Sample.of(b)) == more


def test_a_tie_always_needs_more_repeats():
    slow, fast = Sample.of([101.45, 98.33]), Sample.of([116.20, 116.28])
    assert judge(slow, fast).answer is Decision.TIE
    assert more_repeats(slow, fast) == 1


@pytest.mark.parametrize("times", [8.5, 9.5, 12.0, 40.0, 1e6])
@pytest.mark.parametrize("num", [3, 10])
def test_a_difference_that_nobody_would_overlook_is_found(num, times):
    spread = 0.01
    assert power((num, num), times * spread * math.sqrt(2 / num), (spread**2, spread**2)) > 0.99


def test_a_stricter_interval_takes_more_repeats():
    slow, fast = Sample.of([100, 101, 99]), Sample.of([97, 99, 98])
    usual, strict = more_repeats(slow, fast), more_repeats(slow, fast, level=0.05 / 91)
    assert usual is not None
    assert strict is not None
    assert strict > usual


@pytest.mark.parametrize(
    ("nums", "spreads", "difference"),
    [
        ((4, 4), (0.02, 0.02), 0.05),
        ((6, 6), (0.02, 0.02), 0.03),
        ((10, 10), (0.02, 0.02), 0.02),
        ((6, 6), (0.03, 0.003), 0.04),
        ((3, 8), (0.02, 0.02), 0.05),
    ],
)
def test_the_power_is_the_share_of_comparisons_that_find_the_difference(nums, spreads, difference):
    random = np.random.default_rng(5)
    found = []
    for _ in range(400):
        a, b = (
            np.exp(random.normal(size=num) * spread)
            for num, spread in zip(nums, spreads, strict=True)
        )
        found.append(
            judge(Sample.of((a * math.exp(difference)).tolist()), Sample.of(b.tolist())).answer
            is Decision.DIFFERENT
        )
    expected = power(nums, difference, (spreads[0] ** 2, spreads[1] ** 2))
    assert np.mean(found) == pytest.approx(expected, abs=0.08)
