"""Lists the causes that may hold a trial back: seconds of its step, and the evidence of each."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from analysis.explain.ablations import COMPARED, FLOOR, Ablation, reads
from analysis.explain.waterfall import (
    NOTHING,
    AddedTime,
    Beside,
    Cause,
    Observed,
    Seconds,
    Waterfall,
    difference,
    kernels_s,
    ms,
    percent,
    shares_cores,
    step_s,
)
from analysis.known_boxes import is_known
from analysis.results import Result
from scalemark.records.machine import DeviceKind
from scalemark.records.trial import STRATEGY_AXES, free_names
from scalemark.text.wording import as_typed

NEIGHBORS_FROM = 0.10  # of the cores, that others take
THROTTLED_FROM = 0.10  # of the clock
POWER_SHARED_FROM = 0.05  # of the clock, that a GPU among others lost and one alone did not
# of the step, from which on what does not grow with the batch counts as launching: small
# batches use less of a device, too
FIXED_FROM = 0.25
MOSTLY_FIXED = 0.5  # of the step: kernels that do not fill a device at their ends take less
# of the step: a model that takes not even twice as long as the trivial one is all fixed costs
MOSTLY_FLOOR = 0.5
FLOOR_FROM = 0.10  # of the step, of the floor without its weights
# how often a step goes through the memory of all weights at most: read, gradients, slots, update
WEIGHT_PASSES = 8
WEIGHTS_GB_PER_S = {
    DeviceKind.GPU: 200.0,
    DeviceKind.SIMULATED_GPU: 200.0,
    DeviceKind.CPU_DEVICE: 4.0,
}
"""At least (K80: 240 at its peak), so that what is left of fixed costs is not of the weights."""
FIGURES_DIFFER_FROM = 0.10  # of the step: two figures without repeats, so far apart, are no noise
EXCHANGING_NOTHING = (Ablation.ALONE, Ablation.INDEPENDENT)
"""Ablations that read nothing either: lower than all that a step may wait for."""
_OF_EXCHANGE = (*STRATEGY_AXES, "gradient_repacking", "compact_gradients")
"""Axes by which replicas exchange gradients in another way, and compute the same."""


class Bound(StrEnum):
    """A bottleneck."""

    INPUT = "input-bound"
    LAUNCH = "launch-bound"
    HOST = "host-bound"  # only of users' programs, whose own code may be anything
    COMMUNICATION = "communication-bound"
    COMPUTE = "compute-bound"
    CONTENTION = "contention"
    SLOW_REPLICA = "slow replica"
    HEALTHY = "healthy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One cause with its seconds per step, and what shows it."""

    bound: Bound | None  # None: one of several that nothing tells apart
    seconds: Seconds
    because: str  # a part of a sentence
    trials: tuple[str, ...]  # that show it; of a difference what is subtracted comes last
    is_direct: bool = True  # measured for itself; else inferred from what is not
    by_neighbors: bool = False  # other programs that took cores


_BOUND = {
    Cause.CONTENTION: Bound.CONTENTION,
    Cause.COMMUNICATION: Bound.COMMUNICATION,
    Cause.INPUT: Bound.INPUT,
    Cause.DISTORTIONS: Bound.INPUT,
}


class OtherWays:
    """Finds the same trial with another way of exchange, among all results."""

    def __init__(self, results: Iterable[Result]) -> None:
        self._alike: dict[object, list[Result]] = defaultdict(list)
        for result in results:
            if result.num_gpus > 1 and not result.trains_apart and is_known(result.axes):
                self._alike[_but_for_exchange(result)].append(result)

    def fastest(self, target: Result) -> Result | None:
        """Return the fastest, if it is faster by more than noise than all that go the target's way,
        of which published figures have several.
        """
        if target.trains_apart or not is_known(target.axes):
            return None
        alike = self._alike.get(_but_for_exchange(target), ())
        fastest = min(alike, key=lambda other: step_s(other).value, default=target)
        if all(fastest.axes.get(name) == target.axes.get(name) for name in _OF_EXCHANGE):
            return None
        lost = difference(target, fastest)
        least_s = 0.0 if lost.is_conclusive else FIGURES_DIFFER_FROM * step_s(target).value
        if lost.value <= least_s or (lost.low is not None and lost.low <= 0):
            return None
        return fastest


