"""What races and proposals run, give up and tell: played without processes, in the order in which a sweep would run them."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pytest

from scalemark.records.measurement import Outcome
from scalemark.records.trial import TrialSpec
from store.ledger import OpenRepeat
from store.reading.earlier import CompletedRepeat
from sweeper.early_stopping import contests as races
from sweeper.early_stopping.contests import Contest, Observer, Saved, make_races
from sweeper.early_stopping.judge import SPENT, Proposal
from sweeper.early_stopping.metric import Metric
from sweeper.early_stopping.rule import Aim, ChangeVerdict, JudgedSide, KeptMetric, Runs
from sweeper.grid.plan import PlannedTrial
from sweeper.loop.backlog import Backlog, planned_repeats
from tests.specs import small

Shown = float | tuple[float, str] | dict[str, float] | Outcome | None
"""What a repeat brings: its speed, with what it counts, what it printed, how it fails for good, or None: it is tried
again."""


class Played:
    """A sweep of contests: what each trial shows, in the order of its repeats."""

    def __init__(self, shown: dict[TrialSpec, Sequence[Shown]], num_repeats: int = 0) -> None:
        self.completed: dict[str, list[CompletedRepeat]] = defaultdict(list)
        self.ran: list[TrialSpec] = []
        self.given_up: dict[int, str] = {}  # key -> why
        self.num_expected: list[int] = []  # still to run, at the end of each attempt
        self.saved = Saved()
        self._shown = {spec: iter(repeats) for spec, repeats in shown.items()}
        self._trials = []
        for spec, repeats in shown.items():
            trial = PlannedTrial(spec=spec, num_repeats=num_repeats or len(repeats))
            self._trials.append(trial)

    def read(self, trial_ids: Sequence[str] = ()) -> dict[str, tuple[CompletedRepeat, ...]]:
        return {trial_id: tuple(self.completed[trial_id]) for trial_id in self.completed}

    def play(self, contests: Sequence[Contest]) -> None:
        """Run until nothing waits."""
        repeats = planned_repeats(list(self._open()), self._trials, lambda spec: None, {})
        backlog = Backlog(repeats, seed=1, packs=False)

        def skip(keys: Sequence[int], reason: str) -> None:
            self.given_up.update(dict.fromkeys(keys, reason))

        observer = Observer(contests, backlog, skip)
        observer.steer_all()
        while task := backlog.queue.pop(lambda num_gpus: True, is_idle=True):
            spec = backlog[task.key].trial.spec
            if not observer.wants(task):
                backlog.queue.put_back(task)
                observer.steer(task.key)
                continue
            observer.begun(task.key)
            self.ran.append(spec)
            shown = next(self._shown[spec])
            final = shown if isinstance(shown, Outcome) else Outcome.COMPLETED
            if shown is None:
                backlog.queue.push(task)
            elif not isinstance(shown, Outcome):
                printed = shown if isinstance(shown, dict) else {}
                shown = printed.get("throughput", 100.0) if isinstance(shown, dict) else shown
                speed, item = shown if isinstance(shown, tuple) else (shown, "images")
                repeat = CompletedRepeat(
                    throughput=speed, item=item, metrics=printed, attempt_id=len(self.ran)
                )
                self.completed[spec.trial_id].append(repeat)
            observer.ended(task.key, None if shown is None else final)
            self.num_expected.append(len(observer.expected()))
            observer.steer(task.key)
        assert not observer.held_back, "nothing is left over"
        self.saved = observer.saved

    def _open(self) -> Iterator[OpenRepeat]:
        key = 0
        for trial in self._trials:
            for repeat in range(1, trial.num_repeats + 1):
                trial_id = trial.spec.trial_id
                yield OpenRepeat(repeat_id=key, trial_id=trial_id, repeat=repeat, num_attempts=0)
                key += 1

    @property
    def num_run(self) -> Counter[int]:
        return Counter(spec.seed for spec in self.ran)


def race(
    shown: dict[TrialSpec, Sequence[Shown]], earlier: dict[TrialSpec, list[float]] | None = None
) -> Played:
    """Race trials that differ in their seed. Of each as many repeats are to run as it shows."""
    played = Played(shown)
    for spec, speeds in (earlier or {}).items():
        repeats = [CompletedRepeat(throughput=speed) for speed in speeds]
        played.completed[spec.trial_id] += repeats
    contests = make_races(list(shown), max(map(len, shown.values())), played.read)
    played.play(contests)
    return played


def seeds(**speeds: Sequence[Shown]) -> dict[TrialSpec, Sequence[Shown]]:
    """`s1=[...]` is the trial of seed 1."""
    return {small(seed=int(name[1:])): shown for name, shown in speeds.items()}


FAILED = Outcome.FAILED


@pytest.fixture(autouse=True)
def seeds_race(monkeypatch):
    monkeypatch.setattr(races, "RACING", ("seed",))


@pytest.mark.parametrize(
    ("speeds", "earlier", "num_run", "saved"),
    [
        (  # a tie runs all its repeats
            seeds(s1=[100.0, 102.0, 101.0], s2=[101.0, 100.0, 102.5], s3=[50.0] * 3),
            {},
            {1: 3, 2: 3, 3: 1},
            (7, 2),
        ),
        (  # who fails leaves, and the others run on
            seeds(s1=[FAILED] * 2, s2=[100.0, 101.0], s3=[101.0, 100.0]),
            {},
            {1: 1, 2: 2, 3: 2},
            (4, 1),
        ),
        (
            seeds(s1=[FAILED] * 3, s2=[Outcome.OUT_OF_MEMORY] * 3),
            {},
            {1: 1, 2: 1},
            (0, 4),
        ),
        (  # what earlier sweeps completed counts
            seeds(s1=[25.0] * 5, s2=[100.0] * 5),
            {small(seed=1): [25.0]},
            {2: 2},
            (3, 8),
        ),
    ],
)
def test_a_race_runs_what_it_needs(speeds, earlier, num_run, saved):
    played = race(speeds, earlier)
    assert played.num_run == num_run
    assert (played.saved.num_run, played.saved.num_spared) == saved


def test_who_was_put_out_says_behind_whom():
    quiet = {small(seed=seed, num_gpus=2): [100.0 + seed / 100] * 5 for seed in (1, 2, 3, 4)}
    wide = seeds(s5=[1101.0, 1105.0, 1100.0, 1102.0, 1104.0], s6=[1010.0, *[1080.0] * 4])
    played = race(quiet | wide)
    assert any(
        " % behind replicated_none seed=5 after" in reason for reason in played.given_up.values()
    )


def test_races_are_run_in_rounds_of_all_that_are_in_them():
    one = seeds(s1=[25.0] * 3, s2=[100.0, 101.0, 102.0], s3=[101.0, 100.0, 102.0])
    two = {small(seed=spec.seed + 10, num_gpus=2): shown for spec, shown in one.items()}
    ran = [spec.seed for spec in race(one | two).ran]
    assert set(ran[:6]) == {1, 2, 3, 11, 12, 13}
    assert set(ran[6:]) == {2, 3, 12, 13}


def test_who_has_no_rival_runs_all_its_repeats():
    played = race({small(seed=1): [25.0, 25.0], small(seed=2, num_gpus=2): [100.0, 100.0]})
    assert (played.num_run, played.saved) == ({1: 2, 2: 2}, Saved())


CHANGE, BASELINE = small(seed=1), small(seed=2)


@dataclass(frozen=True, kw_only=True)
class Judged:
    proposal: Proposal
    played: Played
    ran: str  # C the change, B the baseline

    @property
    def verdict(self) -> ChangeVerdict | None:
        return self.proposal.verdict


def judge(
    change: Sequence[Shown],
    baseline: Sequence[Shown],
    budget: int = 20,
    num_repeats: int | None = None,
    metric: Metric | None = None,
    kept: tuple[KeptMetric, ...] = (),
) -> Judged:
    played = Played({CHANGE: change, BASELINE: baseline}, num_repeats or budget)
    proposal = Proposal(
        trials={JudgedSide.CHANGE: CHANGE.trial_id, JudgedSide.BASELINE: BASELINE.trial_id},
        aim=Aim(level=0.001, margin=0.02),
        budget=budget,
        metric=metric or Metric(),
        kept=kept,
        runs=Runs(),
        read=played.read,
    )
    played.play([proposal])
    ran = "".join("C" if spec == CHANGE else "B" for spec in played.ran)
    return Judged(proposal=proposal, played=played, ran=ran)


FAST = [110.0, 111.0, 109.0, 110.5, 110.0, 109.5, 110.0]
SLOW = [100.0, 101.0, 99.0, 100.5, 99.5, 100.0, 100.5]
CLOSE, BASE = [102.0, 103.0, 102.0, 102.5], [100.0, 101.0, 99.0, 100.0]


def test_runs_take_turns_until_the_verdict_is_sure():
    judged = judge(FAST, SLOW)
    assert (judged.verdict, judged.ran) == (ChangeVerdict.BETTER, "CBBCCBBCCBBC")
    assert list(judged.played.given_up.values()) == ["judge: better"] * 28


def test_all_that_may_still_run_counts_in_the_eta():
    played = judge([Outcome.COMPLETED] * 4, SLOW, budget=6, num_repeats=3).played
    assert played.num_expected == [5, 4, 3]


def test_a_budget_ends_it():
    judged = judge(CLOSE, BASE, budget=5)
    assert (judged.ran, judged.verdict) == ("CBBCC", ChangeVerdict.UNDECIDED)
    assert judged.proposal.why == SPENT
    assert set(judged.played.given_up.values()) == {"judge: undecided"}


def test_a_run_that_is_tried_again_runs_next_and_counts_in_attempts_alone():
    judged = judge([None, *FAST], SLOW, budget=3)
    assert (judged.ran, judged.proposal.num_attempts) == ("CCB", 3)


@pytest.mark.parametrize(
    ("change", "baseline", "ran", "verdict", "why"),
    [
        ([Outcome.OUT_OF_MEMORY], SLOW, "C", "failed", "the change ended as out_of_memory"),
        (FAST, [FAILED], "CB", "undecided", "the baseline ended as failed"),
        ([(110.0, "tokens")], SLOW, "CB", "failed", "one side counts images and the other tokens"),
        # somebody deletes them meanwhile
        ([Outcome.COMPLETED] * 4, SLOW, "CCC", "undecided", "no run of the change is left"),
    ],
)
def test_what_leaves_no_number_ends_it(change, baseline, ran, verdict, why):
    judged = judge(change, baseline, budget=20, num_repeats=3)
    assert (judged.ran, judged.verdict) == (ran, verdict)
    assert judged.proposal.why.startswith(why)
    assert judged.proposal.baseline_failed == ("the baseline" in why)


def printing(
    name: str, values: Sequence[float], speeds: Sequence[float] = [100.0] * 9
) -> list[Shown]:
    return [
        {name: value, "throughput": speed} for value, speed in zip(values, speeds, strict=False)
    ]


@pytest.mark.parametrize(
    ("change", "baseline", "lower", "verdict"),
    [
        (SLOW, FAST, True, "better"),
        (FAST, SLOW, True, "worse"),
        (FAST, SLOW, False, "better"),
        (SLOW, SLOW, True, "no_gain"),
    ],
)
def test_a_metric_is_judged_by_what_is_better(change, baseline, lower, verdict):
    metric = Metric(name="val_loss", lower=lower)
    judged = judge(printing("val_loss", change), printing("val_loss", baseline), metric=metric)
    assert judged.verdict == verdict
    assert judged.proposal.values(JudgedSide.CHANGE) == change[: judged.ran.count("C")]


LOSS = KeptMetric(name="loss", limit=0.005)
ACCURACY = KeptMetric(name="accuracy", limit=-0.01)
SAME, NOISY = [1.0] * 9, [1.0, 1.1, 0.9, 1.05, 0.95, 1.0, 1.1]


@pytest.mark.parametrize(
    ("kept", "changed", "verdict"),
    [
        (LOSS, SAME, "better"),
        (LOSS, [0.5] * 9, "better"),
        (LOSS, [1.004] * 9, "better"),
        (LOSS, [1.006] * 9, "broken"),
        (LOSS, [1.05] * 9, "broken"),
        (LOSS, NOISY, "undecided"),
        (LOSS, [1.0, 1.0, 1e6, 1.0, 1.0, 1.0, 1.0], "undecided"),
        (ACCURACY, [0.995] * 9, "better"),
        (ACCURACY, [1.5] * 9, "better"),
        (ACCURACY, [0.98] * 9, "broken"),
    ],
)
def test_a_faster_change_wins_only_where_it_keeps_another_metric(kept, changed, verdict):
    change, baseline = printing(kept.name, changed, FAST), printing(kept.name, SAME, SLOW)
    judged = judge(change, baseline, kept=(kept,), budget=14)
    assert judged.verdict == verdict


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        ({}, "no loss above 0 in attempt 1, where it is not known"),
        ({"loss": 0.0}, "no loss above 0 in attempt 1, where it is 0.0"),
        ({"loss": -0.5}, "no loss above 0 in attempt 1, where it is -0.5"),
        ({"loss": float("inf")}, "no loss above 0 in attempt 1, where it is inf"),
    ],
)
@pytest.mark.parametrize("given", [{"metric": Metric(name="loss", lower=True)}, {"kept": (LOSS,)}])
def test_a_run_without_a_number_ends_it_and_is_no_win(broken, why, given):
    failed = judge([broken, *printing("loss", SAME, FAST)], printing("loss", SAME, SLOW), **given)
    assert (failed.verdict, failed.proposal.why) == ("failed", f"the change has {why}")
    fine = printing("loss", SAME, FAST)
    lost = judge(fine, [broken, *printing("loss", SAME, SLOW)], **given)
    assert (lost.verdict, lost.proposal.baseline_failed) == ("undecided", True)


def test_a_loss_that_diverges_in_one_repeat_is_no_win():
    change = [
        *printing("loss", SAME[:3], FAST),
        {"throughput": 110.0},
        *printing("loss", SAME, FAST),
    ]
    judged = judge(change, printing("loss", SAME, SLOW), kept=(LOSS,))
    assert (judged.verdict, judged.ran) == ("failed", "CBBCCBBC")
