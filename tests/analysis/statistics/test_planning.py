"""How many more repeats would tell two sides apart: checked against simulation, and honest where it is not worth it."""

import math

import numpy as np
import pytest

from analysis.statistics.judgement import Answer, judge
from analysis.statistics.planning import plan, power
from analysis.statistics.sample import Sample


def test_more_repeats_are_planned_from_the_spread_over_processes():
    found = plan(Sample.of([100, 101, 99]), Sample.of([97, 99, 98]))
    assert (found.more, found.at_worst) == (3, 8)
    assert (
        found.words
        == "3 more repeats of each, or 8 if they spread more than so few can tell, would show a difference of 2.0%, if it is there"
    )


def test_a_difference_that_repeats_already_show_needs_no_more():
    found = plan(Sample.of([100, 101, 99]), Sample.of([40, 41, 39]))
    assert (found.more, found.words) == (0, "so many repeats as there are show a factor of 2.5 in 80% of cases")


def test_it_says_when_no_number_of_repeats_is_worth_it():
    found = plan(Sample.of([100, 110]), Sample.of([101, 110]))
    assert (found.more, found.at_worst) == (None, None)
    assert found.words.startswith("no number of repeats that is worth it (up to 50 more of each) would show a difference of 0.5%")


def test_the_same_numbers_are_never_told_apart():
    assert (
        plan(Sample.of([100, 110]), Sample.of([110, 100])).words
        == "both are the same: no number of repeats would tell them apart"
    )


def test_one_process_cannot_say_how_many_it_takes():
    found = plan(Sample.of([100.0]), Sample.of([90.0, 91.0]))
    assert found.more is None
    assert (
        found.words == "how many repeats would tell, one process cannot say: run 2 more of each, and ask again (sweep.repeats=3)"
    )


def test_without_any_spread_there_is_nothing_to_plan():
    assert plan(Sample.of([4.0, 4.0]), Sample.of([2.0, 2.0])).more == 0


@pytest.mark.parametrize(("num", "difference"), [(4, 0.05), (6, 0.03), (10, 0.02)])
def test_the_planned_chance_is_the_share_of_simulated_comparisons_that_find_the_difference(num, difference):
    random, spread = np.random.default_rng(5), 0.02
    sides = np.exp(random.normal(size=(400, 2, num)) * spread + np.array([difference, 0])[:, None] + math.log(100))
    found = [judge(Sample.of(a.tolist()), Sample.of(b.tolist())).answer is Answer.DIFFERENT for a, b in sides]
    assert np.mean(found) == pytest.approx(power(num, num, difference, spread), abs=0.08)
