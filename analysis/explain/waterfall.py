"""Splits the time of a step by subtracting real trials that differ in one thing, and reads what is
known beside step times: waiting for input, clocks, neighbors, and a profile.
"""

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from typing import Any

from analysis.explain.ablations import ABLATION_ORDER, Ablation, Ablations
from analysis.results import Result, is_quotable, items_per_step
from analysis.selection import Source
from scalemark.records.machine import DeviceKind
from scalemark.records.measurement import INJECTED_REASON
from scalemark.stats import welch
from simulator.costs.networks import network

LAUNCH_S = 40e-6  # of one kernel, from the host's queue to its start: 20 to 40 us in the guide
LEAST_LAUNCH_S = 20e-6
COMPUTED_AGAIN = 4 / 3  # of the operations, where the forward pass is computed twice

Times = Mapping[str, Sequence[float]]
"""Replica -> seconds of its own compute in each round of one process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slowness:
    """The time of a replica above the median of the others, as a share of that."""

    replica: str
    value: float
    low: float  # both hold for all replicas at once in 98 % of cases
    high: float
    others_s: float  # median time of the others' own compute


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowReplicas:
    """The answer to which replica is slow, see `analysis.explain.slow_replica`."""

    slow: tuple[Slowness, ...]  # slowest first; empty where none is, or where it cannot be told
    slowest: Slowness | None  # None where there are too few times
    unknown: str = ""  # why it cannot be told, a part of a sentence; empty where it can
    since: float = 0.0  # share of its rounds before it became slow
    timed_in: str = ""  # another trial that timed them; empty: this one, or none

    @property
    def since_when(self) -> str:
        return f" in the last {1 - self.since:.0%} of its steps" if self.since else ""


UNTIMED = SlowReplicas(slow=(), slowest=None, unknown="the compute of each replica was not timed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """Medians over the attempts of one trial that have a number; None where it was not recorded."""

    data_wait_share: float | None = None  # of the measured window
    cores_taken: float | None = None  # by others, of all cores: 0..1
    num_cores: int | None = None
    # of the GPU that lost most, for which the others wait, below the highest clock it can: 0..1
    clock_loss: float | None = None
    # reason why clocks were lowered, as trainer/watching/telemetry.py names it -> UUIDs of the GPUs
    throttled: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    num_parameters: int | None = None
    doubts: tuple[str, ...] = ()  # why an attempt is suspect, but for injected faults
    # of the newest attempt that has one: a scalemark.records.measurement.Profile
    profile: Mapping[str, Any] | None = None
    replica_times: tuple[Times, ...] = ()  # of each attempt that timed them

    @property
    def launch_gap_share(self) -> float | None:
        """Share of the profiled step in which GPUs waited for the host to launch kernels.

        From one step to the next they may wait for input, or for a reduction elsewhere, too.
        """
        if self.profile is None:
            return None
        within, between = self.profile["launch_gap_share"], self.profile.get("step_gap_share")
        if within is None:
            return None
        if between is None:
            return float(within)
        waits = self.profile["input_wait_s"] + self.profile["exposed_reduction_s"]
        return float(within + max(0.0, between - waits / self.profile["step_s"]))


NOTHING = Observed()


def observed(attempts: Sequence[Mapping[str, Any]]) -> Observed:
    """Summarize rows of `store.reading.listing.attempt_details`, oldest first."""
    if not attempts:
        return NOTHING
    taken: list[float] = []
    clock_losses: list[float | None] = []
    throttled: dict[str, dict[str, None]] = {}
    doubts: dict[str, None] = {}
    profile = None
    replica_times = []
    for row in attempts:
        if row["cores_taken_by_others"] is not None:
            taken.append(row["cores_taken_by_others"] / row["num_cores"])
        losses = []
        for gpu in row.get("recorded_telemetry") or ():
            for cause in gpu["throttle_reasons"]:
                throttled.setdefault(cause, {})[gpu["uuid"]] = None
            if gpu["sm_clock_mhz"] and gpu["max_sm_clock_mhz"]:
                losses.append(1 - gpu["sm_clock_mhz"] / gpu["max_sm_clock_mhz"])
        clock_losses.append(max(losses, default=None))
        for reason in row["verdict_reasons"] or ():
            if not reason.startswith(INJECTED_REASON):
                doubts[reason] = None
        profile = row["recorded_profile"] or profile
        times = row.get("recorded_replica_times")
        if times:
            replica_times.append(times["seconds"])
    newest = attempts[-1]
    return Observed(
        data_wait_share=_median(row["data_wait_share"] for row in attempts),
        cores_taken=_median(taken),
        num_cores=newest["num_cores"],
        clock_loss=_median(clock_losses),
        throttled={cause: tuple(gpus) for cause, gpus in throttled.items()},
        num_parameters=newest["num_parameters"],
        doubts=tuple(doubts),
        profile=profile,
        replica_times=tuple(replica_times),
    )


def observer(source: Source) -> Callable[[Result], Observed]:
    """Return what observes a result of the source; of published figures nothing is seen."""

    def observe(result: Result) -> Observed:
        rows = [source.attempts[number] for number in result.attempt_ids]
        return observed([row for row in rows if is_quotable(row)])

    return observe


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    if known:
        return statistics.median(known)
    return None


def kernels_s(axes: Mapping[str, Any]) -> float | None:
    """Return the launches of a step, if each waited as long as the performance guide saw it."""
    name = str(axes["model"]).rstrip("?")
    try:
        counted = network(name, axes.get("image_px"), axes.get("num_classes"), axes.get("seq_len"))
    except ValueError:  # unknown, or of a size that it does not take
        return None
    num_kernels = counted.num_operations * (axes.get("gradient_accumulation") or 1)
    return LAUNCH_S * num_kernels * (COMPUTED_AGAIN if axes.get("recompute") else 1)


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

    def times(self, factor: float, plus: float = 0.0) -> "Seconds":
        """Return the seconds times a factor, plus seconds that are known for certain."""
        low, high = self.low, self.high
        if low is not None and high is not None:
            low, high = low * factor + plus, high * factor + plus
        value, over_processes = self.value * factor + plus, self.over_processes
        return Seconds(value=value, low=low, high=high, over_processes=over_processes)


class Cause(StrEnum):
    """A reason why a step takes longer than on the ablation before."""

    CONTENTION = "contention"  # for host, power and memory
    CORES = "shared cores"  # of CPU devices: more of them make no machine larger
    COMMUNICATION = "communication"
    INPUT = "input"
    DISTORTIONS = "distortions"


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedTime:
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
    parts: tuple[AddedTime, ...]
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
    if seconds < 1:
        return f"{1e3 * seconds:.3g} ms"
    return f"{1e3 * seconds:.0f} ms"


def percent(share: float) -> str:
    """Format a share, with digits where it would else read as the threshold that it misses."""
    if 0.095 <= share < 0.105 or 0.895 <= share < 0.905:
        return f"{100 * share:.3g}%"
    shown = f"{share:.0%}"
    return "0%" if shown == "-0%" else shown


def step_s(result: Result) -> Seconds:
    """Return the mean step time over processes, with the interval that other commands show."""
    if len(result.repeats) < 2:
        return combined([(1, result)])
    times = _step_times(result)
    low, high = welch.interval(times)
    return Seconds(value=statistics.fmean(times), low=low, high=high, over_processes=True)


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
    freedom = math.inf  # within a process samples are many
    if over_processes and weights > 0:
        freedom = variance**2 / weights
    reach = math.exp(welch.log_quantile(max(1.0, freedom))) * math.sqrt(variance)
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
    return times[0], (half / math.exp(welch.log_quantile(math.inf))) ** 2, None


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


def _part(before: _Step, after: _Step, ablations: Ablations) -> AddedTime:
    target = ablations.target
    added = {
        Ablation.INDEPENDENT: Cause.CORES if shares_cores(target) else Cause.CONTENTION,
        Ablation.REDUCING: Cause.COMMUNICATION,
        Ablation.READING: Cause.INPUT,
        Ablation.DISTORTING: Cause.DISTORTIONS,
    }
    if target.num_gpus == 1:
        del added[Ablation.INDEPENDENT]
    if target.trains_apart:
        del added[Ablation.REDUCING]
    first = ABLATION_ORDER.index(before.highest) + 1
    climbed = ABLATION_ORDER[first : ABLATION_ORDER.index(after.lowest) + 1]
    return AddedTime(
        causes=tuple(added[ablation] for ablation in climbed if ablation in added),
        seconds=difference(after.result, before.result),
        before=before.result,
        after=after.result,
    )