def _but_for_exchange(result: Result) -> tuple[object, ...]:
    same = []
    for name in (*COMPARED, *free_names(result.axes)):
        if name in result.axes and name not in _OF_EXCHANGE:
            same.append((name, result.axes[name]))
    return result.environment.key, result.item, *same


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """All that is known of one target."""

    fall: Waterfall
    seen: Observed
    of_ablations: Mapping[Ablation, Observed]
    ways: OtherWays
    waiting: Evidence | None  # for a slow replica


def list_causes(case: Case) -> list[Evidence]:
    """Return what may hold it back, largest first.

    Waiting for a slow replica is taken off contention, where trials show it as such.
    """
    fall, waited_s = case.fall, 0.0
    causes = []
    if case.waiting is not None:
        waited_s = case.waiting.seconds.value
        causes.append(case.waiting)
        parts = []
        for part in fall.parts:
            if Cause.CONTENTION in part.causes:
                part = replace(part, seconds=part.seconds.times(1.0, -waited_s))
            parts.append(part)
        fall = replace(fall, parts=tuple(parts))
        case = replace(case, fall=fall)
    causes += _of_parts(case)
    causes += _waiting_for_batches(case)
    causes += _launching(case)
    causes += _neighbors(case)
    if not any(Cause.COMMUNICATION in part.causes for part in fall.parts):
        causes += _by_other_way(case, fall.target, fall.step.value)
    causes = [_without_neighbors(evidence, case) for evidence in causes]
    causes += _clocks(case, waited_s)
    return sorted(causes, key=lambda evidence: -evidence.seconds.value)


def at_most_launching_s(fall: Waterfall) -> float | None:
    """Return the most that launching may take; None where nothing limits it.

    That is all that is fixed, or the floor and each kernel for itself.
    """
    limits = []
    if fall.fixed:
        limits.append(_highest(fall.fixed.seconds))
    counted_s = kernels_s(fall.target.axes)
    if fall.floor and counted_s is not None:
        limits.append(_highest(fall.floor.seconds) + counted_s)
    return min(limits, default=None)


def _of_parts(case: Case) -> Iterator[Evidence]:
    fall = case.fall
    single: dict[Bound, list[AddedTime]] = {}
    for part in fall.parts:
        bounds = {_BOUND.get(cause) for cause in part.causes}
        known = [bound for bound in bounds if bound is not None]
        if len(bounds) == 1 and known:
            single.setdefault(known[0], []).append(part)
        elif known and part.seconds.value > 0:
            yield from _of_several(part, case)
    # Parts of one bound are neighbors on the ablations: reading and distorting are both input.
    for bound, parts in single.items():
        seconds = parts[0].seconds
        if len(parts) > 1:
            seconds = difference(parts[-1].after, parts[0].before)
        if seconds.value <= 0:
            continue
        trials = parts[-1].after.trial_id, parts[0].before.trial_id
        if bound is Bound.INPUT and not fall.target.axes["data"]:
            because = f"{_lost_to('input or other data', seconds.value, fall)}: not reported"
            yield _shown(None, seconds, because, trials, is_direct=False)
            continue
        because = _takes(
            " and ".join(cause for part in parts for cause in part.causes), seconds, fall
        )
        yield _shown(bound, seconds, because, trials)


def _of_several(part: AddedTime, case: Case) -> Iterator[Evidence]:
    """Split several causes in one difference, as far as something else is known of them."""
    fall, share = case.fall, case.seen.data_wait_share
    left_s, causes = part.seconds.value, list(part.causes)
    if Cause.INPUT in causes:
        if share is None:
            because = _lost_to(" or ".join(part.causes), left_s, fall)
            yield _shown(None, part.seconds, because, part.trials, is_direct=False)
            return
        # `_waiting_for_batches` has the wait; what distortions add to it may be subtracted already
        waited_s = share * fall.step.value
        for other in fall.parts:
            if other.causes == (Cause.DISTORTIONS,):
                waited_s -= other.seconds.value
        left_s -= max(0.0, waited_s)
        causes = [cause for cause in causes if _BOUND.get(cause) is not Bound.INPUT]
    if Cause.COMMUNICATION in causes and len({_BOUND.get(cause) for cause in causes}) > 1:
        for evidence in _by_other_way(case, part.after, left_s):
            yield evidence
            left_s -= evidence.seconds.value
    if left_s <= 0:
        return
    seconds, bound = part.seconds, None
    if left_s != seconds.value:
        seconds = Seconds(value=left_s)
    bounds = {_BOUND.get(cause) for cause in causes}
    if len(bounds) == 1 and None not in bounds:  # one cause is left
        bound, because = bounds.pop(), _takes(" or ".join(causes), seconds, fall)
    else:
        because = _lost_to(" or ".join(causes) or "an unknown cause", left_s, fall)
        if {Cause.CONTENTION, Cause.COMMUNICATION} <= set(causes):
            because += "; independent replicas would tell"
    yield _shown(bound, seconds, because, part.trials, is_direct=False)


