"""Who is out of a race, when the verdict on a change is sure, and which side runs next."""

import math
from collections.abc import Sequence

import pytest

from scalemark.stats.welch import Spread
from sweeper.early_stopping.rule import (
    Aim,
    ChangeVerdict,
    Contender,
    JudgedSide,
    Ruling,
    Runs,
    decide,
    gain_of,
    least_attempts,
    most_runs,
    next_side,
    rule_race,
)

NONE = Spread()
QUIET_RACES = Spread(squares=60 * 0.01**2, freedom=60)  # processes of other races differ by 1 %


def race(
    speeds: dict[str, list[float]],
    most_repeats: int = 5,
    spread: Spread = NONE,
    failures: dict[str, str] | None = None,
) -> Ruling:
    """Race contenders by their names, all other repeats of which are still to come."""
    contenders = []
    for name, measured in speeds.items():
        contender = Contender(
            trial_id=name,
            name=name,
            speeds=tuple(measured),
            num_left=max(0, most_repeats - len(measured)),
            failure=(failures or {}).get(name, ""),
        )
        contenders.append(contender)
    total = Spread.sum([spread, *map(Spread.of, speeds.values())])
    return rule_race(contenders, total, most_repeats)


@pytest.mark.parametrize(
    ("settings", "speeds", "out", "wanted"),
    [
        # nothing is judged before all have run once
        ({}, {"a": [100], "b": [10], "c": []}, "", (4, 4, 5)),
        # a wide gap decides after one repeat, a narrow one after two where processes are alike
        ({}, {"a": [100], "b": [60], "c": [90]}, "b", (4, 0, 4)),
        ({"spread": QUIET_RACES}, {"a": [100], "b": [60], "c": [90]}, "b", (4, 0, 4)),
        (
            {"spread": QUIET_RACES},
            {"a": [100] * 2, "b": [60], "c": [90] * 2},
            "bc",
            (0, 0, 0),
        ),
        # the one that is left runs twice, so that it has an interval
        ({"spread": QUIET_RACES}, {"a": [100], "b": [40]}, "b", (1, 0)),
        ({"spread": QUIET_RACES}, {"a": [100, 101], "b": [40]}, "b", (0, 0)),
        # close ones run all their repeats, and are a tie
        ({}, {"a": [100, 102, 99, 101], "b": [101, 99, 100, 102]}, "", (1, 1)),
        ({}, {"a": [100, 102, 99, 101, 100], "b": [101, 99, 100, 102, 99]}, "", (0, 0)),
        (
            {"most_repeats": 2},
            {"a": [100, 100], "b": [100, 100], "c": [100, 100]},
            "",
            (0, 0, 0),
        ),
        # who fails before it completed anything is out; who fails later stays with what it has
        ({"failures": {"c": "hung"}}, {"a": [100], "b": [99], "c": []}, "c", (4, 4, 0)),
        ({"failures": {"b": "failed"}}, {"a": [100, 101], "b": [99]}, "", (3, 4)),
        ({"failures": {"b": "failed"}}, {"a": [100], "b": []}, "b", (1, 0)),
        ({"failures": {"a": "hung", "b": "hung"}}, {"a": [], "b": []}, "ab", (0, 0)),
        # more repeats than asked for are no harm
        ({"most_repeats": 2}, {"a": [100, 101, 99, 100], "b": [100.5]}, "", (0, 1)),
        # a leader that alone was repeated is not compared with itself: a bug
        ({"most_repeats": 10}, {"a": [100, 102, 101, 100], "b": [99]}, "", (6, 9)),
        ({"most_repeats": 10}, {"a": [100, 102, 101, 100], "b": [50]}, "b", (0, 0)),
    ],
)
def test_a_race_runs_what_could_still_lead(settings, speeds, out, wanted):
    ruling = race(speeds, **settings)
    assert "".join(ruling.out) == out
    assert tuple(ruling.wanted.values()) == wanted
    assert ruling.is_over == (not any(wanted))
    for factor in (1e-6, 1e6):  # units do not matter
        scaled = {name: [speed * factor for speed in own] for name, own in speeds.items()}
        assert race(scaled, **settings).wanted == ruling.wanted


def test_who_could_hardly_lead_is_out_though_it_may_be_chance():
    steady = {"a": [100.0, 101.0, 100.5, 100.4], "b": [98.9, 99.7, 99.2, 99.3]}
    noisy = Spread(squares=60 * 0.012**2, freedom=60)
    assert race({name: speeds[:2] for name, speeds in steady.items()}, spread=noisy).out == {}
    ruling = race(steady, spread=noisy)
    assert ruling.out == {
        "b": "race: 1.2 % behind a after 4 repeats; the others would hardly make it lead"
    }
    wide = race({"a": [100.0], "b": [60.0], "c": [90.0]})
    assert wide.out["b"].startswith("race: 40.0 % behind a after 1 repeat; ")


def test_a_leader_without_repeats_to_come_is_still_compared_with():
    contenders = [
        Contender(trial_id="a", name="a", speeds=(100.0,), num_left=0, failure="failed"),
        Contender(trial_id="b", name="b", speeds=(50.0, 50.5), num_left=3),
        Contender(trial_id="c", name="c", speeds=(99.0, 100.0), num_left=3),
    ]
    ruling = rule_race(contenders, QUIET_RACES, 5)
    assert ruling.out.keys() == {"b"}
    assert ruling.wanted == {"a": 0, "b": 0, "c": 3}


