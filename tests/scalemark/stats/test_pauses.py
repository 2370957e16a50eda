"""Pauses are taken out of a series, and their reach knows how few of them there were."""

import numpy as np
import pytest

from scalemark.stats.within_process import pauses, reaches


def noise(num_steps=100, deviation=0.01):
    return deviation * np.random.default_rng(1).normal(size=num_steps)


def test_steps_in_a_row_are_one_pause():
    around = noise()
    around[[10, 11, 12, 40]] += [1.0, 2.0, 0.5, 1.0]
    found = pauses(around)
    assert found.extra == pytest.approx([3.5, 1.0], abs=0.1)
    assert np.abs(found.smooth).max() < 0.05


def test_a_run_that_is_shorter_takes_less_time():
    around = noise()
    around[50:60] -= 0.2
    assert pauses(around).extra == pytest.approx([-2.0], abs=0.1)


@pytest.mark.parametrize("paused", [[], list(range(0, 100, 3))])
def test_no_pause_and_too_many_of_them_are_none(paused):
    around = noise()
    around[paused] += 1.0
    found = pauses(around)
    assert (len(found.extra), found.smooth.tolist()) == (0, around.tolist())


def test_without_pauses_nothing_is_added():
    assert reaches(np.empty(0)) == (0.0, 0.0)


def test_fewer_pauses_tell_less_of_how_often_they_come():
    shares = [reaches(np.ones(num))[1] / num for num in (1, 3, 10, 100)]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] > 5
    assert shares[-1] == pytest.approx(0.2, abs=0.05)


def test_what_pauses_may_take_less_is_less_than_they_took():
    for num in (1, 2, 5):
        less, more = reaches(np.ones(num))
        assert 0.5 * num < less < num < more


def test_of_shorter_steps_both_reaches_are_turned():
    less, more = reaches(np.array([1.0, 2.0]))
    assert reaches(np.array([-1.0, -2.0])) == pytest.approx((more, less))


def test_the_reach_holds_the_rate_of_pauses_that_are_not_alike():
    """Of 4 pauses on average; of the normal quantile it would be 87 %."""
    random = np.random.default_rng(2)
    nums = random.poisson(4.0, 1000)
    held = total = 0
    for num in nums[nums > 0]:
        extra = random.exponential(1.0, num)
        less, more = reaches(extra)
        held += extra.sum() - less <= 4.0 <= extra.sum() + more
        total += 1
    assert 0.90 <= held / total <= 0.97
