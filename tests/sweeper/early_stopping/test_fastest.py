"""A budgeted sweep runs the most promising trial next, leaves out others, and reports its result."""

from scalemark.records.measurement import Outcome, State
from scalemark.records.trial import TrialSpec
from sweeper.early_stopping.budget import Budget
from sweeper.early_stopping.fastest import conclusions, make_searches, plan_line
from tests.programs import program
from tests.specs import small
from tests.sweeper.early_stopping.test_contests import Played, Shown
from tests.sweeper.loop.fakes import Loop, Script


def played(shown: dict[TrialSpec, list[Shown]]) -> tuple[Played, list[str]]:
    """Play with a budget that nothing exhausts; return what it says in the end, too."""
    sweep = Played(shown)
    budget = Budget(1e9, clock=lambda: 0.0)
    most_repeats = max(map(len, shown.values()))
    searches = make_searches(list(shown), most_repeats, sweep.read, budget, lambda spec: None)
    sweep.play(searches)
    return sweep, conclusions(searches, budget)


def curve(seed: int, *speeds: float | Outcome, repeats: int = 3) -> dict[TrialSpec, list[Shown]]:
    """Trials on 1, 2, 4, ... devices, all repeats of which show the same."""
    return {
        small(seed=seed, num_gpus=2**place): [speed] * repeats for place, speed in enumerate(speeds)
    }


def order(sweep: Played) -> list[tuple[int, int]]:
    return [(spec.seed, spec.num_gpus) for spec in sweep.ran]


FAST, SLOW = curve(1, 100.0, 190.0, 370.0, 740.0), curve(2, 90.0, 140.0, 200.0, 250.0)


def test_the_fewest_gpus_of_each_curve_run_first_and_bound_the_others():
    sweep, said = played(FAST | SLOW)
    ran = order(sweep)
    # 90 on one may become 720 on eight; 140 on two become 605 at most
    assert ran[:4] == [(1, 1), (2, 1), (1, 8), (2, 2)]
    assert set(ran[4:]) == {(1, 8)}, "only the leader is repeated"
    why = "budget: it could hardly be the fastest, by fewer GPUs of its curve"
    reasons = list(sweep.given_up.values())
    assert reasons.count(why) == 12
    assert sum(" % behind " in reason for reason in reasons) == 6
    assert all(reason.startswith("budget: ") for reason in reasons)
    assert said[0].endswith(
        "seed=1 x8, 740.0 images/s in 2 repeats; no other is likely to be faster"
    )
    assert said[1] == "budget: trivial: not tried: 4 of 8 trials; curves never measured: none"


def test_a_curve_that_bends_back_is_led_by_fewer_gpus():
    sweep, said = played(curve(1, 100.0, 195.0, 380.0, 150.0))
    assert "x4, 380.0 images/s" in said[0]
    assert order(sweep) == [(1, 1), (1, 8), (1, 2), (1, 4), (1, 4)]


def test_equals_are_repeated_and_none_is_ruled_out():
    shown = {small(seed=1): [100.0, 101.0, 102.0], small(seed=2): [101.0, 102.0, 100.0]}
    sweep, said = played(shown | {small(seed=3): [10.0] * 3})
    assert sweep.num_run == {1: 3, 2: 3, 3: 1}
    assert "; not ruled out: replicated_none seed=" in said[0]


def test_with_one_repeat_the_search_alone_runs():
    shown = curve(1, 100.0, 190.0, repeats=1) | curve(2, 50.0, 60.0, repeats=1)
    sweep, said = played(shown)
    assert order(sweep) == [(1, 1), (2, 1), (1, 2)]
    assert said[0].endswith(
        "seed=1 x2, 190.0 images/s in 1 repeat; no other is likely to be faster"
    )


