"""How often `judge` calls a change better that is not, how many true gains it finds, and in how
many runs, beside the rules that people use.

`python -m benchmarks.judge [SEQUENCES] [--proposals N]` plays sequences of 1,000 proposals, 20 of
each kind. Of a usual one 95 % change nothing, the others gain 2 %, and processes spread by 1 %.
What a rule calls better becomes the baseline of the next proposal. All rules meet the same
proposals; each draws runs of its own. Kinds differ in one thing:

    usual            as above
    fresh            no earlier runs of the baseline are looked at
    nothing          no proposal gains anything
    mostly worse     half of the proposals lose 3 %
    steady drift     the machine slows down by 0.05 % with every run
    wandering        the speed of the machine is a random walk, of 0.3 % per run
    noisier changes  what changes nothing spreads twice as far as the baseline
    flukes           one run of twenty loses a tenth of its speed
    spread 0.5 %, spread 2 %, gains of 5 %
    falls            judged by --metric step_ms --lower --keep loss=0.5%: a tenth of the proposals
                     gain, and another tenth gains as much with a broken loss: 1 % or 5 % above, or
                     none at all in half of the runs; losses spread by 0.2 %

`false` is the share of proposals without a gain that were called better, and `of wins` that share
among all that were called better; `broken wins` counts those with a broken loss.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from scipy.stats import ttest_ind

sys.path[0] = str(Path(__file__).resolve().parent.parent)  # beside this file lies another `trainer`

from benchmarks.asking import head, parser, row
from scalemark.stats.welch import level_of
from store.reading.earlier import CompletedRepeat
from sweeper.early_stopping.judge import Proposal as Contest
from sweeper.early_stopping.metric import Metric
from sweeper.early_stopping.rule import (
    MOST_EARLIER,
    Aim,
    ChangeVerdict,
    JudgedSide,
    KeptMetric,
    Runs,
    decide,
    next_side,
)

NUM_SEQUENCES = 20
NUM_PROPOSALS = 1000
MARGIN = 0.02
ALLOWED = 0.05  # share of wins that may be false, as `judge` has it
BUDGET = 60  # attempts of a proposal, as `judge` has it
STEP_MS = Metric(name="step_ms", lower=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """The kind of proposals and machine of a sequence."""

    name: str
    gain: float = 0.02
    share_gaining: float = 0.05
    share_losing: float = 0.0  # 3 %
    spread: float = 0.01  # of processes
    spread_of_others: float = 1.0  # of changes that change nothing, in spreads
    drift: float = 0.0  # of the machine, per run
    wander: float = 0.0  # a standard deviation per run
    fluke_rate: float = 0.0
    fresh: bool = False
    share_broken: float = 0.0  # that gain, with a broken loss


KINDS = (
    Kind(name="usual"),
    Kind(name="fresh", fresh=True),
    Kind(name="nothing", share_gaining=0.0),
    Kind(name="mostly worse", share_losing=0.5),
    Kind(name="steady drift", drift=-0.0005),
    Kind(name="steady drift, fresh", drift=-0.0005, fresh=True),
    Kind(name="wandering", wander=0.003),
    Kind(name="wandering, fresh", wander=0.003, fresh=True),
    Kind(name="noisier changes", spread_of_others=2.0),
    Kind(name="flukes", fluke_rate=0.05),
    Kind(name="spread 0.5 %", spread=0.005),
    Kind(name="spread 2 %", spread=0.02),
    Kind(name="gains of 5 %", gain=0.05),
)
FALLS = Kind(name="falls", share_gaining=0.1, share_broken=0.1)
LOSS_LIMIT, LOSS_SPREAD = 0.005, 0.002
BROKEN_LOSSES = (1.01, 1.05, math.nan)


@dataclass(slots=True)
class Machine:
    """Runs programs whose true log speeds it is told."""

    kind: Kind
    rng: np.random.Generator
    num_runs: int = 0
    pace: float = 0.0  # of the machine, a logarithm

    def run(self, speed: float, spread: float) -> float:
        """Return the throughput that one process shows."""
        self.num_runs += 1
        self.pace += self.kind.drift + self.kind.wander * self.rng.standard_normal()
        fluke = math.log(0.9) if self.rng.random() < self.kind.fluke_rate else 0.0
        return math.exp(speed + self.pace + fluke + spread * self.rng.standard_normal())


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A change, and what it truly does."""

    gain: float
    spread: float
    loss: float = 1.0  # of that of the baseline; nan: half of the runs have none

    @property
    def is_broken(self) -> bool:
        return self.loss != 1.0


