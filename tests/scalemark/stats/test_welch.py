"""Intervals and evidence hold what they promise, of few repeats and however often somebody looks."""

import math

import numpy as np
import pytest

from scalemark.stats.welch import (
    MOST_FREEDOM,
    PRIOR_DEVIATION,
    PRIOR_FREEDOM,
    Spread,
    always_valid_interval,
    has_two_modes,
    level_of,
    log_evidence,
    most_log_evidence,
    variance_of,
)

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


def share_ever_sure(gain: float, num_idle: int, num: int = 200, num_looks: int = 12) -> float:
    """Of series that are looked at after each pair, in spreads of 1."""
    rng = np.random.default_rng(7)
    num_sure = 0
    for _ in range(num):
        differences = list(gain + rng.standard_normal(num_looks))
        idle = list(rng.standard_normal(num_idle))
        looks = (log_evidence(differences[: look + 1], idle) for look in range(num_looks))
        num_sure += any(look >= math.log(20) for look in looks)
    return num_sure / num


@pytest.mark.parametrize("num_idle", [0, 5])
def test_without_a_gain_looking_after_each_pair_is_rarely_sure(num_idle: int):
    assert share_ever_sure(0.0, num_idle) <= 0.05
    assert share_ever_sure(-0.3, num_idle) <= 0.05


@pytest.mark.parametrize("num_idle", [0, 5])
def test_a_gain_as_large_as_the_noise_is_found(num_idle: int):
    assert share_ever_sure(1.4, num_idle) > 0.8


def test_one_difference_has_no_evidence():
    assert log_evidence([0.1], [0.001] * 20) == 0
    assert log_evidence([]) == 0


def test_one_slow_run_of_the_baseline_is_no_evidence():
    """With 20 quiet differences of the baseline itself, one of ten spreads would be proof."""
    idle = [0.01, -0.01] * 10
    assert log_evidence([0.1, 0.0, 0.0], idle) < 0
    assert log_evidence([0.1, 0.1, 0.0], idle) > math.log(1000)


def test_the_unit_does_not_matter():
    differences, idle = [0.02, 0.03, 0.01], [0.01, -0.02]
    in_percent = log_evidence([100 * one for one in differences], [100 * one for one in idle])
    assert in_percent == pytest.approx(log_evidence(differences, idle))


def test_differences_that_are_all_alike_reach_the_most():
    assert log_evidence([0.02] * 4, [0.0] * 3) == pytest.approx(most_log_evidence(4, 3))


def test_many_pairs_of_a_loss_are_evidence_against_a_gain():
    """The most that `--budget` allows, whose integrand has powers beyond floating point."""
    assert log_evidence([-0.02] * 500, [0.0] * 20) < -100
    assert log_evidence([0.02] * 500, [0.0] * 20) > 1000


def test_at_the_ends_of_the_interval_the_evidence_is_just_enough():
    differences, idle = [0.02, 0.03, 0.01, 0.025], [0.01, -0.012, 0.004]
    interval = always_valid_interval(differences, idle)
    assert interval is not None
    low, high = interval
    assert low < np.mean(differences) < high
    above = log_evidence([one - low for one in differences], idle)
    below = log_evidence([high - one for one in differences], idle)
    assert (above, below) == pytest.approx((math.log(40), math.log(40)), abs=1e-3)


def test_too_few_differences_have_no_interval():
    assert always_valid_interval([0.02, 0.021]) is None


def test_one_difference_has_no_interval_however_many_idle_ones():
    idle = [0.002] * 15
    assert most_log_evidence(1, len(idle)) == 0
    assert always_valid_interval([0.01], idle) is None
    assert always_valid_interval([0.01, 0.011], idle) is not None


def test_a_series_without_wins_never_spends_more_than_is_allowed():
    spent = sum(level_of(number, 0, 0.05) for number in range(1, 100_001))
    assert 0.049 < spent < 0.05


def test_each_win_before_raises_the_level_as_much():
    assert level_of(7, 3, 0.05) == pytest.approx(4 * level_of(7, 0, 0.05))


def test_the_level_is_a_probability():
    assert level_of(1, 10**6, 0.5) == 1


def test_of_all_wins_few_are_false_by_e_values_that_spend_all_they_may():
    """An e-value of 1 / level with the probability `level` is the worst that there is."""
    rng = np.random.default_rng(3)
    shares = []
    for _ in range(200):
        num_wins = num_false = 0
        for number in range(1, 401):
            is_null = number % 10 > 0
            is_win = not is_null or rng.random() < level_of(number, num_wins, 0.2)
            num_wins += is_win
            num_false += is_win and is_null
        shares.append(num_false / max(1, num_wins))
    assert 0.02 < np.mean(shares) <= 0.2
