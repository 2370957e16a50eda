"""Estimates how much of a trial's step each possible bottleneck takes: the evidence of a
verdict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from analysis.explanation.ablations import FLOOR, Ablation, reads
from analysis.explanation.evidence import Evidence, Method
from analysis.explanation.exchange import ExchangeTests
from analysis.explanation.host_links import HostLinks, host_links
from analysis.explanation.links import Links
from analysis.explanation.observed import NOTHING, Observed
from analysis.explanation.step_times import Seconds, about, difference, ms, step_s
from analysis.explanation.waterfall import Cause, Part, Waterfall, shares_cores
from analysis.results import Result
from costs.networks import network
from costs.step import num_kernels
from scalemark.records.devices import DeviceKind


class Bound(StrEnum):
    """A bottleneck."""

    INPUT = "input-bound"
    LAUNCH = "launch-bound"
    COMMUNICATION = "communication-bound"
    COMPUTE = "compute-bound"
    CONTENTION = "contention"
    HEALTHY = "healthy"


# of the step, from which on what does not grow with the batch is held against launching: small
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
LAUNCH_S = 40e-6  # of one kernel, from the host's queue to its start: 20 to 40 us in the guide
NEIGHBORS_FROM = 0.10  # of the cores, that others take
THROTTLED_FROM = 0.10  # of the clock
POWER_SHARED_FROM = 0.05  # of the clock, that a GPU among others lost and one alone did not


_BOUND = {
    Cause.CONTENTION: Bound.CONTENTION,
    Cause.COMMUNICATION: Bound.COMMUNICATION,
    Cause.NETWORK: Bound.COMMUNICATION,
    Cause.INPUT: Bound.INPUT,
    Cause.DISTORTIONS: Bound.INPUT,
}

_EXCHANGING_NOTHING = (Ablation.ALONE, Ablation.INDEPENDENT)
"""Ablations that read nothing either: lower than all that a step may wait for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """One cause with its seconds per step."""

    bound: Bound | None  # None: one of several that nothing tells apart
    seconds: Seconds
    is_direct: bool  # measured for itself; else inferred from what is not
    because: str  # a part of a sentence
    method: Method
    trials: tuple[Result, ...]  # by which it is known
    # by what the links would take, as a part of a sentence; empty where they may explain it
    contradicted: str = ""
    p: float | None = None  # of a test

    def evidence(self, links: Links) -> Evidence:
        """Return it as evidence, that of communication with its rates."""
        is_sent = self.bound in (None, Bound.COMMUNICATION)
        return Evidence(
            method=self.method,
            seconds=self.seconds,
            because=self.because,
            trials=tuple(one.trial_id for one in self.trials),
            p=self.p,
            rates=links.rates(self.seconds.value) if is_sent else None,
        )


def suspects(
    fall: Waterfall,
    seen: Observed,
    of_ablations: Mapping[Ablation, Observed],
    links: Links,
    tests: ExchangeTests,
) -> list[Suspect]:
    """Return suspects, largest first; `seen` of the target, `of_ablations` of all that were found.

    `links` are those that its gradients take, `tests` know the other trials of its box.
    """
    found = [
        *_of_parts(fall, seen, links, tests),
        *_host_links(fall, seen),
        *_waiting(fall, seen),
        *_launching(fall, seen, of_ablations),
        *_neighbors(fall, seen),
    ]
    if not any(Cause.COMMUNICATION in part.causes for part in fall.parts):
        found += _shown(fall.target, fall.step.value, links, tests)
    found = [_without_neighbors(one, fall, seen) for one in found]
    found += _clocks(fall, seen, of_ablations.get(Ablation.ALONE, seen))
    return sorted(found, key=lambda one: -one.seconds.value)


def at_most_launching_s(fall: Waterfall) -> float | None:
    """Return the most that launching may take; None where nothing limits it.

    That is all that is fixed, or the floor and each kernel for itself.
    """
    known = []
    if fall.fixed:
        known.append(_highest(fall.fixed.seconds))
    kernels_s = _kernels_s(fall.target.axes)
    if fall.floor and kernels_s is not None:
        known.append(_highest(fall.floor.seconds) + kernels_s)
    return min(known, default=None)


def _highest(seconds: Seconds) -> float:
    return seconds.value if seconds.high is None else seconds.high