@dataclass(slots=True)
class Series:
    """The memory of a rule: the baseline's speed and runs, and wins so far."""

    kind: Kind
    machine: Machine
    speed: float = 0.0  # of the baseline, a logarithm
    spread: float = 0.01
    earlier: list[float] = field(default_factory=list)  # runs of this baseline
    number: int = 0
    num_wins: int = 0

    def run_baseline(self) -> float:
        return self.machine.run(self.speed, self.spread)

    def run(self, proposal: Proposal) -> float:
        return self.machine.run(self.speed + math.log1p(proposal.gain), proposal.spread)


Rule = Callable[[Series, Proposal], tuple[bool, list[float]]]
"""Says whether a proposal is called better, and returns its runs: those of the next baseline."""


@dataclass(slots=True)
class Score:
    """Counts of outcomes of the proposals of some sequences."""

    num: int = 0
    num_gaining: int = 0
    num_found: int = 0
    num_false: int = 0
    num_broken: int = 0
    num_broken_wins: int = 0
    num_runs: int = 0
    num_clean: int = 0  # sequences without a false win
    num_sequences: int = 0

    def cells(self) -> list[str]:
        num_null = self.num - self.num_gaining - self.num_broken
        num_wins = self.num_found + self.num_false
        found = f"{100 * self.num_found / self.num_gaining:.0f}%" if self.num_gaining else ""
        of_wins = f"{100 * self.num_false / num_wins:.2f}%" if num_wins else ""
        return [
            f"{self.num_runs / self.num:.2f}",
            found,
            f"{100 * self.num_false / num_null:.3f}%",
            of_wins,
            f"{self.num_sequences - self.num_clean} of {self.num_sequences}",
            f"{self.num_broken_wins} of {self.num_broken}" if self.num_broken else "",
        ]


def by_judge(series: Series, proposal: Proposal) -> tuple[bool, list[float]]:
    """The rule of `judge`, by its own functions."""
    level = level_of(series.number, series.num_wins, ALLOWED)
    aim = Aim(level=level, margin=MARGIN)
    earlier = () if series.kind.fresh else tuple(series.earlier[-MOST_EARLIER:])
    runs = Runs(earlier=earlier)
    verdict = None
    while verdict is None and len(runs.change) + len(runs.baseline) < BUDGET:
        side = next_side(runs)
        found = series.run(proposal) if side is JudgedSide.CHANGE else series.run_baseline()
        runs = runs.with_run(side, found)
        verdict = decide(runs, aim)
    series.earlier += runs.baseline
    return verdict is ChangeVerdict.BETTER, list(runs.change)


def by_metric_that_falls(series: Series, proposal: Proposal) -> tuple[bool, list[float]]:
    """The contest of `judge --metric step_ms --lower --keep loss=0.5%`."""
    completed: dict[str, list[CompletedRepeat]] = {side: [] for side in JudgedSide}
    contest = Contest(
        trials={side: str(side) for side in JudgedSide},
        aim=Aim(
            level=level_of(series.number, series.num_wins, ALLOWED), margin=STEP_MS.gain(MARGIN)
        ),
        budget=BUDGET,
        metric=STEP_MS,
        kept=(KeptMetric(name="loss", limit=LOSS_LIMIT),),
        runs=Runs(earlier=tuple(series.earlier[-MOST_EARLIER:])),
        read=lambda _: {side: tuple(repeats) for side, repeats in completed.items()},
    )
    speeds: list[float] = []
    while contest.verdict is None and sum(map(len, completed.values())) < BUDGET:
        side = next_side(contest.runs)
        loss = math.exp(LOSS_SPREAD * series.machine.rng.standard_normal())
        if side is JudgedSide.CHANGE:
            speeds.append(series.run(proposal))
            speed, loss = speeds[-1], loss * proposal.loss
            if math.isnan(loss) and series.machine.rng.random() < 0.5:
                loss = 1.0
        else:
            speed = series.run_baseline()
            series.earlier.append(speed)
        metrics = {"step_ms": 1 / speed} | ({} if math.isnan(loss) else {"loss": loss})
        completed[side].append(CompletedRepeat(throughput=speed, metrics=metrics))
        contest.learn()
    return contest.verdict is ChangeVerdict.BETTER, speeds


