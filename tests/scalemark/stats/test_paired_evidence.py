"""Evidence that one side is faster holds what it promises, however often somebody looks."""

import math

import numpy as np
import pytest

from scalemark.stats.welch import (
    always_valid_interval,
    log_evidence,
    most_log_evidence,
)


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