def test_what_fails_bounds_nothing_and_comes_last():
    failing = curve(2, *[Outcome.OUT_OF_MEMORY] * 4)
    sweep, said = played(failing | FAST)
    assert order(sweep)[:4] == [(2, 1), (1, 1), (1, 8), (2, 2)]
    assert order(sweep).count((2, 8)) == 1
    reasons = set(sweep.given_up.values())
    assert "budget: it ended as out_of_memory" in reasons
    assert "seed=1 x8" in said[0]
    assert played(failing)[1][0] == "budget: trivial: no trial has completed"


def test_only_what_works_on_the_same_is_compared():
    specs = [small(seed=1), small(seed=2), small(image_px=64), small(learning_rate=0.1)]
    programs = [program(1, zero, offload) for zero in (0, 2) for offload in ("cpu", "none")]
    budget = Budget(1e9, clock=lambda: 0.0)
    searches = make_searches([*specs, *programs], 3, lambda _: {}, budget, lambda _: None)
    assert [len(search.trial_ids) for search in searches] == [2, 1, 1, 4]
    assert plan_line(searches, 24).startswith("sweep.budget: surely runs 1 attempt; then, ")
    assert "fewest GPUs of 8 curves" in plan_line(searches, 24)
    assert plan_line(searches, 24).endswith("may drop 23 of 24 attempts")


SPECS = [small(seed=seed) for seed in (1, 2, 3)]
EQUAL = {seed: Script(throughput=100.0 + seed, takes_s=60.0) for seed in (1, 2, 3)}


def said_by(loop: Loop) -> list[str]:
    return conclusions(loop.contests, loop.budget)


def test_no_attempt_begins_that_would_end_too_late(stack):
    loop = Loop(stack, SPECS, EQUAL, repeats=3, sweep={"budget": "3.5m"})
    assert loop.run() == {State.COMPLETED: 3, State.SKIPPED: 6}
    assert loop.clock.now_s == 180.0
    assert said_by(loop)[-1] == "budget: spent 3 min of 4 min"
    assert "not ruled out: " in said_by(loop)[0]


def test_a_budget_shorter_than_a_trial_runs_one_and_says_so(stack):
    loop = Loop(stack, SPECS, EQUAL, repeats=3, sweep={"budget": "0.5m"})
    assert loop.run() == {State.COMPLETED: 1, State.SKIPPED: 8}
    fastest, untried, spent = said_by(loop)
    assert fastest.endswith("in 1 repeat; not sure, for 2 trials not tried may be faster")
    assert untried == (
        "budget: trivial: not tried: 2 of 3 trials; curves never measured: "
        "replicated_none seed=2, replicated_none seed=3"
    )
    assert spent == "budget: spent 60 s of 30 s; it is shorter than one trial, which ran alone"


def test_gpu_hours_bound_attempts_on_many_devices(stack):
    specs = [small(seed=seed, num_gpus=8) for seed in (1, 2, 3)]
    loop = Loop(stack, specs, EQUAL, repeats=3, sweep={"budget": "0.3gpu_h"})
    assert loop.run() == {State.COMPLETED: 2, State.SKIPPED: 7}
    assert said_by(loop)[-1] == "budget: spent 0.267 device-hours of 0.3 device-hours"


def test_a_crash_is_tried_again_and_its_time_counts(stack):
    scripts = EQUAL | {1: Script(throughput=200.0, takes_s=60.0, crashes=1)}
    loop = Loop(stack, SPECS, scripts, repeats=3, sweep={"budget": "4.5m"})
    states = loop.run()
    assert states[State.COMPLETED] == 3
    assert loop.orchestrator.ran.num_retries == 1
    assert loop.clock.now_s == 240.0


def test_the_rest_takes_as_long_as_the_budget_at_most(stack):
    left: list[float | None] = []
    loop = Loop(stack, SPECS, EQUAL, repeats=50, sweep={"budget": "10m"})
    loop.at[130.0] = lambda: left.append(loop.orchestrator._eta.left_s())
    loop.run()
    assert left == [600.0 - 130.0]