def _by_other_way(case: Case, target: Result, at_most_s: float) -> Iterator[Evidence]:
    """Yield communication that a faster way of exchange shows."""
    other = case.ways.fastest(target)
    if other is None:
        return
    seconds = difference(target, other)
    if seconds.value > at_most_s:
        seconds = Seconds(value=at_most_s)
    names = [other.strategy]
    for axis in ("gradient_repacking", "compact_gradients"):
        value = other.axes.get(axis)
        if value != target.axes.get(axis):
            names.append(f"{axis}={as_typed(value)}")
    takes = _takes(Cause.COMMUNICATION, seconds, case.fall)
    because = f"{takes}: {' '.join(names)} takes that much less"
    if seconds.value > 0:
        trials = target.trial_id, other.trial_id
        yield _shown(Bound.COMMUNICATION, seconds, because, trials, is_direct=False)


def _waiting_for_batches(case: Case) -> Iterator[Evidence]:
    """Yield the wait for batches, where no subtraction shows the input alone."""
    fall, share = case.fall, case.seen.data_wait_share
    if not reads(fall.target.axes) or not share:
        return
    if all(part.causes != (Cause.INPUT,) for part in fall.parts):
        because = f"{percent(share)} of the step is spent waiting for batches"
        waited_s = share * fall.step.value
        trials = (fall.target.trial_id,)
        yield _shown(Bound.INPUT, waited_s, because, trials, is_direct=False)


def _launching(case: Case) -> Iterator[Evidence]:
    """Yield what calls, and launching from them, cost, by each way that shows it."""
    fall, seen = case.fall, case.seen
    if fall.calls and fall.calls.seconds.value > 0:
        many = fall.ablations.results[Ablation.MANY_STEPS]
        share = fall.share(fall.calls.seconds.value)
        because = (
            f"{many.axes['steps_per_execution']} steps per call save {percent(share)} of the step"
        )
        yield _launch(fall.calls, because)
    if fall.fixed:
        fixed = _without_weights(fall, fall.fixed.seconds, seen)
        share = fall.share(fixed.value)
        if share >= FIXED_FROM:
            because = f"{percent(share)} of the step is there whatever the batch"
            is_direct = share >= MOSTLY_FIXED
            yield _launch(replace(fall.fixed, seconds=fixed), because, is_direct=is_direct)
    if fall.floor:
        floor = fall.floor.seconds
        because = f"the trivial model's step is {percent(fall.share(floor.value))} of this one"
        # That model computes nothing, but updates its weights.
        launching = _without_weights(fall, floor, case.of_ablations.get(Ablation.FLOOR, NOTHING))
        if fall.share(floor.value) >= MOSTLY_FLOOR:
            yield _launch(fall.floor, because)
        elif fall.share(launching.value) >= FLOOR_FROM:
            yield _launch(replace(fall.floor, seconds=launching), because)
    own = None  # the step without reduction and input, unless they may be most of it
    if fall.base in EXCHANGING_NOTHING:
        own = fall.base_s
        if fall.ideal and shares_cores(fall.target):
            own = step_s(fall.ideal)
    elif fall.target.num_gpus == 1 and seen.data_wait_share is not None:
        own = Seconds(value=(1 - seen.data_wait_share) * fall.step.value)
    if fall.target.axes["model"] == FLOOR and own:
        because = "the model computes almost nothing: a step is its fixed costs"
        beside = Beside(seconds=own, trials=((fall.ideal or fall.target).trial_id,))
        yield _launch(beside, because, is_direct=fall.base in EXCHANGING_NOTHING)
    gap = seen.launch_gap_share
    if gap:
        because = f"the profile has GPUs wait for launches for {gap:.0%} of the step"
        trials = (fall.target.trial_id,)
        yield _shown(Bound.LAUNCH, gap * fall.step.value, because, trials, is_direct=False)


def _launch(beside: Beside, because: str, *, is_direct: bool = True) -> Evidence:
    return _shown(Bound.LAUNCH, beside.seconds, because, beside.trials, is_direct=is_direct)


