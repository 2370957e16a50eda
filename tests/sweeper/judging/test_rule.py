"""When the verdict on a change is sure, and which side runs next."""

import math
from collections.abc import Sequence

import pytest

from sweeper.judging.rule import (
    Aim,
    ChangeVerdict,
    Runs,
    Side,
    attempts_to_verdict,
    decide,
    gain_of,
    least_attempts,
    most_runs,
    next_side,
)

AIM = Aim(level=0.001, margin=0.02)
# of a baseline around 100 that spreads by 1 %
QUIET = (100.0, 101.0, 99.0, 100.5, 99.5, 101.5, 98.5, 100.0, 101.0, 99.0)
DRIFTING = tuple(100.0 + place for place in range(10))


def order(earlier: Sequence[float], num: int) -> str:
    """Of the first runs: C the change, B the baseline."""
    runs = Runs(earlier=tuple(earlier))
    sides = ""
    for _ in range(num):
        side = next_side(runs)
        runs = runs.with_run(side, 100.0)
        sides += "C" if side is Side.CHANGE else "B"
    return sides


def test_sides_take_turns_in_being_first():
    assert order((), 10) == "CBBCCBBCCB"


def test_beside_earlier_runs_the_change_runs_alone_first():
    assert order(QUIET, 10) == "CCCBBCCBBC"


def test_on_a_machine_that_drifts_earlier_runs_do_not_count():
    assert order(DRIFTING, 4) == "CBBC"
    assert decide(Runs(change=(90.0,), earlier=DRIFTING), AIM) is None


def test_a_change_that_shows_nothing_is_given_up_after_one_run():
    assert decide(Runs(change=(100.2,), earlier=QUIET), AIM) is ChangeVerdict.NO_GAIN


def test_a_first_run_decides_nothing_without_earlier_runs():
    assert decide(Runs(change=(100.2,)), AIM) is None
    assert decide(Runs(change=(100.2,), earlier=QUIET[:7]), AIM) is None


def test_no_run_decides_nothing():
    assert decide(Runs(earlier=QUIET), AIM) is None


def test_a_win_takes_pairs_of_fresh_runs():
    """However far it is above the earlier runs: the machine may be another by now."""
    assert decide(Runs(change=(120.0, 121.0, 119.0), earlier=QUIET), AIM) is None
    runs = Runs(change=(120.0, 121.0, 119.0, 120.5), baseline=(100.0, 101.0), earlier=QUIET)
    assert decide(runs, AIM) is ChangeVerdict.BETTER


def test_a_faster_machine_makes_no_win():
    runs = Runs(change=(120.0, 121.0, 119.0, 120.5), baseline=(120.0, 119.0), earlier=QUIET)
    assert decide(runs, AIM) is not ChangeVerdict.BETTER


def test_a_smaller_level_takes_more_pairs():
    runs = Runs(change=(103.0, 104.0, 102.5, 103.5), baseline=(100.0, 101.0, 99.0, 100.0))
    assert decide(runs, Aim(level=0.05, margin=0.02)) is ChangeVerdict.BETTER
    assert decide(runs, AIM) is None


def test_a_change_that_is_much_slower_is_called_worse_once_that_is_sure():
    alone = Runs(change=(80.0,), earlier=QUIET)
    assert decide(alone, AIM) is None, "hopeless, and worth a few more runs"
    runs = Runs(change=(80.0, 81.0, 79.0, 80.5), baseline=(100.0, 101.0), earlier=QUIET)
    assert decide(runs, AIM) is ChangeVerdict.WORSE


def test_for_both_sides_the_interval_has_to_lie_within_the_margin():
    aim = Aim(level=0.001, margin=0.02, both_sides=True)
    few = Runs(change=(100.0, 100.1, 99.9), baseline=(100.1, 99.9, 100.0))
    assert decide(few, aim) is None
    many = Runs(change=few.change * 4, baseline=few.baseline * 4)
    assert decide(many, aim) is ChangeVerdict.NO_DIFFERENCE
    gain = gain_of(many)
    assert gain is not None
    assert gain.low is not None
    assert gain.high is not None
    assert -0.02 < gain.low < gain.value < gain.high < 0.02


def test_runs_that_are_all_alike_are_decided():
    assert decide(Runs(change=(100.0, 100.0), baseline=(100.0,)), AIM) is ChangeVerdict.NO_GAIN
    faster = Runs(change=(101.0,) * 8, baseline=(100.0,) * 8)
    assert decide(faster, AIM) is ChangeVerdict.BETTER


def test_a_gain_without_pairs_is_beside_the_earlier_runs():
    gain = gain_of(Runs(change=(102.0,), earlier=(100.0,) * 8 + (101.0, 99.0)))
    assert gain is not None
    assert (gain.value, gain.low) == (pytest.approx(0.02, abs=1e-3), None)
    assert gain_of(Runs(change=(102.0,))) is None


def test_the_first_pair_begins_with_the_last_run_alone():
    runs = Runs(change=(1.0, 2.0, 3.0, 4.0), baseline=(3.0, 2.0), earlier=QUIET)
    assert runs.differences == [0.0, math.log(2)]


def test_a_verdict_is_foreseen_as_if_runs_went_on_like_those_so_far():
    change, baseline = (103.0, 104.0, 102.5, 103.5), (100.0, 101.0, 99.0, 100.0)
    runs = Runs(change=change, baseline=baseline)
    num = attempts_to_verdict(runs, AIM)
    assert num is not None
    assert decide(Runs(change=change * 3, baseline=baseline * 3), AIM) is ChangeVerdict.BETTER
    assert 1 < num <= 16
    assert attempts_to_verdict(Runs(change=change, baseline=baseline[:1]), AIM) is None


def test_ten_attempts_are_enough_for_the_first_proposal():
    assert least_attempts(Runs(), 0.05 / 101) == 10
    assert least_attempts(Runs(earlier=QUIET), 0.05 / 101) == 6


def test_one_pair_beside_earlier_runs_that_drift_has_a_gain_without_an_interval():
    """Their differences said that one pair is enough for an interval, which then had no end."""
    runs = Runs(change=(103.0,), baseline=(104.0,), earlier=DRIFTING * 3)
    found = gain_of(runs)
    assert found is not None
    assert found.value == pytest.approx(-1 / 104)
    assert (found.low, found.high) == (None, None)
    assert decide(runs, Aim(level=0.001, margin=0.02, both_sides=True)) is None


@pytest.mark.parametrize("budget", [10, 11, 60])
@pytest.mark.parametrize("earlier", [(), QUIET])
def test_so_many_runs_are_planned_as_the_budget_allows(earlier, budget):
    nums = most_runs(Runs(earlier=earlier), budget)
    ran = order(earlier, budget)
    assert nums == {Side.CHANGE: ran.count("C"), Side.BASELINE: ran.count("B")}
    assert sum(nums.values()) == budget
