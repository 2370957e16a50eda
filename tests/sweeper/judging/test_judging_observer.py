"""What a proposal runs and gives up: played without processes, in the order in which a sweep would run them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from scalemark.records.outcomes import Outcome
from store.reading.earlier import CompletedRepeat
from store.sweeps.ledger import OpenRepeat
from sweeper.devices.blocks import Blocks
from sweeper.judging.judging import Budget, Judging, Needs
from sweeper.judging.rule import Aim, ChangeVerdict, Runs, Side
from sweeper.loop.backlog import Backlog, planned_repeats
from sweeper.planning.plan import PlannedTrial
from tests.specs import small

CHANGE, BASELINE = small(seed=1), small(seed=2)
Shown = float | tuple[float, str] | Outcome | None
"""What a run brings: its speed, with what it counts, how it fails for good, or None: it is tried again."""


@dataclass(frozen=True, kw_only=True)
class Played:
    judging: Judging
    ran: str  # C the change, B the baseline
    given_up: list[str]  # why, for each repeat
    said: list[str]  # while it ran
    num_expected: list[int]  # still to run, at the end of each run


def play(
    change: list[Shown],
    baseline: list[Shown],
    budget: int = 20,
    num_repeats: int | None = None,
    *,
    limit_s: float | None = None,
    expected_s: float | None = None,
    waits_s: float = 0.0,
) -> Played:
    """A run of the change takes 30 s, one of the baseline 60 s; each first waits `waits_s`."""
    shown = {CHANGE.trial_id: iter(change), BASELINE.trial_id: iter(baseline)}
    completed: dict[str, list[CompletedRepeat]] = {one: [] for one in shown}
    now_s = 1000.0
    judging = Judging(
        trial_ids={Side.CHANGE: CHANGE.trial_id, Side.BASELINE: BASELINE.trial_id},
        aim=Aim(level=0.001, margin=0.02),
        budget=Budget(
            attempts=budget,
            limit_s=limit_s,
            expected_s=expected_s,
            clock=lambda: now_s,
        ),
        runs=Runs(),
        read=lambda: {one: tuple(found) for one, found in completed.items()},
    )
    trials = [
        PlannedTrial(spec=spec, num_repeats=num_repeats or budget) for spec in (CHANGE, BASELINE)
    ]
    backlog = Backlog(
        planned_repeats(list(_open(trials)), trials, lambda spec: None, {}, {}),
        Blocks(order=(0,), aligned=False, most_at_once=1),
        seed=1,
        packs=False,
    )
    given_up: list[str] = []
    said: list[str] = []

    def skip(keys: Sequence[int], reason: str) -> None:
        given_up.extend(reason for _ in keys)

    observer = judging.observe(backlog, skip, said.append)
    observer.steer_all()
    ran, num_expected = "", []
    while task := backlog.queue.pop(lambda num_gpus: True, (), 0.0):
        assert not backlog.queue, "one waits at a time"
        trial_id = backlog[task.key].open.trial_id
        ran += "C" if trial_id == CHANGE.trial_id else "B"
        observer.begun(task.key)
        found = next(shown[trial_id])
        duration_s = 30.0 if trial_id == CHANGE.trial_id else 60.0
        now_s += waits_s + duration_s
        if found is None:
            backlog.queue.push(task)
        elif not isinstance(found, Outcome):
            speed, item = found if isinstance(found, tuple) else (found, "images")
            completed[trial_id].append(CompletedRepeat(throughput=speed, item=item))
        final = found if isinstance(found, Outcome) else Outcome.COMPLETED
        observer.ended(task.key, None if found is None else final, duration_s)
        num_expected.append(len(observer.expected()))
        observer.steer(task.key)
    assert not observer.held_back, "nothing is left over"
    return Played(judging=judging, ran=ran, given_up=given_up, said=said, num_expected=num_expected)


def _open(trials: Sequence[PlannedTrial]) -> Iterator[OpenRepeat]:
    key = 0
    for trial in trials:
        for repeat in range(1, trial.num_repeats + 1):
            key += 1
            yield OpenRepeat(
                repeat_id=key, trial_id=trial.spec.trial_id, repeat=repeat, num_attempts=0
            )


FAST: list[Shown] = [110.0, 111.0, 109.0, 110.5, 110.0, 109.5, 110.0]
SLOW: list[Shown] = [100.0, 101.0, 99.0, 100.5, 99.5, 100.0, 100.5]


def test_runs_take_turns_until_the_verdict_is_sure():
    played = play(FAST, SLOW)
    assert played.judging.verdict is ChangeVerdict.BETTER
    assert played.ran == "CBBCCBBCCBBC"
    assert played.given_up == ["judge: better"] * 28


def test_all_that_may_still_run_counts_in_the_eta():
    played = play([Outcome.COMPLETED] * 4, SLOW, budget=6, num_repeats=3)
    assert played.num_expected == [5, 4, 3]


def test_the_budget_ends_it():
    played = play([102.0, 103.0, 102.0], [100.0, 101.0, 99.0], budget=5)
    assert (played.ran, played.judging.verdict) == ("CBBCC", ChangeVerdict.UNDECIDED)
    assert played.judging.why == "the budget is spent"
    assert played.judging.needs == Needs(attempts=17, seconds=17 * 45.0)
    assert not played.said, "of time nothing is said where it has no bound"


CLOSE: list[Shown] = [102.0, 103.0, 102.0, 102.5]
BASE: list[Shown] = [100.0, 101.0, 99.0, 100.0]


def test_no_run_starts_that_the_time_left_would_not_hold():
    played = play(CLOSE, BASE, limit_s=230)
    assert (played.ran, played.judging.verdict) == ("CBBCC", ChangeVerdict.UNDECIDED)
    assert played.judging.why == (
        "the time is spent: 20 s of 4 min left, and a run of the baseline takes 60 s"
    )
    assert played.judging.needs == Needs(attempts=17, seconds=17 * 45.0)
    assert played.said == [
        "judge: 4 min of 4 min left",
        "judge: 3 min of 4 min left: 6 runs at most",
        "judge: 2 min of 4 min left: 2 runs at most",
        "judge: 80 s of 4 min left: 2 runs at most",
        "judge: 50 s of 4 min left: 1 run at most",
    ]


def test_a_run_that_the_time_holds_exactly_starts():
    assert play(CLOSE, BASE, limit_s=210).ran == "CBBCC"
    assert play(CLOSE, BASE, limit_s=209).ran == "CBBC"


def test_what_a_run_waits_for_is_no_part_of_what_it_takes():
    played = play(CLOSE, BASE, limit_s=600, waits_s=100)
    assert (
        played.judging.why
        == "the time is spent: 20 s of 10 min left, and a run of the change takes 30 s"
    )
    assert played.judging.needs == Needs(attempts=6, seconds=6 * 45.0)


def test_before_the_first_run_earlier_ones_say_how_long_it_takes():
    played = play(CLOSE, BASE, limit_s=50, expected_s=60)
    assert (played.ran, played.judging.verdict) == ("", ChangeVerdict.UNDECIDED)
    assert played.judging.needs == Needs(attempts=None, seconds=None)
    assert played.given_up == ["judge: undecided"] * 40


def test_of_two_bounds_the_first_that_is_reached_counts():
    assert play(CLOSE, BASE, budget=2, limit_s=3600).judging.why == "the budget is spent"
    assert play(CLOSE, BASE, budget=20, limit_s=100).judging.why.startswith("the time is spent")


def test_a_run_that_fails_says_nothing_of_how_long_one_takes():
    played = play([None, None, None, *CLOSE], BASE, limit_s=100)
    assert played.ran == "CCCC", "10 s are left, and that they are too few is unknown"


def test_runs_that_leave_no_number_end_it_before_the_budget_does():
    """As where somebody deletes them meanwhile."""
    played = play([Outcome.COMPLETED] * 4, SLOW, budget=6, num_repeats=3)
    assert (played.ran, played.judging.verdict) == ("CCC", ChangeVerdict.UNDECIDED)
    assert played.judging.why.startswith("no run of the change is left")


def test_a_change_that_fails_ends_it():
    played = play([Outcome.OUT_OF_MEMORY], SLOW)
    assert (played.ran, played.judging.verdict) == ("C", ChangeVerdict.FAILED)
    assert played.judging.why == "the change ended as out_of_memory"
    assert not played.judging.baseline_failed


def test_a_baseline_that_fails_decides_nothing():
    played = play(FAST, [Outcome.FAILED])
    assert (played.ran, played.judging.verdict) == ("CB", ChangeVerdict.UNDECIDED)
    assert played.judging.baseline_failed


def test_a_run_that_is_tried_again_counts_in_the_budget_and_runs_next():
    played = play([None, *FAST], SLOW, budget=3)
    assert played.ran == "CCB"
    assert played.judging.budget.num_begun == 3


def test_sides_that_count_different_things_are_not_compared():
    played = play([(110.0, "tokens")], SLOW)
    assert (played.ran, played.judging.verdict) == ("CB", ChangeVerdict.FAILED)
    assert played.judging.why == "one side counts images and the other tokens"
