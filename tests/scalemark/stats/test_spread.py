"""How far processes differ is drawn from what is thought before towards what was seen, and no further than that goes."""

import math

import pytest

from scalemark.stats.welch import MOST_FREEDOM, PRIOR_DEVIATION, PRIOR_FREEDOM, Spread, variance_of

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


def test_a_part_that_was_counted_twice_is_refused():
    """A sum cannot spare more than it has: its degrees of freedom went below 0, and a variance was divided by 0."""
    one = Spread.of([100.0, 101.0, 99.0, 100.0])
    with pytest.raises(ValueError, match=r"freedom=-3.*: wanted 0 or more of each"):
        one.without(Spread.sum([one, one]))


def test_without_a_prior_and_without_others_the_own_repeats_speak_alone():
    own = Spread.of([100.0, 101.0, 99.0])
    variance, freedom = variance_of(own, NONE, prior_freedom=0)
    assert (variance, freedom) == (pytest.approx(own.squares / 2), 2)
    with pytest.raises(ValueError, match="the spread of processes is unknown"):
        variance_of(NONE, NONE, prior_freedom=0)
