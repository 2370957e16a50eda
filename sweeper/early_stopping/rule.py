"""The stopping rule: who could hardly lead a race, and when the verdict on a change is sure.

A race compares the first 1, 2, 3, ... repeats of all that are still in it with the fastest:

```
  look 1          look 2          look 3
  A ████████      A ████████      A ████████ leads
  B ███████▌      B ███████▍ ──► out        the repeats to come would hardly make up for it
  C ████ ──► out
```

Of two contenders with n of N repeats the distance between their means of log throughput still moves
by a normal deviate of variance 2 s^2 (1/n - 1/N). Who is further behind than that is out. The error
is shared among all rivals and, halved from look to look, among all looks. Whether two differ or tie
is another question, which the interval of their own repeats answers (`scalemark.stats.welch`).

A change takes turns with its baseline, so that a drift hits both alike:

```
  C C C                     beside earlier runs of the baseline: most changes are given up here
      C B  B C  C B  ...    pairs, each side first in turn
```

Pairs of runs one after the other alone make a change win. Nothing old, and no rule about giving up,
can make a win false: giving up risks missing a gain.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import fmean

from scalemark.records.attempt import BEHIND
from scalemark.stats.distributions import upper_quantile
from scalemark.stats.welch import (
    Spread,
    always_valid_interval,
    log_evidence,
    most_log_evidence,
    variance_of,
)
from scalemark.text.wording import counted

ERROR_RATE = 0.05
"""How often a race may put out one that would have led in the end, over all looks and rivals."""

LEAST_REPEATS = 2  # of the leader: one process alone has no interval

LEAST_FREEDOM = (
    4  # repeats beyond the first, of all races: fewer say little of how processes differ
)

UNKNOWN_SPREAD = 0.1
"""How far processes may differ while little is known, and for one to be out after a single run,
which has no interval. With less, an equal was called worse after up to 30 % of races where
processes differ by 10 % (benchmarks/advice.py)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """One trial of a race."""

    trial_id: str
    name: str  # for people
    speeds: tuple[float, ...]  # throughput of its completed repeats, oldest first
    num_left: int  # repeats that wait or run
    failure: str = ""  # how a repeat of it ended for good, if one did not complete


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """Which repeats of a contest are still worth running. Trials are known by their ids."""

    # repeats that are worth running beyond those completed; what runs is one of them
    wanted: Mapping[str, int]
    out: Mapping[str, str]  # why no more repeats are worth running, for people and the database

    @property
    def is_over(self) -> bool:
        return not any(self.wanted.values())


def rule_race(contenders: Sequence[Contender], spread: Spread, most_repeats: int) -> Ruling:
    """Compare what contenders have shown. `spread` is that of all contenders of all races, these
    included; of each at most `most_repeats` are wanted.

    A contender that failed before it completed anything is out; one that failed later stays.
    """
    out = _out_of_race(contenders, spread, most_repeats)
    # without a rival the leader runs on only until its number has an interval
    has_rival = len(contenders) - len(out) > 1
    enough = most_repeats if has_rival else min(LEAST_REPEATS, most_repeats)
    wanted = {}
    for contender in contenders:
        wanted[contender.trial_id] = 0
        if contender.trial_id not in out:
            num_missing = max(0, enough - len(contender.speeds))
            wanted[contender.trial_id] = min(contender.num_left, num_missing)
    return Ruling(wanted=wanted, out=out)


def _out_of_race(
    contenders: Sequence[Contender], spread: Spread, most_repeats: int
) -> dict[str, str]:
    """Return who could hardly lead in the end, and why: look by look."""
    out = {}
    for contender in contenders:
        if not contender.speeds and contender.failure:
            out[contender.trial_id] = f"race: it ended as {contender.failure}"
        elif not contender.speeds and not contender.num_left:
            out[contender.trial_id] = "race: nothing of it was run"
    level_of_rival = ERROR_RATE / max(1, len(contenders) - 1)
    for look in range(1, most_repeats):
        racing = [contender for contender in contenders if contender.trial_id not in out]
        waits = any(len(contender.speeds) < look and contender.num_left for contender in racing)
        if waits or len(racing) < 2:
            break
        leader = max(racing, key=lambda contender: _mean_log(contender.speeds[:look]))
        quantile_level = level_of_rival * 0.5**look
        for rival in racing:
            if rival is not leader:
                why = _why_out(leader, rival, spread, look, quantile_level, most_repeats)
                if why:
                    out[rival.trial_id] = why
    return out


