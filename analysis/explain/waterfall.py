"""Splits the time of a step by subtracting real trials that differ in one thing."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from analysis.explain.ablations import ABLATION_ORDER, Ablation, Ablations
from analysis.results import Result, items_per_step
from scalemark.records.machine import DeviceKind
from scalemark.stats import welch
from scalemark.stats.welch import log_quantile


@dataclass(frozen=True, slots=True, kw_only=True)
class Seconds:
    """A figure and its 95 % CI."""

    value: float
    low: float | None = None  # None where nothing is known of it
    high: float | None = None
    # the interval is over repeats on every side; else within single runs, and too narrow
    over_processes: bool = False

    @property
    def is_conclusive(self) -> bool:
        """Return whether the interval may decide something."""
        return self.over_processes and self.low is not None

    def times(self, factor: float, plus: float = 0.0) -> Seconds:
        """Return it times a factor, plus seconds that are known for certain."""
        low, high = self.low, self.high
        return Seconds(
            value=self.value * factor + plus,
            low=None if low is None else low * factor + plus,
            high=None if high is None else high * factor + plus,
            over_processes=self.over_processes,
        )


class Cause(StrEnum):
    """A reason why a step takes longer than on the ablation before."""

    CONTENTION = "contention"  # for host, power and memory
    CORES = "shared cores"  # of CPU devices: more of them make no machine larger
    COMMUNICATION = "communication"
    NETWORK = "network between hosts"
    INPUT = "input"
    DISTORTIONS = "distortions"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPart:
    """The time by which a step takes longer on one ablation than on a lower one."""

    causes: tuple[Cause, ...]  # several: the trials that would tell them apart are missing
    seconds: Seconds
    before: Result
    after: Result

    @property
    def trials(self) -> tuple[str, str]:
        return self.after.trial_id, self.before.trial_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """A cost within the parts, known by trials beside the ablations."""

    seconds: Seconds
    trials: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Waterfall:
    """The step of one target: `base` and all parts add up to it."""

    ablations: Ablations
    step: Seconds
    base: Ablation  # the lowest ablation there is
    base_s: Seconds
    parts: tuple[StepPart, ...]
    calls: Beside | None  # what calls of the training function cost: by many steps per call
    fixed: Beside | None  # what does not grow with the batch: by a larger one
    floor: Beside | None  # the whole step of the trivial model

    @property
    def target(self) -> Result:
        return self.ablations.target

    @property
    def ideal(self) -> Result | None:
        """The target without any loss; on CPU devices as many as there are, each for itself."""
        results = self.ablations.results
        if shares_cores(self.target):
            return results.get(Ablation.INDEPENDENT)
        return results.get(Ablation.ALONE) or results.get(Ablation.ALONE_READING)

    @property
    def efficiency(self) -> float | None:
        """The share of the ideal that is reached; 1.0 loses nothing."""
        if self.ideal is None:
            return None
        return step_s(self.ideal).value / self.step.value

    def share(self, seconds: float) -> float:
        """Return a share of the target's step."""
        return seconds / self.step.value


def waterfall(ablations: Ablations) -> Waterfall:
    """Take the step of a target apart, which has a number."""
    steps = _steps(ablations)
    results = ablations.results
    calls, fixed, floor = None, None, None
    once, many = results.get(Ablation.REDUCING), results.get(Ablation.MANY_STEPS)
    if once is not None and many is not None:
        # t(k) = work + cost / k of k steps per call
        share = once.axes["steps_per_execution"] / many.axes["steps_per_execution"]
        seconds = difference(once, many).times(1 / (1 - share))
        calls = Beside(seconds=seconds, trials=(once.trial_id, many.trial_id))
    small, large = results.get(Ablation.ALONE), results.get(Ablation.LARGER_BATCH)
    if small is not None and large is not None:
        # t(b) = fixed + b work of one replica's batch b
        ratio = large.axes["batch_size"] / small.axes["batch_size"]
        seconds = combined([(ratio / (ratio - 1), small), (-1 / (ratio - 1), large)])
        fixed = Beside(seconds=seconds, trials=(small.trial_id, large.trial_id))
    trivial = results.get(Ablation.FLOOR)
    if trivial is not None:
        floor = Beside(seconds=step_s(trivial), trials=(trivial.trial_id,))
    return Waterfall(
        ablations=ablations,
        step=step_s(ablations.target),
        base=steps[0].lowest,
        base_s=step_s(steps[0].result),
        parts=tuple(_part(before, after, ablations) for before, after in pairwise(steps)),
        calls=calls,
        fixed=fixed,
        floor=floor,
    )