def _kernels_s(axes: Mapping[str, Any]) -> float | None:
    """Return the launches of a step, if each waited as long as the performance guide saw it."""
    try:
        known = network(
            str(axes["model"]).rstrip("?"), axes.get("image_px"), seq_len=axes.get("seq_len")
        )
    except ValueError:  # unknown, or of a size that it does not take
        return None
    num_batches = axes.get("gradient_accumulation") or 1
    return LAUNCH_S * num_kernels(known, num_batches, recompute=bool(axes.get("recompute")))


def _of_parts(
    fall: Waterfall, seen: Observed, links: Links, tests: ExchangeTests
) -> Iterator[Suspect]:
    single: dict[Bound, list[Part]] = {}
    for part in fall.parts:
        bounds = {_BOUND.get(cause) for cause in part.causes}
        known = [bound for bound in bounds if bound is not None]
        if len(bounds) == 1 and known:
            single.setdefault(known[0], []).append(part)
        elif known and part.seconds.value > 0:
            yield from _lump(part, fall, seen, links, tests)
    # Parts of one bound are neighbors on the ablations: reading and distorting are both input.
    for bound, parts in single.items():
        seconds = difference(parts[-1].after, parts[0].before)
        if seconds.value <= 0:
            continue
        trials = parts[-1].after, parts[0].before
        causes = [cause for part in parts for cause in part.causes]
        if bound is Bound.INPUT and not fall.target.axes["data"]:
            why = f"{_lost('input or other data', seconds.value, fall)}: not reported"
            yield _inferred(None, seconds, why, trials)
            continue
        contradicted = ""
        if bound is Bound.COMMUNICATION:
            contradicted = links.contradict(seconds.value, fall.step.value)
        yield Suspect(
            bound=bound,
            seconds=seconds,
            is_direct=True,
            because=_more(" and ".join(causes), seconds),
            method=Method.ABLATION,
            trials=trials,
            contradicted=contradicted,
        )


def _lump(
    part: Part, fall: Waterfall, seen: Observed, links: Links, tests: ExchangeTests
) -> Iterator[Suspect]:
    """Split several causes in one difference, as far as something else is known of them."""
    left_s, causes, trials = part.seconds.value, list(part.causes), (part.after, part.before)
    between = host_links(fall, seen)
    if Cause.NETWORK in causes and between:
        on_links = _of_links(between, fall.target, at_most_s=left_s)
        yield on_links
        left_s -= on_links.seconds.value
        causes.remove(Cause.NETWORK)
    if Cause.INPUT in causes:
        if seen.data_wait_share is None:
            because = _lost(" or ".join(part.causes), left_s, fall)
            yield _inferred(None, part.seconds, because, trials)
            return
        left_s -= seen.data_wait_share * fall.step.value  # which `_waiting` yields
        causes = [cause for cause in causes if _BOUND.get(cause) is not Bound.INPUT]
    if Cause.COMMUNICATION in causes and seen.exposed_share is not None:
        exposed_s = max(0.0, min(left_s, seen.exposed_share * fall.step.value))
        because = (
            f"the profile has gradients reduced with nothing beside for {seen.exposed_share:.0%} "
            "of the step"
        )
        yield _observed(Bound.COMMUNICATION, about(exposed_s), because, fall, is_direct=False)
        left_s -= exposed_s
        causes.remove(Cause.COMMUNICATION)
        if Cause.CORES in causes:  # the ideal has them, too
            return
    bounds = {_BOUND.get(cause) for cause in causes}
    if Cause.COMMUNICATION in causes and len(bounds) > 1:
        for one in _shown(part.after, left_s, links, tests):
            yield one
            left_s -= one.seconds.value
    if left_s <= 0:
        return
    yield _rest(causes, left_s, part, fall, links, tests)


def _shown(
    target: Result, at_most_s: float, links: Links, tests: ExchangeTests
) -> Iterator[Suspect]:
    """Yield communication that other trials of the box show, unless the links deny it."""
    shown = tests.shown(target)
    if shown is None or links.contradict(shown.seconds.value, step_s(target).value):
        return
    seconds = shown.seconds if shown.seconds.value <= at_most_s else about(at_most_s)
    if seconds.value > 0:
        yield Suspect(
            bound=Bound.COMMUNICATION,
            seconds=seconds,
            is_direct=False,
            because=f"communication: {ms(seconds.value)} of each step, as {shown.because}",
            method=shown.method,
            trials=shown.trials,
            p=shown.p,
        )