AIM = Aim(level=0.001, margin=0.02)
# of a baseline around 100 that spreads by 1 %
QUIET = (100.0, 101.0, 99.0, 100.5, 99.5, 101.5, 98.5, 100.0, 101.0, 99.0)
DRIFTING = tuple(100.0 + place for place in range(10))
BETTER, WORSE, NO_GAIN = ChangeVerdict.BETTER, ChangeVerdict.WORSE, ChangeVerdict.NO_GAIN
FASTER = (120.0, 121.0, 119.0, 120.5)
CLOSE, BASE = (103.0, 104.0, 102.5, 103.5), (100.0, 101.0, 99.0, 100.0)


def order(earlier: Sequence[float], num: int) -> str:
    """Return the sides of the first runs: C the change, B the baseline."""
    runs, sides = Runs(earlier=tuple(earlier)), ""
    for _ in range(num):
        side = next_side(runs)
        runs = runs.with_run(side, 100.0)
        sides += "C" if side is JudgedSide.CHANGE else "B"
    return sides


@pytest.mark.parametrize(
    ("earlier", "sides"),
    [((), "CBBCCBBCCB"), (QUIET, "CCCBBCCBBC"), (QUIET[:7], "CBBC"), (DRIFTING, "CBBC")],
)
def test_sides_take_turns_and_the_change_runs_alone_beside_steady_earlier_runs(earlier, sides):
    assert order(earlier, len(sides)) == sides


@pytest.mark.parametrize(
    ("runs", "aim", "verdict"),
    [
        # a change that shows nothing is given up after one run, beside enough earlier ones
        (Runs(change=(100.2,), earlier=QUIET), AIM, NO_GAIN),
        (Runs(change=(100.2,)), AIM, None),
        (Runs(change=(100.2,), earlier=QUIET[:7]), AIM, None),
        (Runs(change=(90.0,), earlier=DRIFTING), AIM, None),
        (Runs(earlier=QUIET), AIM, None),
        # a win takes pairs of fresh runs, however far it is above the earlier ones
        (Runs(change=FASTER[:3], earlier=QUIET), AIM, None),
        (Runs(change=FASTER, baseline=(100.0, 101.0), earlier=QUIET), AIM, BETTER),
        (Runs(change=FASTER, baseline=(120.0, 119.0), earlier=QUIET), AIM, None),
        # a smaller level takes more pairs
        (Runs(change=CLOSE, baseline=BASE), Aim(level=0.05, margin=0.02), BETTER),
        (Runs(change=CLOSE, baseline=BASE), AIM, None),
        # a much slower one is hopeless, and worth a few more runs to call it worse
        (Runs(change=(80.0,), earlier=QUIET), AIM, None),
        (
            Runs(change=(80.0, 81.0, 79.0, 80.5), baseline=(100.0, 101.0), earlier=QUIET),
            AIM,
            WORSE,
        ),
        # runs that are all alike
        (Runs(change=(100.0, 100.0), baseline=(100.0,)), AIM, NO_GAIN),
        (Runs(change=(101.0,) * 8, baseline=(100.0,) * 8), AIM, BETTER),
    ],
)
def test_a_verdict_comes_once_it_is_sure(runs, aim, verdict):
    assert decide(runs, aim) is verdict


def test_the_gain_is_that_of_pairs_and_else_beside_earlier_runs():
    pairs = Runs(change=(1.0, 2.0, 3.0, 4.0), baseline=(3.0, 2.0), earlier=QUIET)
    assert pairs.differences == [0.0, math.log(2)], "the first begins with the last run alone"
    many = gain_of(Runs(change=(100.0, 100.1, 99.9) * 4, baseline=(100.1, 99.9, 100.0) * 4))
    assert many is not None
    assert many.low is not None
    assert many.high is not None
    assert -0.02 < many.low < many.value < many.high < 0.02
    alone = gain_of(Runs(change=(102.0,), earlier=(100.0,) * 8 + (101.0, 99.0)))
    assert alone is not None
    assert (alone.value, alone.low) == (pytest.approx(0.02, abs=1e-3), None)
    assert gain_of(Runs(change=(102.0,))) is None


def test_one_pair_beside_earlier_runs_that_drift_has_a_gain_without_an_interval():
    """Their differences said that one pair is enough for an interval, which then had no end."""
    runs = Runs(change=(103.0,), baseline=(104.0,), earlier=DRIFTING * 3)
    gain = gain_of(runs)
    assert gain is not None
    assert (gain.value, gain.low, gain.high) == (pytest.approx(-1 / 104), None, None)


def test_ten_attempts_are_enough_for_the_first_proposal():
    assert least_attempts(Runs(), 0.05 / 101) == 10
    assert least_attempts(Runs(earlier=QUIET), 0.05 / 101) == 6


@pytest.mark.parametrize("budget", [10, 11, 60])
@pytest.mark.parametrize("earlier", [(), QUIET])
def test_so_many_runs_are_planned_as_the_budget_allows(earlier, budget):
    ran = order(earlier, budget)
    nums = most_runs(Runs(earlier=earlier), budget)
    assert nums == {JudgedSide.CHANGE: ran.count("C"), JudgedSide.BASELINE: ran.count("B")}
