"""Splits the time of a step by subtracting real trials that differ in one thing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from analysis.explanation.ablations import ABLATION_ORDER, Ablation, Ablations
from analysis.explanation.step_times import Seconds, combined, difference, step_s
from analysis.results import Result
from scalemark.records.machine import DeviceKind


class Cause(StrEnum):
    """A reason why a step takes longer than on the ablation before."""

    CONTENTION = "contention"  # for host, power and memory
    CORES = "shared cores"  # of CPU devices: more of them make no machine larger
    COMMUNICATION = "communication"
    NETWORK = "network between hosts"
    INPUT = "input"
    DISTORTIONS = "distortions"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The time by which a step takes longer on one ablation than on a lower one."""

    causes: tuple[Cause, ...]  # several: the trials that would tell them apart are missing
    seconds: Seconds
    before: Result
    after: Result


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """A cost within the parts, known by trials beside the ablations."""

    seconds: Seconds
    trials: tuple[Result, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Waterfall:
    """The step of one target: `base` and all parts add up to it."""

    ablations: Ablations
    step: Seconds
    base: Ablation  # the lowest ablation there is
    base_s: Seconds
    parts: tuple[Part, ...]
    calls: Beside | None  # what calls of the training function cost: by many steps per call
    fixed: Beside | None  # what does not grow with the batch: by a larger one
    floor: Beside | None  # the whole step of the trivial model

    @property
    def target(self) -> Result:
        return self.ablations.target

    @property
    def ideal(self) -> Result | None:
        """The target without any loss; on CPU devices as many as there are, each for itself."""
        found = self.ablations.found
        if shares_cores(self.target):
            return found.get(Ablation.INDEPENDENT)
        return found.get(Ablation.ALONE) or found.get(Ablation.ALONE_READING)

    @property
    def efficiency(self) -> float | None:
        """The share of the ideal that is reached; 1.0 loses nothing."""
        return None if self.ideal is None else step_s(self.ideal).value / self.step.value

    @property
    def least_efficiency(self) -> float | None:
        """Return a lower bound of its efficiency against an ideal that was not measured: a step of
        one replica alone with k times the batch takes k times as long at most.
        """
        alone = self.larger_alone
        return None if alone is None else alone.seconds.value / self.step.value

    @property
    def larger_alone(self) -> Beside | None:
        """A share of the step of one replica alone with a larger batch: as much as its own has."""
        larger = self.ablations.found.get(Ablation.LARGER_BATCH)
        if larger is None or shares_cores(self.target):
            return None
        share = self.target.axes["batch_size"] / larger.axes["batch_size"]
        return Beside(seconds=step_s(larger).scaled(share), trials=(larger,))

    def share(self, seconds: float) -> float:
        """Return a share of the target's step."""
        return seconds / self.step.value


def waterfall(ablations: Ablations) -> Waterfall:
    """Take the step of a target apart, which has a number."""
    steps = _steps(ablations)
    return Waterfall(
        ablations=ablations,
        step=step_s(ablations.target),
        base=steps[0].lowest,
        base_s=step_s(steps[0].result),
        parts=tuple(_part(before, after, ablations) for before, after in pairwise(steps)),
        calls=_calls(ablations.found),
        fixed=_fixed(ablations.found),
        floor=_floor(ablations.found),
    )


def shares_cores(target: Result) -> bool:
    """Return whether replicas are parts of one machine, and not more of it."""
    return target.environment.device_kind is DeviceKind.CPU_DEVICE


@dataclass(frozen=True, slots=True)
class _Step:
    """A trial on the ablations; it may be several ablations, as one replica alone and independent
    are."""

    result: Result
    lowest: Ablation
    highest: Ablation


def _steps(ablations: Ablations) -> list[_Step]:
    steps: dict[str, _Step] = {}
    for ablation in ABLATION_ORDER[: ABLATION_ORDER.index(ablations.own) + 1]:
        result = ablations.found.get(ablation)
        if result is None:
            continue
        known = steps.get(result.trial_id)
        steps[result.trial_id] = _Step(result, known.lowest if known else ablation, ablation)
    alone = ablations.found.get(Ablation.ALONE_READING)
    if len(steps) == 1 and alone and alone.trial_id not in steps:
        return [_Step(alone, Ablation.ALONE_READING, Ablation.ALONE), *steps.values()]
    return list(steps.values())


def _part(before: _Step, after: _Step, ablations: Ablations) -> Part:
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
    if not ablations.has_meaning(Ablation.FAST_LINKS):
        del added[Ablation.FAST_LINKS]
        added[Ablation.REDUCING] = Cause.COMMUNICATION
    if target.trains_apart:
        del added[Ablation.REDUCING]
    climbed = ABLATION_ORDER[
        ABLATION_ORDER.index(before.highest) + 1 : ABLATION_ORDER.index(after.lowest) + 1
    ]
    return Part(
        causes=tuple(added[ablation] for ablation in climbed if ablation in added),
        seconds=difference(after.result, before.result),
        before=before.result,
        after=after.result,
    )


def _calls(found: Mapping[Ablation, Result]) -> Beside | None:
    """Solve t(k) = work + cost / k of k steps per call for the cost per step of the target."""
    once, many = found.get(Ablation.REDUCING), found.get(Ablation.MANY_STEPS)
    if once is None or many is None:
        return None
    share = once.axes["steps_per_execution"] / many.axes["steps_per_execution"]
    return Beside(seconds=difference(once, many).scaled(1 / (1 - share)), trials=(once, many))


def _fixed(found: Mapping[Ablation, Result]) -> Beside | None:
    """Solve t(b) = fixed + b work of one replica's batch b for what is fixed."""
    small, large = found.get(Ablation.ALONE), found.get(Ablation.LARGER_BATCH)
    if small is None or large is None:
        return None
    ratio = large.axes["batch_size"] / small.axes["batch_size"]
    terms = [(ratio / (ratio - 1), small), (-1 / (ratio - 1), large)]
    return Beside(seconds=combined(terms), trials=(small, large))


def _floor(found: Mapping[Ablation, Result]) -> Beside | None:
    floor = found.get(Ablation.FLOOR)
    return None if floor is None else Beside(seconds=step_s(floor), trials=(floor,))