def _rest(
    causes: list[Cause],
    left_s: float,
    part: Part,
    fall: Waterfall,
    links: Links,
    tests: ExchangeTests,
) -> Suspect:
    """Return what is left of a difference; it has a bound only where one cause is left."""
    trials = part.after, part.before
    seconds = part.seconds if left_s == part.seconds.value else about(left_s)
    bounds = {_BOUND.get(cause) for cause in causes}
    if len(bounds) == 1 and None not in bounds:
        because = _more(" or ".join(causes), seconds)
        return _inferred(bounds.pop(), seconds, because, trials)
    because = _lost(" or ".join(causes) or "an unknown cause", left_s, fall)
    contradicted = ""
    if Cause.COMMUNICATION in causes:
        contradicted = links.contradict(left_s, fall.step.value) or tests.refuted(part.after)
    return _inferred(None, seconds, because, trials, contradicted=contradicted)


def _host_links(fall: Waterfall, seen: Observed) -> Iterator[Suspect]:
    """Yield what links between hosts take, where no subtraction shows communication."""
    causes = {cause for part in fall.parts for cause in part.causes}
    links = host_links(fall, seen)
    if links and causes.isdisjoint((Cause.NETWORK, Cause.COMMUNICATION)):
        yield _of_links(links, fall.target, at_most_s=fall.step.value)


def _of_links(links: HostLinks, target: Result, at_most_s: float) -> Suspect:
    because = (
        f"{links.link_bytes / 1e6:.3g} MB per step over links of {links.bytes_per_s / 1e6:.3g} "
        f"MB/s are {ms(links.seconds)}"
    )
    seconds = about(min(links.seconds, at_most_s))
    return _inferred(Bound.COMMUNICATION, seconds, because, (target,), method=Method.LINKS)


def _waiting(fall: Waterfall, seen: Observed) -> Iterator[Suspect]:
    """Yield the wait for batches, where no subtraction shows the input alone."""
    if not reads(fall.target.axes) or not seen.data_wait_share:
        return
    if Cause.INPUT not in {part.causes[0] for part in fall.parts if len(part.causes) == 1}:
        because = f"{seen.data_wait_share:.0%} of the step is spent waiting for batches"
        waited = about(seen.data_wait_share * fall.step.value)
        yield _observed(Bound.INPUT, waited, because, fall, is_direct=False)


def _launching(
    fall: Waterfall, seen: Observed, of_ablations: Mapping[Ablation, Observed]
) -> Iterator[Suspect]:
    """Yield what calls, and launching from them, cost, by each way that shows it."""
    if fall.calls and fall.calls.seconds.value > 0:
        steps = fall.calls.trials[1].axes["steps_per_execution"]
        share = fall.share(fall.calls.seconds.value)
        because = f"{steps} steps per call save {share:.0%} of the step"
        yield _launch(fall.calls.seconds, because, fall.calls.trials)
    if fall.fixed:
        fixed = _without_weights(fall, fall.fixed.seconds, seen)
        share = fall.share(fixed.value)
        if share >= FIXED_FROM:
            because = f"{share:.0%} of the step is there whatever the batch"
            is_direct = share >= MOSTLY_FIXED
            yield _launch(fixed, because, fall.fixed.trials, is_direct=is_direct)
    if fall.floor:
        floor = fall.floor.seconds
        because = f"the trivial model's step is {fall.share(floor.value):.0%} of this one"
        # That model computes nothing, but updates its weights.
        launching = _without_weights(fall, floor, of_ablations.get(Ablation.FLOOR, NOTHING))
        if fall.share(floor.value) >= MOSTLY_FLOOR:
            yield _launch(floor, because, fall.floor.trials)
        elif fall.share(launching.value) >= FLOOR_FROM:
            yield _launch(launching, because, fall.floor.trials)
    own = _own_costs(fall, seen)
    if fall.target.axes["model"] == FLOOR and own:
        because = "the model computes almost nothing: a step is its fixed costs"
        trials = (fall.ideal or fall.target,)
        yield _launch(own, because, trials, is_direct=fall.base in _EXCHANGING_NOTHING)
    if seen.launch_gap_share:
        because = (
            f"the profile has GPUs idle between kernels for {seen.launch_gap_share:.0%} of the step"
        )
        seconds = about(seen.launch_gap_share * fall.step.value)
        yield _observed(Bound.LAUNCH, seconds, because, fall, is_direct=False)


def _launch(
    seconds: Seconds, because: str, trials: tuple[Result, ...], *, is_direct: bool = True
) -> Suspect:
    return Suspect(
        bound=Bound.LAUNCH,
        seconds=seconds,
        is_direct=is_direct,
        because=because,
        method=Method.FIXED,
        trials=trials,
    )