def shares_cores(target: Result) -> bool:
    """Return whether replicas are parts of one machine, and not more of it."""
    return target.environment.device_kind is DeviceKind.CPU_DEVICE


def ms(seconds: float) -> str:
    """Write it for a sentence: `12.3 ms`, and whole milliseconds from a second on."""
    return f"{1e3 * seconds:.3g} ms" if seconds < 1 else f"{1e3 * seconds:.0f} ms"


def step_s(result: Result) -> Seconds:
    """Return the mean step time over processes, with the interval that other commands show."""
    times = _step_times(result)
    if len(times) > 1:
        low, high = welch.interval(times)
        return Seconds(value=statistics.fmean(times), low=low, high=high, over_processes=True)
    return combined([(1, result)])


def difference(after: Result, before: Result) -> Seconds:
    """Return how many seconds a step of `after` takes longer."""
    return combined([(1, after), (-1, before)])


def combined(terms: Sequence[tuple[float, Result]]) -> Seconds:
    """Sum factor x seconds per step by Welch: `[(1, b), (-1, a)]` is what b takes longer than a."""
    value, variance, weights, over_processes = 0.0, 0.0, 0.0, True
    is_known = True
    for factor, result in terms:
        mean, squared, freedom = _moments(result)
        value += factor * mean
        if squared is None:
            is_known = False
            continue
        variance += factor**2 * squared
        over_processes &= freedom is not None
        weights += (factor**2 * squared) ** 2 / (freedom or math.inf)
    if not is_known:
        return Seconds(value=value)
    freedom = variance**2 / weights if weights > 0 else math.inf
    if not over_processes:
        freedom = math.inf  # within a process samples are many
    reach = math.exp(log_quantile(max(1.0, freedom))) * math.sqrt(variance)
    return Seconds(
        value=value, low=value - reach, high=value + reach, over_processes=over_processes
    )


def _step_times(result: Result) -> list[float]:
    """Return the step time of each repeat, seconds."""
    return [items_per_step(result) / value for value in result.repeats]


def _moments(result: Result) -> tuple[float, float | None, float | None]:
    """Return the mean step time, its squared standard error, and the degrees of freedom of that.

    The error is None where nothing is known, the degrees of freedom are None within a single run.
    """
    times = _step_times(result)
    if len(times) > 1:
        return statistics.fmean(times), statistics.variance(times) / len(times), len(times) - 1.0
    if result.low is None or result.high is None or result.low <= 0:
        return times[0], None, None
    half = items_per_step(result) * (1 / result.low - 1 / result.high) / 2
    return times[0], (half / math.exp(log_quantile(math.inf))) ** 2, None


@dataclass(frozen=True, slots=True)
class _Step:
    """A trial on the ablations; it may be several, as one replica alone and independent are."""

    result: Result
    lowest: Ablation
    highest: Ablation


def _steps(ablations: Ablations) -> list[_Step]:
    steps: dict[str, _Step] = {}
    for ablation in ABLATION_ORDER[: ABLATION_ORDER.index(ablations.own) + 1]:
        result = ablations.results.get(ablation)
        if result is None:
            continue
        known = steps.get(result.trial_id)
        steps[result.trial_id] = _Step(result, known.lowest if known else ablation, ablation)
    alone = ablations.results.get(Ablation.ALONE_READING)
    if len(steps) == 1 and alone and alone.trial_id not in steps:
        return [_Step(alone, Ablation.ALONE_READING, Ablation.ALONE), *steps.values()]
    return list(steps.values())


def _part(before: _Step, after: _Step, ablations: Ablations) -> StepPart:
    target = ablations.target
    added = {
        Ablation.INDEPENDENT: Cause.CORES if shares_cores(target) else Cause.CONTENTION,
        Ablation.FAST_LINKS: Cause.COMMUNICATION,
        Ablation.REDUCING: Cause.NETWORK,
        Ablation.READING: Cause.INPUT,
        Ablation.DISTORTING: Cause.DISTORTIONS,
    }
    if target.num_gpus == 1:
        del added[Ablation.INDEPENDENT]
    if Ablation.FAST_LINKS not in (*ablations.results, *ablations.missing):
        del added[Ablation.FAST_LINKS]
        added[Ablation.REDUCING] = Cause.COMMUNICATION
    if target.trains_apart:
        del added[Ablation.REDUCING]
    first = ABLATION_ORDER.index(before.highest) + 1
    climbed = ABLATION_ORDER[first : ABLATION_ORDER.index(after.lowest) + 1]
    return StepPart(
        causes=tuple(added[ablation] for ablation in climbed if ablation in added),
        seconds=difference(after.result, before.result),
        before=before.result,
        after=after.result,
    )
