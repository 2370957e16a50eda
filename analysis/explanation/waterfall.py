"""Where the time of a step goes, by subtraction of real trials that differ in one thing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from analysis.explanation.rungs import LADDER, Rung, Rungs
from analysis.explanation.step_times import Seconds, combined, difference, step_s
from analysis.results import Result
from scalemark.records.devices import DeviceKind


class Cause(StrEnum):
    """Why a step takes longer than on the rung before."""

    CONTENTION = "contention"  # for host, power and memory
    CORES = "shared cores"  # of CPU devices: more of them make no machine larger
    COMMUNICATION = "communication"
    NETWORK = "network between hosts"
    INPUT = "input"
    DISTORTIONS = "distortions"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What a step takes longer on one rung than on a lower one."""

    causes: tuple[Cause, ...]  # several: the trials that would tell them apart are missing
    seconds: Seconds
    before: Result
    after: Result


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """A cost within the parts, known by trials beside the ladder."""

    seconds: Seconds
    trials: tuple[Result, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Waterfall:
    """The step of one target: `base` and all parts add up to it."""

    rungs: Rungs
    step: Seconds
    base: Rung  # the lowest rung there is
    base_s: Seconds
    parts: tuple[Part, ...]
    calls: Beside | None  # what calls of the training function cost: by many steps per call
    fixed: Beside | None  # what does not grow with the batch: by a larger one
    floor: Beside | None  # the whole step of the trivial model

    @property
    def target(self) -> Result:
        return self.rungs.target

    @property
    def ideal(self) -> Result | None:
        """The target without any loss; on CPU devices as many as there are, each for itself."""
        found = self.rungs.found
        if shares_cores(self.target):
            return found.get(Rung.INDEPENDENT)
        return found.get(Rung.ALONE) or found.get(Rung.ALONE_READING)

    @property
    def efficiency(self) -> float | None:
        """The share of the ideal that is reached; 1.0 loses nothing."""
        return None if self.ideal is None else step_s(self.ideal).value / self.step.value

    def share(self, seconds: float) -> float:
        """Return a share of the target's step."""
        return seconds / self.step.value


def waterfall(rungs: Rungs) -> Waterfall:
    """Take the step of a target apart, which has a number."""
    steps = _steps(rungs)
    return Waterfall(
        rungs=rungs,
        step=step_s(rungs.target),
        base=steps[0].lowest,
        base_s=step_s(steps[0].result),
        parts=tuple(_part(before, after, rungs) for before, after in pairwise(steps)),
        calls=_calls(rungs.found),
        fixed=_fixed(rungs.found),
        floor=_floor(rungs.found),
    )


def shares_cores(target: Result) -> bool:
    """Return whether replicas are parts of one machine, and not more of it."""
    return target.place.device_kind is DeviceKind.CPU_STAND_IN


@dataclass(frozen=True, slots=True)
class _Step:
    """A trial on the ladder; it may be several rungs, as one replica alone and independent are."""

    result: Result
    lowest: Rung
    highest: Rung


def _steps(rungs: Rungs) -> list[_Step]:
    steps: dict[str, _Step] = {}
    for rung in LADDER[: LADDER.index(rungs.own) + 1]:
        result = rungs.found.get(rung)
        if result is None:
            continue
        known = steps.get(result.trial_id)
        steps[result.trial_id] = _Step(result, known.lowest if known else rung, rung)
    alone = rungs.found.get(Rung.ALONE_READING)
    if len(steps) == 1 and alone and alone.trial_id not in steps:
        return [_Step(alone, Rung.ALONE_READING, Rung.ALONE), *steps.values()]
    return list(steps.values())


def _part(before: _Step, after: _Step, rungs: Rungs) -> Part:
    target = rungs.target
    added = {
        Rung.INDEPENDENT: Cause.CORES if shares_cores(target) else Cause.CONTENTION,
        Rung.FAST_LINKS: Cause.COMMUNICATION,
        Rung.REDUCING: Cause.NETWORK,
        Rung.READING: Cause.INPUT,
        Rung.DISTORTING: Cause.DISTORTIONS,
    }
    if target.num_gpus == 1:
        del added[Rung.INDEPENDENT]
    if not rungs.has_meaning(Rung.FAST_LINKS):
        del added[Rung.FAST_LINKS]
        added[Rung.REDUCING] = Cause.COMMUNICATION
    if target.trains_apart:
        del added[Rung.REDUCING]
    climbed = LADDER[LADDER.index(before.highest) + 1 : LADDER.index(after.lowest) + 1]
    return Part(
        causes=tuple(added[rung] for rung in climbed if rung in added),
        seconds=difference(after.result, before.result),
        before=before.result,
        after=after.result,
    )


def _calls(found: Mapping[Rung, Result]) -> Beside | None:
    """Solve t(k) = work + cost / k of k steps per call for the cost per step of the target."""
    once, many = found.get(Rung.REDUCING), found.get(Rung.MANY_STEPS)
    if once is None or many is None:
        return None
    share = once.axes["steps_per_execution"] / many.axes["steps_per_execution"]
    return Beside(seconds=difference(once, many).scaled(1 / (1 - share)), trials=(once, many))


def _fixed(found: Mapping[Rung, Result]) -> Beside | None:
    """Solve t(b) = fixed + b work of one replica's batch b for what is fixed."""
    small, large = found.get(Rung.ALONE), found.get(Rung.LARGER_BATCH)
    if small is None or large is None:
        return None
    ratio = large.axes["batch_size"] / small.axes["batch_size"]
    terms = [(ratio / (ratio - 1), small), (-1 / (ratio - 1), large)]
    return Beside(seconds=combined(terms), trials=(small, large))


def _floor(found: Mapping[Rung, Result]) -> Beside | None:
    floor = found.get(Rung.FLOOR)
    return None if floor is None else Beside(seconds=step_s(floor), trials=(floor,))