def _why_out(
    leader: Contender, rival: Contender, spread: Spread, look: int, level: float, most_repeats: int
) -> str:
    """Say why the rival is out: it would lead with a probability below `level`; else nothing."""
    # the variance of one process rests on all repeats there are, whatever the look
    own = Spread.sum((Spread.of(leader.speeds), Spread.of(rival.speeds)))
    variance, freedom = variance_of(own, spread.without(own))
    quantile = upper_quantile(level, freedom)
    num_fast, num_slow = len(leader.speeds[:look]), len(rival.speeds[:look])
    gap = _mean_log(leader.speeds[:look]) - _mean_log(rival.speeds[:look])
    to_come = max(0.0, 1 / num_fast - 1 / most_repeats) + max(0.0, 1 / num_slow - 1 / most_repeats)
    reach = quantile * math.sqrt(variance * to_come)
    if look < LEAST_REPEATS or spread.freedom < LEAST_FREEDOM:
        reach = max(reach, upper_quantile(level, math.inf) * UNKNOWN_SPREAD * math.sqrt(to_come))
    if gap <= reach:
        return ""
    percent = -100 * math.expm1(-gap)  # by which the slower one is slower
    after = f"{leader.name} after {counted(num_slow, 'repeat')}"
    return (
        f"{BEHIND.format('race', f'{percent:.1f} %', after)}; the others would hardly make it lead"
    )


WORSE_LEVEL = 0.05
"""How often a change that is not slower may be called worse."""

KEPT_LEVEL = 0.01
"""How often a metric that leaves its limit may be called kept, and one that keeps it broken. Where
repeats agree in the metric, it is known to be kept before a change can win."""

FINDABLE = 2.0
"""Spreads of one run that a gain must have for four of five to be found, and a limit for as many
changes to be known to keep it (benchmarks/judge.py)."""

ODDS = 2.2
"""A change is given up when its runs are so many times as likely without a gain as with one of the
margin. By simulation that makes a thousand proposals cheapest, most of which change nothing, and
misses one gain of the margin in six where that is twice the spread (benchmarks/judge.py)."""

MUCH = 2.0  # margins by which a change seems slower: worth more runs, to call it worse

MOST_ALONE = 3  # runs of a change before the first pair is complete
LEAST_EARLIER = 8  # runs of the baseline beside which a change runs alone
MOST_EARLIER = 40  # the newest
MOST_IDLE = 20  # differences of the baseline's own: a change may spread otherwise

# Earlier runs whose variance is so many times what neighbors among them show are from a machine
# that drifts (von Neumann 1941); so are taken 6 % of 40 runs without a drift, and 14 % of 20.
MOST_DRIFT = 1.3


class ChangeVerdict(StrEnum):
    """The verdicts on a change."""

    BETTER = "better"
    WORSE = "worse"
    BROKEN = "broken"  # another metric left its limit, however fast the change is
    NO_GAIN = "no_gain"  # no gain of the margin; it may be slower
    UNDECIDED = "undecided"  # the budget is spent, or the baseline failed
    FAILED = "failed"  # the change does not run
    INTERRUPTED = "interrupted"
    QUIET = "quiet"  # a trial against itself: a gain of the margin would be found
    NOISY = "noisy"  # it would not


class JudgedSide(StrEnum):
    """One of the two trials."""

    CHANGE = "change"
    BASELINE = "baseline"


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """The question to decide, and how surely."""

    level: float  # of a false win
    margin: float  # the gain that matters, as 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptMetric:
    """A metric that a change may move only so far, and its values in completed runs."""

    name: str
    limit: float  # of the change's value over the baseline's: 0.005 above 1, or -0.01 below 1
    pairs: tuple[tuple[float, float], ...] = ()  # of the change and the baseline

    @property
    def differences(self) -> list[float]:
        return [math.log(change / baseline) for change, baseline in self.pairs]

    @property
    def is_kept(self) -> bool | None:
        """Return whether the limit holds; None while that is not known."""
        sign = math.copysign(1.0, self.limit)
        room = [sign * (math.log1p(self.limit) - moved) for moved in self.differences]
        if log_evidence(room) >= -math.log(KEPT_LEVEL):
            return True
        if log_evidence([-each for each in room]) >= -math.log(KEPT_LEVEL):
            return False
        return None

    @property
    def moved(self) -> "Gain | None":
        return _mean_of(self.differences) if self.pairs else None

    def facts(self) -> dict[str, object]:
        """Return what `--json` has of it."""
        limit = {"name": self.name, "limit": self.limit}
        return limit | {"is_kept": self.is_kept, "moved": self.moved, "pairs": self.pairs}


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """Speeds of completed runs, oldest first: throughput, or a metric of which more is better."""

    change: tuple[float, ...] = ()
    baseline: tuple[float, ...] = ()
    earlier: tuple[float, ...] = ()  # of the baseline, before this proposal

    @property
    def num_alone(self) -> int:
        """Return how many runs of the change come before the first of the baseline; pairs begin
        with the last of them.
        """
        if len(self.earlier) < LEAST_EARLIER:
            return 1
        steps = [math.log(after / before) for before, after in itertools.pairwise(self.earlier)]
        of_neighbors = fmean(step**2 for step in steps) / 2
        spread = Spread.of(self.earlier)
        drifts = spread.squares / spread.freedom > MOST_DRIFT * of_neighbors
        return 1 if drifts else MOST_ALONE

    def pairs(
        self, change: Sequence[float], baseline: Sequence[float]
    ) -> tuple[tuple[float, float], ...]:
        """Return complete pairs of values of these runs."""
        return tuple(zip(change[self.num_alone - 1 :], baseline, strict=False))

    @property
    def differences(self) -> list[float]:
        """Return log(change / baseline) of each complete pair."""
        pairs = self.pairs(self.change, self.baseline)
        return [math.log(change / baseline) for change, baseline in pairs]

    @property
    def idle(self) -> list[float]:
        """Return the same of earlier runs of the baseline and the next ones: no run is in two."""
        pairs = zip(self.earlier[::2], self.earlier[1::2], strict=False)
        return [math.log(after / before) for before, after in pairs][-MOST_IDLE:]

    def with_run(self, side: JudgedSide, throughput: float) -> "Runs":
        if side is JudgedSide.CHANGE:
            return replace(self, change=(*self.change, throughput))
        return replace(self, baseline=(*self.baseline, throughput))


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """How much faster the change is, as 0.02."""

    value: float
    low: float | None  # of the interval that holds it at all looks; None of too few pairs
    high: float | None


