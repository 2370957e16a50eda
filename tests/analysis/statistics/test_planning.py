"""How many more repeats would tell two sides apart: checked against simulation, and honest where it is not worth it."""

import math

import numpy as np
import pytest

from analysis.statistics.judgement import Answer, judge
from analysis.statistics.planning import plan, power
from analysis.statistics.sample import Sample


def test_more_repeats_are_planned_from_the_spread_over_processes(snapshot):
    found = plan(Sample.of([100, 101, 99]), Sample.of([97, 99, 98]))
    assert (found.more, found.at_worst) == (3, 8)
    assert found.words == snapshot


def test_a_difference_that_repeats_already_show_needs_no_more(snapshot):
    found = plan(Sample.of([100, 101, 99]), Sample.of([40, 41, 39]))
    assert found.more == 0
    assert found.words == snapshot


def test_it_says_when_no_number_of_repeats_is_worth_it(snapshot):
    found = plan(Sample.of([100, 110]), Sample.of([101, 110]))
    assert (found.more, found.at_worst) == (None, None)
    assert found.words == snapshot


def test_the_same_numbers_need_no_plan(snapshot):
    found = plan(Sample.of([100, 110]), Sample.of([110, 100]))
    assert found.more is None
    assert found.words == snapshot


def test_a_single_run_cannot_say_how_many_it_takes(snapshot):
    found = plan(Sample.of([100.0]), Sample.of([90.0, 91.0]))
    assert found.more is None
    assert found.words == snapshot


def test_without_any_spread_there_is_nothing_to_plan():
    assert plan(Sample.of([4.0, 4.0]), Sample.of([2.0, 2.0])).more == 0


def test_a_tie_always_needs_more_repeats():
    slow, fast = Sample.of([101.45, 98.33]), Sample.of([116.20, 116.28])
    assert judge(slow, fast).answer is Answer.TIE
    assert plan(slow, fast).more == 1


@pytest.mark.parametrize("times", [8.5, 9.5, 12.0, 40.0, 1e6])
@pytest.mark.parametrize("num", [3, 10])
def test_a_difference_that_nobody_would_overlook_is_found(num, times):
    spread = 0.01
    assert power((num, num), times * spread * math.sqrt(2 / num), (spread**2, spread**2)) > 0.99


def test_a_stricter_interval_takes_more_repeats():
    slow, fast = Sample.of([100, 101, 99]), Sample.of([97, 99, 98])
    usual, strict = plan(slow, fast).more, plan(slow, fast, level=0.05 / 91).more
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
            is Answer.DIFFERENT
        )
    expected = power(nums, difference, (spreads[0] ** 2, spreads[1] ** 2))
    assert np.mean(found) == pytest.approx(expected, abs=0.08)
