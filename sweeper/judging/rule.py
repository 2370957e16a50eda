"""Decides after each run whether the verdict on a change is sure, and which side runs next.

```
  C C C                     beside earlier runs of the baseline: most changes are given up here
      C B  B C  C B  ...    pairs, each side first in turn: a drift hits both alike
```

Pairs of runs one after the other alone make a change win. So nothing that is old, and no rule about
when to give up, can make a win false: giving up risks missing a gain.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import fmean

from scalemark.stats.paired_evidence import always_valid_interval, log_evidence, most_log_evidence
from scalemark.stats.welch import Spread

WORSE_LEVEL = 0.05
"""How often a change that is not slower may be called worse."""

ODDS = 2.2
"""A change is given up when its runs are so many times as likely without a gain as with one of the
margin. By simulation that makes a thousand proposals cheapest, most of which change nothing, and
misses one gain of the margin in six where that is twice the spread (benchmarks/judge.py)."""

MUCH = 2.0  # margins by which a change seems slower: worth more runs, to call it worse

MOST_ALONE = 3  # runs of a change before the first pair is complete
LEAST_EARLIER = 8  # runs of the baseline beside which a change runs alone
MOST_EARLIER = 40  # the newest
MOST_IDLE = 20  # differences of the baseline's own: a change may spread otherwise

FEWEST_SEEN = 2  # runs of a side from which more like them are foreseen
MOST_AHEAD = 200

# Earlier runs whose variance is so many times what neighbors among them show are from a machine
# that drifts (von Neumann 1941); so are taken 6 % of 40 runs without a drift, and 14 % of 20.
MOST_DRIFT = 1.3


class ChangeVerdict(StrEnum):
    """The verdicts on a change."""

    BETTER = "better"
    WORSE = "worse"
    NO_DIFFERENCE = "no_difference"  # neither a gain nor a loss of the margin
    NO_GAIN = "no_gain"  # no gain of the margin; it may be slower
    UNDECIDED = "undecided"  # the budget is spent, or the baseline failed
    FAILED = "failed"  # the change does not run
    INTERRUPTED = "interrupted"


class Side(StrEnum):
    """One of the two trials."""

    CHANGE = "change"
    BASELINE = "baseline"


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """The question to decide, and how surely."""

    level: float  # of a false win
    margin: float  # the gain that matters, as 0.02
    both_sides: bool = False  # go on until a loss of the margin is found or excluded, too


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """Throughput of completed runs, oldest first."""

    change: tuple[float, ...] = ()
    baseline: tuple[float, ...] = ()
    earlier: tuple[float, ...] = ()  # of the baseline, before this proposal

    @property
    def num_alone(self) -> int:
        """Return how many runs of the change come before the first of the baseline; pairs begin
        with the last of them.
        """
        is_known = len(self.earlier) >= LEAST_EARLIER and not _drifts(self.earlier)
        return MOST_ALONE if is_known else 1

    @property
    def differences(self) -> list[float]:
        """Return log(change / baseline) of each complete pair."""
        pairs = zip(self.change[self.num_alone - 1 :], self.baseline, strict=False)
        return [math.log(change / baseline) for change, baseline in pairs]

    @property
    def idle(self) -> list[float]:
        """Return the same of earlier runs of the baseline and the next ones: no run is in two."""
        pairs = zip(self.earlier[::2], self.earlier[1::2], strict=False)
        return [math.log(after / before) for before, after in pairs][-MOST_IDLE:]

    def with_run(self, side: Side, throughput: float) -> Runs:
        if side is Side.CHANGE:
            return replace(self, change=(*self.change, throughput))
        return replace(self, baseline=(*self.baseline, throughput))


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """How much faster the change is, as 0.02."""

    value: float
    low: float | None  # of the interval that holds it at all looks; None of too few pairs
    high: float | None


def next_side(runs: Runs) -> Side:
    num_alone = runs.num_alone
    if len(runs.change) < num_alone:
        return Side.CHANGE
    num_paired, num_baseline = len(runs.change) - (num_alone - 1), len(runs.baseline)
    if num_paired != num_baseline:
        return Side.BASELINE if num_paired > num_baseline else Side.CHANGE
    return Side.BASELINE if num_paired % 2 else Side.CHANGE


def most_runs(runs: Runs, budget: int) -> Mapping[Side, int]:
    """Return how many runs of each side as many attempts are, if no other verdict ends them."""
    nums = dict.fromkeys(Side, 0)
    for _ in range(budget):
        side = next_side(runs)
        runs = runs.with_run(side, 1.0)
        nums[side] += 1
    return nums


def decide(runs: Runs, aim: Aim) -> ChangeVerdict | None:
    """Return the verdict where it is sure; None where another run is needed."""
    differences, idle = runs.differences, runs.idle
    if log_evidence(differences, idle) >= -math.log(aim.level):
        return ChangeVerdict.BETTER
    if log_evidence([-one for one in differences], idle) >= -math.log(WORSE_LEVEL):
        return ChangeVerdict.WORSE
    margin = math.log1p(aim.margin)
    if aim.both_sides:
        low, high = always_valid_interval(differences, idle) or (-math.inf, math.inf)
        return ChangeVerdict.NO_DIFFERENCE if -margin < low and high < margin else None
    seen = _Seen.of(runs)
    if seen is None:
        return None
    is_hopeless = seen.log_odds_against(margin) >= math.log(ODDS)
    return ChangeVerdict.NO_GAIN if is_hopeless and seen.gain > -MUCH * margin else None


def attempts_to_verdict(runs: Runs, aim: Aim) -> int | None:
    """Return after how many more runs the verdict is sure if they come out as those so far did,
    over and over; None where that takes more than MOST_AHEAD, or too few runs tell.
    """
    seen = {Side.CHANGE: runs.change, Side.BASELINE: runs.baseline or runs.earlier}
    if min(len(of_side) for of_side in seen.values()) < FEWEST_SEEN:
        return None
    for num in range(1, MOST_AHEAD + 1):
        side = next_side(runs)
        done = runs.change if side is Side.CHANGE else runs.baseline
        runs = runs.with_run(side, seen[side][len(done) % len(seen[side])])
        if decide(runs, aim):
            return num
    return None


def gain_of(runs: Runs) -> Gain | None:
    """Return the gain by pairs; without one, by the baseline's earlier runs; else None."""
    differences = runs.differences
    if not differences:
        seen = _Seen.of(runs)
        return Gain(value=math.expm1(seen.gain), low=None, high=None) if seen else None
    value = math.expm1(fmean(differences))
    interval = always_valid_interval(differences, runs.idle)
    if interval is None:
        return Gain(value=value, low=None, high=None)
    low, high = interval
    return Gain(value=value, low=math.expm1(low), high=math.expm1(high))


