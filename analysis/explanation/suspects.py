"""What may hold a trial back, and how much of its step each suspect takes: the evidence of a
verdict.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from analysis.explanation.host_links import HostLinks, host_links
from analysis.explanation.inner_links import InnerLinks
from analysis.explanation.observed import NOTHING, Observed
from analysis.explanation.rungs import FLOOR, Rung, reads
from analysis.explanation.step_times import Seconds, difference, step_s
from analysis.explanation.waterfall import Cause, Part, Waterfall, shares_cores
from costs.networks import network
from scalemark.records.devices import DeviceKind


class Bound(StrEnum):
    """What a trial is held back by."""

    INPUT = "input-bound"
    LAUNCH = "launch-bound"
    COMMUNICATION = "communication-bound"
    COMPUTE = "compute-bound"
    CONTENTION = "contention"
    HEALTHY = "healthy"


# of the step, before what does not grow with the batch is held against launching: small batches use
# less, too
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
    DeviceKind.CPU_STAND_IN: 4.0,
}
"""At least (K80: 240 at its peak), so that what is left of the fixed costs is none of the weights'
own.
"""
LAUNCH_S = 40e-6  # of one kernel, from the host's queue to its start: 20 to 40 us in the guide
NEIGHBORS_FROM = 0.10  # of the cores, that others take
THROTTLED_FROM = 0.10  # of the clock
POWER_SHARED_FROM = 0.05  # of the clock, that a GPU among others lost and one alone did not
# times what the bytes of its own way of training take at the measured rate
HOST_LINKS_EXPLAIN = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Links:
    """What the links would take of a step."""

    seconds: float
    at_most_s: float  # however badly they are used

    def contradict(self, lost_s: float) -> str:
        """Why communication cannot be all that was lost, as a sentence's part; empty where it
        can.
        """
        if lost_s <= self.at_most_s:
            return ""
        return (
            f"the links would take {_ms(self.seconds)} of these {_ms(lost_s)}, and do not "
            "explain the rest"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """One cause with its seconds per step."""

    bound: Bound | None  # None: one of several that nothing tells apart
    seconds: Seconds
    is_direct: bool  # measured for itself; else inferred from what is not
    because: str  # a part of a sentence
    # by what the links would take, as a sentence's part; empty where they may explain it
    contradicted: str = ""


def suspects(
    fall: Waterfall,
    seen: Observed,
    of_rungs: Mapping[Rung, Observed],
    inner: InnerLinks | None = None,
) -> list[Suspect]:
    """Largest first. `seen` of the target, `of_rungs` of all that were found.

    `inner`: what the links within one host would take; None where nobody knows.
    """
    found = [
        *_of_parts(fall, seen, _expected(fall, seen, inner)),
        *_links(fall, seen),
        *_waiting(fall, seen),
        *_launching(fall, seen, of_rungs),
        *_neighbors(fall, seen),
    ]
    found = [
        *_without_neighbors(found, fall, seen),
        *_clocks(fall, seen, of_rungs.get(Rung.ALONE, seen)),
    ]
    return sorted(found, key=lambda one: -one.seconds.value)


def at_most_launching_s(fall: Waterfall) -> float | None:
    """What launching may take: all that is fixed, or the floor and each kernel for itself; None
    where neither is known.
    """
    known = []
    if fall.fixed:
        known.append(_highest(fall.fixed.seconds))
    if fall.floor and (kernels_s := _kernels_s(fall.target.axes)) is not None:
        known.append(_highest(fall.floor.seconds) + kernels_s)
    return min(known, default=None)


def _highest(seconds: Seconds) -> float:
    return seconds.value if seconds.high is None else seconds.high


def _kernels_s(axes: Mapping[str, Any]) -> float | None:
    """All kernels of a step, if each waited for the host as long as the performance guide saw it;
    None of unknown models.
    """
    try:
        return network(str(axes["model"]).rstrip("?"), axes.get("image_px")).num_kernels * LAUNCH_S
    except ValueError:  # unknown, or of an image too small for it
        return None


def _expected(fall: Waterfall, seen: Observed, inner: InnerLinks | None) -> _Links | None:
    """None where nobody knows."""
    if links := host_links(fall, seen):
        return _Links(seconds=links.seconds, at_most_s=HOST_LINKS_EXPLAIN * links.seconds)
    return None if inner is None else _Links(seconds=inner.seconds, at_most_s=inner.at_most_s)


def _of_parts(fall: Waterfall, seen: Observed, links: _Links | None) -> Iterator[Suspect]:
    single: dict[Bound, list[Part]] = {}
    for part in fall.parts:
        bounds = {_BOUND.get(cause) for cause in part.causes}
        if len(bounds) == 1 and (bound := bounds.pop()):
            single.setdefault(bound, []).append(part)
        elif bounds - {None} and part.seconds.value > 0:
            yield from _lump(part, fall, seen, links)
    # neighbors on the ladder: reading and distorting are both input
    for bound, parts in single.items():
        seconds = difference(parts[-1].after, parts[0].before)
        if seconds.value > 0:
            causes = " and ".join(cause for part in parts for cause in part.causes)
            contradicted = (
                links.contradict(seconds.value) if links and bound is Bound.COMMUNICATION else ""
            )
            yield Suspect(
                bound=bound,
                seconds=seconds,
                is_direct=True,
                because=_told(causes, seconds),
                contradicted=contradicted,
            )


def _lump(part: Part, fall: Waterfall, seen: Observed, links: _Links | None) -> Iterator[Suspect]:
    """Several causes in one difference: split as far as something else tells of them."""
    left, causes = part.seconds.value, part.causes
    if Cause.NETWORK in causes and (between := host_links(fall, seen)):
        on_links = _of_links(between, at_most_s=left)
        yield on_links
        left, causes = left - on_links.seconds.value, _but_for(causes, Cause.NETWORK)
    if Cause.INPUT in causes:
        if seen.data_wait_share is None:
            yield Suspect(
                bound=None,
                seconds=part.seconds,
                is_direct=False,
                because=_told(_either(part.causes), part.seconds),
            )
            return
        waited_s = seen.data_wait_share * fall.step.value  # see _waiting
        left, causes = left - waited_s, _but_for(causes, Cause.INPUT, Cause.DISTORTIONS)
    if Cause.COMMUNICATION in causes and seen.exposed_share is not None:
        exposed_s = max(0.0, min(left, seen.exposed_share * fall.step.value))
        because = (
            f"the profile has gradients reduced with nothing beside for {seen.exposed_share:.0%} "
            "of the step"
        )
        yield Suspect(
            bound=Bound.COMMUNICATION, seconds=_about(exposed_s), is_direct=False, because=because
        )
        left, causes = left - exposed_s, _but_for(causes, Cause.COMMUNICATION)
        if Cause.CORES in causes:  # the ideal has them, too
            return
    if left > 0:
        seconds = part.seconds if left == part.seconds.value else _about(left)
        because = _told(_either(causes) if causes else "what nothing tells of", seconds)
        bound = _likeliest(causes)
        contradicted = links.contradict(left) if links and bound is Bound.COMMUNICATION else ""
        if contradicted:
            bound = None
        yield Suspect(
            bound=bound,
            seconds=seconds,
            is_direct=False,
            because=because,
            contradicted=contradicted,
        )


def _but_for(causes: Sequence[Cause], *others: Cause) -> tuple[Cause, ...]:
    return tuple(cause for cause in causes if cause not in others)


def _likeliest(causes: Sequence[Cause]) -> Bound | None:
    """Of what is left of a difference."""
    if Cause.CORES in causes:
        return None
    return next(
        (
            _BOUND[cause]
            for cause in (Cause.COMMUNICATION, Cause.NETWORK, Cause.CONTENTION)
            if cause in causes
        ),
        None,
    )


def _links(fall: Waterfall, seen: Observed) -> Iterator[Suspect]:
    """Between hosts, where no subtraction tells of communication."""
    causes = {cause for part in fall.parts for cause in part.causes}
    if not causes & {Cause.NETWORK, Cause.COMMUNICATION} and (links := host_links(fall, seen)):
        yield _of_links(links, at_most_s=fall.step.value)


def _of_links(links: HostLinks, at_most_s: float) -> Suspect:
    because = (
        f"{links.link_bytes / 1e6:.3g} MB per step over links of {links.bytes_per_s / 1e6:.3g} "
        f"MB/s are {_ms(links.seconds)}"
    )
    return Suspect(
        bound=Bound.COMMUNICATION,
        seconds=_about(min(links.seconds, at_most_s)),
        is_direct=False,
        because=because,
    )


def _waiting(fall: Waterfall, seen: Observed) -> Iterator[Suspect]:
    """For batches, where no subtraction tells of the input alone."""
    if not reads(fall.target.axes) or not seen.data_wait_share:
        return
    if Cause.INPUT not in {part.causes[0] for part in fall.parts if len(part.causes) == 1}:
        because = f"{seen.data_wait_share:.0%} of the step is spent waiting for batches"
        seconds = _about(seen.data_wait_share * fall.step.value)
        yield Suspect(bound=Bound.INPUT, seconds=seconds, is_direct=False, because=because)


def _launching(
    fall: Waterfall, seen: Observed, of_rungs: Mapping[Rung, Observed]
) -> Iterator[Suspect]:
    """What calls, and launching from them, cost: the largest that is known."""
    if fall.calls and fall.calls.seconds.value > 0:
        steps = fall.calls.trials[1].axes["steps_per_execution"]
        because = (
            f"{steps} steps per call save {fall.share(fall.calls.seconds.value):.0%} of the step"
        )
        yield Suspect(
            bound=Bound.LAUNCH, seconds=fall.calls.seconds, is_direct=True, because=because
        )
    if (
        fall.fixed
        and (fixed := _without_weights(fall, fall.fixed.seconds, seen)).value
        >= FIXED_FROM * fall.step.value
    ):
        because = (
            f"{fall.share(fixed.value):.0%} of the step is there whatever the batch, and more "
            "than the weights explain"
        )
        is_direct = fixed.value >= MOSTLY_FIXED * fall.step.value
        yield Suspect(bound=Bound.LAUNCH, seconds=fixed, is_direct=is_direct, because=because)
    if fall.floor:
        yield from _of_floor(fall, fall.floor.seconds, of_rungs.get(Rung.FLOOR, NOTHING))
    if fall.target.axes["model"] == FLOOR and (seconds := _own_costs(fall, seen)):
        because = "the model computes almost nothing: a step is its fixed costs"
        is_direct = fall.base in _EXCHANGING_NOTHING
        yield Suspect(bound=Bound.LAUNCH, seconds=seconds, is_direct=is_direct, because=because)
    if seen.launch_gap_share:
        because = (
            f"the profile has GPUs idle between kernels for {seen.launch_gap_share:.0%} of the step"
        )
        seconds = _about(seen.launch_gap_share * fall.step.value)
        yield Suspect(bound=Bound.LAUNCH, seconds=seconds, is_direct=False, because=because)


def _own_costs(fall: Waterfall, seen: Observed) -> Seconds | None:
    """What is left of a step without reduction and input; None where they may be most of it."""
    if fall.base in _EXCHANGING_NOTHING:
        return step_s(fall.ideal) if fall.ideal and shares_cores(fall.target) else fall.base_s
    if fall.target.num_gpus == 1 and seen.data_wait_share is not None:
        return _about((1 - seen.data_wait_share) * fall.step.value)
    return None


def _of_floor(fall: Waterfall, floor: Seconds, seen: Observed) -> Iterator[Suspect]:
    """The trivial model computes nothing but updates its weights."""
    because = f"the trivial model's step is {fall.share(floor.value):.0%} of this one"
    launching = _without_weights(fall, floor, seen)
    if fall.share(floor.value) >= MOSTLY_FLOOR:
        yield Suspect(bound=Bound.LAUNCH, seconds=floor, is_direct=True, because=because)
    elif fall.share(launching.value) >= FLOOR_FROM:
        yield Suspect(bound=Bound.LAUNCH, seconds=launching, is_direct=True, because=because)


def _without_weights(fall: Waterfall, fixed: Seconds, seen: Observed) -> Seconds:
    rate = WEIGHTS_GB_PER_S[fall.target.place.device_kind] * 1e9
    weights_s = WEIGHT_PASSES * 4 * (seen.num_parameters or 0) / rate
    low, high = (None if bound is None else bound - weights_s for bound in (fixed.low, fixed.high))
    return Seconds(
        value=fixed.value - weights_s, low=low, high=high, over_processes=fixed.over_processes
    )


def _neighbors(fall: Waterfall, seen: Observed) -> Iterator[Suspect]:
    """Other programs on the cores that stand-ins compute on; GPUs need few of them. Computing is
    slowed, waiting is not.

    Fixed costs that are slowed are still what holds back who computes almost nothing.
    """
    if shares_cores(fall.target) and seen.cores_taken and not _computes_almost_nothing(fall):
        because = f"other programs took {seen.cores_taken:.0%} of the cores"
        computing_s = min(
            fall.step.value, step_s(fall.ideal).value if fall.ideal else fall.step.value
        )
        yield Suspect(
            bound=Bound.CONTENTION,
            seconds=_about(seen.cores_taken * computing_s),
            is_direct=True,
            because=because,
        )


def _computes_almost_nothing(fall: Waterfall) -> bool:
    if fall.target.axes["model"] == FLOOR:
        return True
    return fall.floor is not None and fall.share(fall.floor.seconds.value) >= MOSTLY_FLOOR


def _without_neighbors(
    found: Sequence[Suspect], fall: Waterfall, seen: Observed
) -> Iterator[Suspect]:
    """Batches that would come in time, had others not taken the cores that make them, are no fault
    of the input.
    """
    reducing = fall.rungs.found.get(Rung.REDUCING)
    taken = seen.cores_taken or 0.0
    for one in found:
        if one.bound is not Bound.INPUT or taken < NEIGHBORS_FROM or shares_cores(fall.target):
            yield one
            continue
        busy_s = (
            step_s(reducing).value
            if reducing
            else (1 - (seen.data_wait_share or 0.0)) * fall.step.value
        )
        saved_s = fall.step.value - max(busy_s, (1 - taken) * fall.step.value)
        if saved_s < 0.5 * one.seconds.value:
            yield one
            continue
        because = (
            f"other programs took {taken:.0%} of the cores that make batches, which come late "
            "for it"
        )
        seconds = one.seconds.scaled(saved_s / one.seconds.value)
        yield Suspect(bound=Bound.CONTENTION, seconds=seconds, is_direct=False, because=because)


def _clocks(fall: Waterfall, seen: Observed, alone: Observed) -> Iterator[Suspect]:
    """Power and heat that GPUs share make them contend; what slows one alone, too, is its own."""
    if (lost := seen.clock_loss) is None or lost < THROTTLED_FROM:
        return
    why = f" ({', '.join(seen.throttled)})" if seen.throttled else ""
    because = f"GPUs ran {lost:.0%} below their highest clock{why}"
    together = alone.clock_loss is not None and lost - alone.clock_loss >= POWER_SHARED_FROM
    base = fall.rungs.found.get(Rung.ALONE)
    slowed_s = lost * (step_s(base).value if base else fall.base_s.value)
    bound = Bound.CONTENTION if together else Bound.COMPUTE
    yield Suspect(bound=bound, seconds=_about(slowed_s), is_direct=True, because=because)


def _about(value: float) -> Seconds:
    return Seconds(value=value, low=None, high=None, over_processes=False)


def _told(causes: str, seconds: Seconds) -> str:
    return f"{causes}: {_ms(seconds.value)} more per step"


def _either(causes: Sequence[Cause]) -> str:
    return " or ".join(causes)


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.3g} ms" if seconds < 1 else f"{1e3 * seconds:.0f} ms"


_EXCHANGING_NOTHING = (Rung.ALONE, Rung.INDEPENDENT)
"""And reading nothing: lower than all that a step may wait for."""

_BOUND = {
    Cause.CONTENTION: Bound.CONTENTION,
    Cause.COMMUNICATION: Bound.COMMUNICATION,
    Cause.NETWORK: Bound.COMMUNICATION,
    Cause.INPUT: Bound.INPUT,
    Cause.DISTORTIONS: Bound.INPUT,
}
