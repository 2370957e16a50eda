"""Estimates what launching kernels and calling the training function take of a step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from analysis.explanation.ablations import FLOOR, Ablation
from analysis.explanation.evidence import Method
from analysis.explanation.observed import NOTHING, Observed
from analysis.explanation.step_times import Seconds, about, step_s
from analysis.explanation.suspects import Bound, Suspect, observed_in
from analysis.explanation.waterfall import Waterfall, shares_cores
from analysis.results import Result
from scalemark.records.machine import DeviceKind
from simulator.costs.networks import network
from simulator.costs.step import num_operations

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
# of one kernel, from the host's queue to its start: 20 to 40 us in the guide
LAUNCH_S = 40e-6
LEAST_LAUNCH_S = 20e-6

_EXCHANGING_NOTHING = (Ablation.ALONE, Ablation.INDEPENDENT)
"""Ablations that read nothing either: lower than all that a step may wait for."""


def launching(
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
            f"the profile has GPUs wait for launches for {seen.launch_gap_share:.0%} of the step"
        )
        seconds = about(seen.launch_gap_share * fall.step.value)
        yield observed_in(Bound.LAUNCH, seconds, because, fall, is_direct=False)


def at_most_launching_s(fall: Waterfall) -> float | None:
    """Return the most that launching may take; None where nothing limits it.

    That is all that is fixed, or the floor and each kernel for itself.
    """
    known = []
    if fall.fixed:
        known.append(_highest(fall.fixed.seconds))
    counted_s = kernels_s(fall.target.axes)
    if fall.floor and counted_s is not None:
        known.append(_highest(fall.floor.seconds) + counted_s)
    return min(known, default=None)


def expected_launching_s(fall: Waterfall) -> float | None:
    """Return what launching takes if each kernel waits as short as the guide saw, within the step
    of the lowest ablation; None where the kernels are not counted.
    """
    counted_s = kernels_s(fall.target.axes)
    if counted_s is None or shares_cores(fall.target):
        return None
    return min(counted_s * LEAST_LAUNCH_S / LAUNCH_S, fall.base_s.value)


def shows_fixed(fall: Waterfall) -> str:
    """Return which trial would show what is fixed in a step."""
    has_larger = Ablation.LARGER_BATCH in fall.ablations.found
    return "one replica alone" if has_larger else "a larger batch"


def computes_almost_nothing(fall: Waterfall) -> bool:
    if fall.target.axes["model"] == FLOOR:
        return True
    return fall.floor is not None and fall.share(fall.floor.seconds.value) >= MOSTLY_FLOOR


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


def _highest(seconds: Seconds) -> float:
    return seconds.value if seconds.high is None else seconds.high


def kernels_s(axes: Mapping[str, Any]) -> float | None:
    """Return the launches of a step, if each waited as long as the performance guide saw it."""
    try:
        known = network(
            str(axes["model"]).rstrip("?"), axes.get("image_px"), seq_len=axes.get("seq_len")
        )
    except ValueError:  # unknown, or of a size that it does not take
        return None
    num_batches = axes.get("gradient_accumulation") or 1
    return LAUNCH_S * num_operations(known, num_batches, recompute=bool(axes.get("recompute")))