def least_attempts(runs: Runs, level: float) -> int:
    """Return after how many attempts a gain far above all noise could win."""
    num_pairs = 2
    while most_log_evidence(num_pairs, len(runs.idle)) < -math.log(level):
        num_pairs += 1
    return runs.num_alone - 1 + 2 * num_pairs


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """Estimate the gain from all runs, in pairs or not: two samples of one spread."""

    gain: float  # of logarithms
    error: float  # the variance of the gain, where that of a run is 1
    squares: float
    freedom: int

    @classmethod
    def of(cls, runs: Runs) -> _Seen | None:
        """Return None for too few runs to know how far they spread."""
        earlier = runs.earlier if runs.num_alone > 1 else ()
        baseline = (*earlier, *runs.baseline)
        idle = Spread(squares=math.fsum(one**2 for one in runs.idle) / 2, freedom=len(runs.idle))
        spread = Spread.sum((Spread.of(runs.change), Spread.of(runs.baseline), idle))
        if not runs.change or not baseline or not spread.freedom:
            return None
        return cls(
            gain=_mean_log(runs.change) - _mean_log(baseline),
            error=1 / len(runs.change) + 1 / len(baseline),
            squares=spread.squares,
            freedom=spread.freedom,
        )

    def log_odds_against(self, margin: float) -> float:
        """Return the log ratio of the likelihoods of no gain, and of a gain of the margin; the
        spread is integrated out.
        """
        without_gain = self.squares + max(0.0, self.gain) ** 2 / self.error
        with_gain = self.squares + (self.gain - margin) ** 2 / self.error
        if without_gain == 0:  # runs that are all alike
            return math.inf
        if with_gain == 0:
            return -math.inf
        return (self.freedom + 1) / 2 * math.log(with_gain / without_gain)


def _drifts(speeds: Sequence[float]) -> bool:
    steps = [math.log(after / before) for before, after in itertools.pairwise(speeds)]
    of_neighbors = fmean(step**2 for step in steps) / 2
    spread = Spread.of(speeds)
    return spread.squares / spread.freedom > MOST_DRIFT * of_neighbors


def _mean_log(speeds: Sequence[float]) -> float:
    return fmean(math.log(speed) for speed in speeds)