def next_side(runs: Runs) -> JudgedSide:
    num_alone = runs.num_alone
    if len(runs.change) < num_alone:
        return JudgedSide.CHANGE
    num_paired, num_baseline = len(runs.change) - (num_alone - 1), len(runs.baseline)
    if num_paired != num_baseline:
        if num_paired > num_baseline:
            return JudgedSide.BASELINE
        return JudgedSide.CHANGE
    if num_paired % 2:
        return JudgedSide.BASELINE
    return JudgedSide.CHANGE


def most_runs(runs: Runs, budget: int) -> Mapping[JudgedSide, int]:
    """Return how many runs of each side as many attempts are, if no other verdict ends them."""
    nums = dict.fromkeys(JudgedSide, 0)
    for _ in range(budget):
        side = next_side(runs)
        runs = runs.with_run(side, 1.0)
        nums[side] += 1
    return nums


def decide(runs: Runs, aim: Aim, metrics: Sequence[KeptMetric] = ()) -> ChangeVerdict | None:
    """Return the verdict where it is sure; None where another run is needed. A change wins only
    once all of these metrics are known to be kept.
    """
    verdict = _decide(runs, aim)
    if verdict in (None, ChangeVerdict.BETTER):
        kept = [metric.is_kept for metric in metrics]
        if False in kept:
            return ChangeVerdict.BROKEN
        if None in kept:
            return None
    return verdict


def _decide(runs: Runs, aim: Aim) -> ChangeVerdict | None:
    differences, idle = runs.differences, runs.idle
    if log_evidence(differences, idle) >= -math.log(aim.level):
        return ChangeVerdict.BETTER
    if log_evidence([-difference for difference in differences], idle) >= -math.log(WORSE_LEVEL):
        return ChangeVerdict.WORSE
    margin = math.log1p(aim.margin)
    seen = _Seen.of(runs)
    if seen is None:
        return None
    is_hopeless = seen.log_odds_against(margin) >= math.log(ODDS)
    if is_hopeless and seen.gain > -MUCH * margin:
        return ChangeVerdict.NO_GAIN
    return None


def gain_of(runs: Runs) -> Gain | None:
    """Return the gain by pairs; without one, by the baseline's earlier runs; else None."""
    differences = runs.differences
    if not differences:
        seen = _Seen.of(runs)
        if seen:
            return Gain(value=math.expm1(seen.gain), low=None, high=None)
        return None
    return _mean_of(differences, runs.idle)


def spread_of(runs: Runs) -> float | None:
    """Return the standard deviation of one run, of logarithms; None of too few runs."""
    spread = Spread.sum((Spread.of(runs.change), Spread.of(runs.baseline)))
    return math.sqrt(spread.squares / spread.freedom) if spread.freedom else None


def noise_of(runs: Runs, aim: Aim, metrics: Sequence[KeptMetric]) -> ChangeVerdict:
    """Judge runs of one trial, dealt to two sides: whether gains of the margin would be found."""
    spread, gain = spread_of(runs), gain_of(runs)
    is_small = spread is not None and FINDABLE * spread <= aim.margin
    differs = gain is None or not (gain.low or 0) <= 0 <= (gain.high or 0)
    if is_small and not differs and all(metric.is_kept for metric in metrics):
        return ChangeVerdict.QUIET
    return ChangeVerdict.NOISY


def _mean_of(differences: Sequence[float], idle: Sequence[float] = ()) -> Gain:
    """Return the mean of one or more differences with its interval."""
    value = math.expm1(fmean(differences))
    interval = always_valid_interval(differences, idle)
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
    def of(cls, runs: Runs) -> "_Seen | None":
        """Return None for too few runs to know how far they spread."""
        earlier = runs.earlier if runs.num_alone > 1 else ()
        baseline = (*earlier, *runs.baseline)
        idle = Spread(
            squares=math.fsum(difference**2 for difference in runs.idle) / 2, freedom=len(runs.idle)
        )
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


def _mean_log(speeds: Sequence[float]) -> float:
    return fmean(math.log(speed) for speed in speeds)