def _own_costs(fall: Waterfall, seen: Observed) -> Seconds | None:
    """Return the step without reduction and input; None where they may be most of it."""
    if fall.base in _EXCHANGING_NOTHING:
        return step_s(fall.ideal) if fall.ideal and shares_cores(fall.target) else fall.base_s
    if fall.target.num_gpus == 1 and seen.data_wait_share is not None:
        return about((1 - seen.data_wait_share) * fall.step.value)
    return None


def _without_weights(fall: Waterfall, fixed: Seconds, seen: Observed) -> Seconds:
    rate = WEIGHTS_GB_PER_S[fall.target.environment.device_kind] * 1e9
    return fixed.plus(-WEIGHT_PASSES * 4 * (seen.num_parameters or 0) / rate)


def _neighbors(fall: Waterfall, seen: Observed) -> Iterator[Suspect]:
    """Yield other programs on the cores that CPU devices compute on; GPUs need few of them.

    Computing is slowed, waiting is not. Fixed costs that are slowed still hold back what computes
    almost nothing.
    """
    if shares_cores(fall.target) and seen.cores_taken and not _computes_almost_nothing(fall):
        computing_s = fall.step.value
        if fall.ideal:
            computing_s = min(computing_s, step_s(fall.ideal).value)
        seconds = about(seen.cores_taken * computing_s)
        because = f"other programs took {seen.cores_taken:.0%} of the cores"
        yield _observed(Bound.CONTENTION, seconds, because, fall)


def _computes_almost_nothing(fall: Waterfall) -> bool:
    if fall.target.axes["model"] == FLOOR:
        return True
    return fall.floor is not None and fall.share(fall.floor.seconds.value) >= MOSTLY_FLOOR


def _without_neighbors(one: Suspect, fall: Waterfall, seen: Observed) -> Suspect:
    """Blame neighbors for batches that would come in time, had others not taken the cores."""
    taken = seen.cores_taken or 0.0
    if one.bound is not Bound.INPUT or taken < NEIGHBORS_FROM or shares_cores(fall.target):
        return one
    busy_s = (1 - (seen.data_wait_share or 0.0)) * fall.step.value
    if reducing := fall.ablations.found.get(Ablation.REDUCING):
        busy_s = step_s(reducing).value
    saved_s = fall.step.value - max(busy_s, (1 - taken) * fall.step.value)
    if saved_s < 0.5 * one.seconds.value:
        return one
    because = f"other programs took {taken:.0%} of the cores that make batches"
    seconds = one.seconds.scaled(saved_s / one.seconds.value)
    return _observed(Bound.CONTENTION, seconds, because, fall, is_direct=False)


def _clocks(fall: Waterfall, seen: Observed, alone: Observed) -> Iterator[Suspect]:
    """Yield GPUs below their clocks: contention for power, unless one alone is slowed, too."""
    lost = seen.clock_loss
    if lost is None or lost < THROTTLED_FROM:
        return
    why = f" ({', '.join(seen.throttled)})" if seen.throttled else ""
    together = alone.clock_loss is not None and lost - alone.clock_loss >= POWER_SHARED_FROM
    base = fall.ablations.found.get(Ablation.ALONE)
    base_s = step_s(base) if base else fall.base_s
    bound = Bound.CONTENTION if together else Bound.COMPUTE
    because = f"GPUs ran {lost:.0%} below their highest clock{why}"
    yield _observed(bound, about(lost * base_s.value), because, fall)


def _observed(
    bound: Bound, seconds: Seconds, because: str, fall: Waterfall, *, is_direct: bool = True
) -> Suspect:
    return Suspect(
        bound=bound,
        seconds=seconds,
        is_direct=is_direct,
        because=because,
        method=Method.OBSERVED,
        trials=(fall.target,),
    )


def _inferred(
    bound: Bound | None,
    seconds: Seconds,
    because: str,
    trials: tuple[Result, ...],
    *,
    method: Method = Method.ABLATION,
    contradicted: str = "",
) -> Suspect:
    return Suspect(
        bound=bound,
        seconds=seconds,
        is_direct=False,
        because=because,
        method=method,
        trials=trials,
        contradicted=contradicted,
    )


def _more(causes: str, seconds: Seconds) -> str:
    return f"{causes}: {ms(seconds.value)} more per step"


def _lost(causes: str, lost_s: float, fall: Waterfall) -> str:
    return f"{fall.share(lost_s):.0%} of the step is lost to {causes} ({ms(lost_s)})"