def keep_if_better(series: Series, proposal: Proposal) -> tuple[bool, list[float]]:
    """One run of the change; it is kept if it beats the number that the baseline was kept by."""
    if not series.earlier:
        series.earlier = [series.run_baseline()]
    found = series.run(proposal)
    return found > series.earlier[-1], [found]


def t_test_of_five(series: Series, proposal: Proposal) -> tuple[bool, list[float]]:
    """Five runs of each, and Welch's test, one-sided."""
    changed, baseline = [], []
    for _ in range(5):
        changed.append(series.run(proposal))
        baseline.append(series.run_baseline())
    tested = ttest_ind(changed, baseline, equal_var=False, alternative="greater")
    return bool(tested.pvalue < 0.05), changed


RULES: dict[str, Rule] = {
    "judge": by_judge,
    "keep if better, 1 run": keep_if_better,
    "t-test of 5 and 5, 5 %": t_test_of_five,
}


def drawn(kind: Kind, rng: np.random.Generator, num: int) -> list[Proposal]:
    """Draw the proposals of a sequence."""
    proposals = []
    for place in rng.random(num):
        if place < kind.share_gaining:
            proposals.append(Proposal(gain=kind.gain, spread=kind.spread))
        elif place < kind.share_gaining + kind.share_losing:
            proposals.append(Proposal(gain=-0.03, spread=kind.spread))
        elif place > 1 - kind.share_broken:
            loss = BROKEN_LOSSES[len(proposals) % len(BROKEN_LOSSES)]
            proposals.append(Proposal(gain=kind.gain, spread=kind.spread, loss=loss))
        else:
            proposals.append(Proposal(gain=0.0, spread=kind.spread * kind.spread_of_others))
    return proposals


def play(kind: Kind, rule: Rule, seed: int, score: Score, num_proposals: int) -> None:
    """Play one sequence, and add what became of it to the score."""
    proposals = drawn(kind, np.random.default_rng((seed, 1)), num_proposals)
    machine = Machine(kind=kind, rng=np.random.default_rng((seed, 2)))
    series = Series(kind=kind, machine=machine, spread=kind.spread)
    num_false = 0
    for proposal in proposals:
        series.number += 1
        is_win, runs = rule(series, proposal)
        is_gain = proposal.gain > 0 and not proposal.is_broken
        score.num_gaining += is_gain
        score.num_found += is_win and is_gain
        score.num_broken += proposal.is_broken
        score.num_broken_wins += is_win and proposal.is_broken
        num_false += is_win and proposal.gain <= 0
        if is_win:
            series.num_wins += 1
            series.speed += math.log1p(proposal.gain)
            series.spread, series.earlier = proposal.spread, runs
    score.num += len(proposals)
    score.num_runs += machine.num_runs
    score.num_false += num_false
    score.num_clean += num_false == 0
    score.num_sequences += 1


def scored(kind: Kind, rule: Rule, num_sequences: int, num_proposals: int) -> Score:
    score = Score()
    for seed in range(num_sequences):
        play(kind, rule, seed, score, num_proposals)
    return score


def main(num_sequences: int, num_proposals: int) -> None:
    columns = (
        *("runs per proposal", "found", "false", "of wins", "sequences with a false win"),
        "broken wins",
    )
    head("rule", *columns)
    for name, rule in RULES.items():
        row(name, *scored(KINDS[0], rule, num_sequences, num_proposals).cells())
    print()
    head("judge, other kinds", *columns)
    for kind in KINDS[1:]:
        row(kind.name, *scored(kind, by_judge, num_sequences, num_proposals).cells())
    falling = scored(FALLS, by_metric_that_falls, num_sequences, num_proposals)
    row(FALLS.name, *falling.cells())


if __name__ == "__main__":
    options = parser(__doc__, number=NUM_SEQUENCES)
    options.add_argument("--proposals", type=int, default=NUM_PROPOSALS, help="of each sequence")
    given = options.parse_args()
    main(given.number, given.proposals)