def _without_weights(fall: Waterfall, fixed: Seconds, seen: Observed) -> Seconds:
    rate = WEIGHTS_GB_PER_S[fall.target.environment.device_kind] * 1e9
    return fixed.times(1.0, -WEIGHT_PASSES * 4 * (seen.num_parameters or 0) / rate)


def _neighbors(case: Case) -> Iterator[Evidence]:
    """Yield other programs on the cores that CPU devices compute on; GPUs need few of them.

    Computing is slowed, waiting is not. Fixed costs that are slowed still hold back what computes
    almost nothing.
    """
    fall, taken = case.fall, case.seen.cores_taken
    is_floor = fall.target.axes["model"] == FLOOR
    if fall.floor is not None and fall.share(fall.floor.seconds.value) >= MOSTLY_FLOOR:
        is_floor = True
    if shares_cores(fall.target) and taken and not is_floor:
        computing_s = fall.step.value
        if fall.ideal:
            computing_s = min(computing_s, step_s(fall.ideal).value)
        lost_s = taken * computing_s
        because = f"other programs took {taken:.0%} of the cores"
        trials = (fall.target.trial_id,)
        # as if computing slowed by as much, which nothing measured
        evidence = _shown(Bound.CONTENTION, lost_s, because, trials, is_direct=False)
        yield replace(evidence, by_neighbors=True)


def _without_neighbors(evidence: Evidence, case: Case) -> Evidence:
    """Blame neighbors for batches that would come in time, had others not taken the cores."""
    fall, seen = case.fall, case.seen
    taken = seen.cores_taken or 0.0
    if evidence.bound is not Bound.INPUT or taken < NEIGHBORS_FROM or shares_cores(fall.target):
        return evidence
    busy_s = (1 - (seen.data_wait_share or 0.0)) * fall.step.value
    reducing = fall.ablations.results.get(Ablation.REDUCING)
    if reducing is not None:
        busy_s = step_s(reducing).value
    saved_s = fall.step.value - max(busy_s, (1 - taken) * fall.step.value)
    if saved_s < 0.5 * evidence.seconds.value:
        return evidence
    because = f"other programs took {taken:.0%} of the cores that make batches"
    lost = evidence.seconds.times(saved_s / evidence.seconds.value)
    trials = (fall.target.trial_id,)
    blamed = _shown(Bound.CONTENTION, lost, because, trials, is_direct=False)
    return replace(blamed, by_neighbors=True)


def _clocks(case: Case, waited_s: float) -> Iterator[Evidence]:
    """Yield GPUs below their clocks: contention for power, unless one alone is slowed, too. What is
    waited for the slowest of them is not theirs.
    """
    fall, seen, lost = case.fall, case.seen, case.seen.clock_loss
    if lost is None or lost < THROTTLED_FROM:
        return
    alone = case.of_ablations.get(Ablation.ALONE, seen)
    base = fall.ablations.results.get(Ablation.ALONE)
    base_s = step_s(base) if base else fall.base_s
    reasons = [reason for reason in sorted(seen.throttled) if reason.startswith(("hw_", "sw_"))]
    why = f" ({', '.join(reasons)})" if reasons else ""
    seconds = lost * base_s.value - waited_s
    because = (
        f"GPUs ran {lost:.0%} below their highest clock{why}, which costs up to "
        f"{percent(fall.share(seconds))} of the step"
    )
    bound = Bound.COMPUTE
    if alone.clock_loss is not None and lost - alone.clock_loss >= POWER_SHARED_FROM:
        bound = Bound.CONTENTION
    if seconds > 0:
        yield _shown(bound, seconds, because, (fall.target.trial_id,))


def _shown(
    bound: Bound | None,
    seconds: Seconds | float,
    because: str,
    trials: tuple[str, ...],
    *,
    is_direct: bool = True,
) -> Evidence:
    return Evidence(
        bound=bound,
        seconds=Seconds(value=seconds) if isinstance(seconds, float) else seconds,
        because=because,
        trials=trials,
        is_direct=is_direct,
    )


def _highest(seconds: Seconds) -> float:
    if seconds.high is None:
        return seconds.value
    return seconds.high


def _takes(causes: str, seconds: Seconds, fall: Waterfall) -> str:
    takes = "take" if " and " in causes else "takes"
    return f"{causes} {takes} {percent(fall.share(seconds.value))} of the step, {ms(seconds.value)}"


def _lost_to(causes: str, lost_s: float, fall: Waterfall) -> str:
    return f"{percent(fall.share(lost_s))} of the step is lost to {causes} ({ms(lost_s)})"
