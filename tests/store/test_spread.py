"""How far processes differ is drawn from what is thought before towards what was seen, and no further than that goes."""

import math

import pytest

from store.spread import MOST_FREEDOM, PRIOR_DEVIATION, PRIOR_FREEDOM, Spread, variance_of

NONE = Spread()


def test_before_anything_is_repeated_the_prior_speaks_alone():
    assert Spread.of([100.0]) == NONE
    variance, freedom = variance_of(NONE, NONE)
    assert (math.sqrt(variance), freedom) == (pytest.approx(PRIOR_DEVIATION), PRIOR_FREEDOM)


def test_many_quiet_contenders_outvote_the_prior():
    others = Spread(squares=1000 * 0.005**2, freedom=1000)
    variance, freedom = variance_of(NONE, others)
    assert (math.sqrt(variance), freedom) == (pytest.approx(0.005, rel=0.1), MOST_FREEDOM)


def test_a_contender_that_is_itself_unsteady_is_believed_to_be():
    others = Spread(squares=1000 * 0.005**2, freedom=1000)
    own = Spread.of([100.0, 120.0, 95.0, 125.0])
    variance, _ = variance_of(own, others)
    assert 0.03 < math.sqrt(variance) < 0.15


def test_the_spread_of_all_without_one_is_that_of_the_others():
    one, other = Spread.of([100.0, 101.0, 99.0]), Spread.of([50.0, 55.0])
    left = Spread.sum([one, other]).without(one)
    assert (left.squares, left.freedom) == (pytest.approx(other.squares), 1)


def test_the_spread_is_of_ratios_whatever_the_speed():
    assert Spread.of([100.0, 110.0]).squares == pytest.approx(Spread.of([1000.0, 1100.0]).squares)
