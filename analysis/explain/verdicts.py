"""Decides what holds a trial back, how sure that is, and what to do against it.

It is never sure without repeats. Of N GPUs, with shares of the target's own step:

| verdict | when |
|---|---|
| healthy | efficiency 0.9 or more of the ideal, and no cause has 10 % |
| slow replica | what all wait for it, by the times of each, is the largest, and has 10 % |
| compute-bound | one replica without a cause of 10 %, or GPUs, one alone too, below clocks |
| any other | its cause is the largest, and has 10 % |
| none (cannot tell) | the largest cannot be distinguished from another, or from nothing |

What one replica alone and N of them differ by is contention or communication, and no verdict by
itself: independent replicas, or another way of exchange, have to show which.

Remedies are trials with one axis changed, of "Optimize TensorFlow GPU performance with the
TensorFlow Profiler" (source 001) and its checklist for several GPUs.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from analysis import again
from analysis.explain import ablations, waterfall
from analysis.explain.causes import (
    EXCHANGING_NOTHING,
    MOSTLY_FIXED,
    NEIGHBORS_FROM,
    Bound,
    Case,
    Evidence,
    at_most_launching_s,
    list_causes,
)
from analysis.results import Environment, Result
from scalemark import abilities
from scalemark.records import overrides
from scalemark.records.axes import Engine
from scalemark.records.machine import DeviceKind
from scalemark.records.references import Origin
from scalemark.records.switches import unknown_to
from scalemark.records.trial import TrialSpec
from scalemark.text.wording import listed

# of the step: as much as the launch gaps that the performance guide calls worth fixing
MATTERS = 0.10
HEALTHY_FROM = 0.90  # of the ideal
NEARLY = 0.9  # of the largest: a second so near is as likely
UNNAMED = "another cause"


class Confidence(StrEnum):
    """The confidence in a verdict."""

    SURE = "sure"  # measured for itself, over repeats, and apart from every other
    LIKELY = "likely"
    CANNOT_TELL = "cannot tell"


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """The verdict on one target."""

    bound: Bound | None  # None: cannot tell
    confidence: Confidence
    why: str  # a part of a sentence
    doubts: tuple[str, ...]  # why it is not surer, most important first
    causes: tuple[Evidence, ...]  # all that may hold it back, largest first


def diagnose(case: Case) -> Diagnosis:
    """Judge a target."""
    causes = list_causes(case)
    heavy = []
    for cause in causes:
        if case.fall.share(cause.seconds.value) >= MATTERS:
            heavy.append(cause)
    bound, why = _judge(case, heavy) if heavy else _judge_quiet(case, causes)
    doubts = list(_doubts_about_trials(case))
    if bound is not None:
        doubts += _doubts_about_verdict(case, bound, causes, heavy)
    return diagnosed(bound, why, doubts, causes)


def diagnosed(
    bound: Bound | None, why: str, doubts: Sequence[str], causes: Sequence[Evidence]
) -> Diagnosis:
    """Return a verdict that is as sure as its doubts allow."""
    confidence = Confidence.SURE
    if doubts:
        confidence = Confidence.LIKELY
    if bound is None:
        confidence = Confidence.CANNOT_TELL
    return Diagnosis(
        bound=bound, confidence=confidence, why=why, doubts=tuple(doubts), causes=tuple(causes)
    )


def _judge(case: Case, heavy: Sequence[Evidence]) -> tuple[Bound | None, str]:
    """Return the bound and why, where causes take 10 % of the step or more."""
    top = heavy[0]
    why = top.because
    if top.bound is None:
        return None, why
    lows = [cause.seconds.low for cause in heavy if cause.bound is top.bound]
    if all(low is not None and low <= 0 for low in lows):
        return None, f"{why}; its repeats cannot tell it from nothing"
    rivals = [cause for cause in heavy if cause.bound is not top.bound]
    if rivals:
        is_near = rivals[0].seconds.value >= NEARLY * top.seconds.value
        if is_near and not _is_apart(top, rivals[0]):
            rival = rivals[0].bound or UNNAMED
            return None, f"{top.bound} and {rival} are as large as each other"
    unlimited = _unlimited_launching(case, top.seconds.value)
    if unlimited and top.bound not in (Bound.INPUT, Bound.LAUNCH):
        return None, f"{why}; {unlimited}"
    return top.bound, why


def _judge_quiet(case: Case, causes: Sequence[Evidence]) -> tuple[Bound | None, str]:
    """Return the bound and why, where no cause takes 10 % of the step."""
    fall, seen = case.fall, case.seen
    unlimited = _unlimited_launching(case, 0.0)
    if unlimited:
        return None, unlimited
    if ablations.has_own_loop(fall.target.axes):
        return None, "its loop is not ours, and no trial of ours takes that apart"
    if fall.target.num_gpus == 1:
        is_input_known = seen.data_wait_share is not None
        is_input_known |= ablations.Ablation.REDUCING in fall.ablations.results
        if ablations.reads(fall.target.axes) and not is_input_known:
            return None, "nothing shows what its input costs; synthetic data would tell"
        if not (fall.calls or fall.fixed or fall.floor or seen.launch_gap_share is not None):
            why = "nothing shows what launching its kernels costs; a larger batch would tell"
            return None, why
        return Bound.COMPUTE, "no cause that was measured takes 10% of the step"
    if fall.efficiency is None:
        ideal = (
            "independent replicas" if waterfall.shares_cores(fall.target) else "one replica alone"
        )
        return None, f"nothing to compare it with; {ideal} would tell"
    of_ideal = f"it reaches {waterfall.percent(fall.efficiency)} of the ideal"
    if fall.efficiency >= HEALTHY_FROM:
        return Bound.HEALTHY, of_ideal
    why = f"{of_ideal}, and no cause alone takes 10% of the step"
    if not causes:
        return None, why
    return None, f"{why}; {causes[0].because}"


def _unlimited_launching(case: Case, largest_s: float) -> str:
    """Return that launching may be most of the step and more than the largest cause, where kernels
    are counted and nothing else tells what launching costs; empty where it is not.
    """
    fall = case.fall
    counted_s = waterfall.kernels_s(fall.target.axes)
    is_limited = fall.fixed or case.seen.launch_gap_share is not None
    if is_limited or counted_s is None or waterfall.shares_cores(fall.target):
        return ""
    expected_s = min(counted_s * waterfall.LEAST_LAUNCH_S / waterfall.LAUNCH_S, fall.base_s.value)
    if expected_s < max(largest_s, MOSTLY_FIXED * fall.step.value):
        return ""
    share = fall.share(expected_s)
    return (
        f"launching its kernels may take {share:.0%} of the step; {_shows_fixed(fall)} would tell"
    )


def _shows_fixed(fall: waterfall.Waterfall) -> str:
    """Return which trial would show what is fixed in a step."""
    if ablations.Ablation.LARGER_BATCH in fall.ablations.results:
        return "one replica alone"
    return "a larger batch"


def _is_apart(top: Evidence, other: Evidence) -> bool:
    """Return whether the intervals of both leave no doubt which one is larger."""
    low = top.seconds.value
    if top.seconds.is_conclusive and top.seconds.low is not None:
        low = top.seconds.low
    return low > _at_most(other.seconds)


def _at_most(seconds: waterfall.Seconds) -> float:
    """Return the end of its interval; without one a half more must do."""
    if seconds.is_conclusive and seconds.high is not None:
        return seconds.high
    return 1.5 * seconds.value


def _doubts_about_trials(case: Case) -> Iterator[str]:
    """Yield what is wrong with the trials that were subtracted."""
    results = case.fall.ablations.results
    if case.fall.target.environment.origin is Origin.PUBLISHED:
        yield "published figures have no repeats"
        return
    if any(len(results[name].repeats) < 2 for name in ablations.ABLATION_ORDER if name in results):
        yield "single runs: sweep.repeats=3 would show how far others differ"
    for ablation, seen in case.of_ablations.items():
        if seen.doubts:
            yield f"the trial that isolates {ablation} is in doubt: {seen.doubts[0]}"


def _doubts_about_verdict(
    case: Case, bound: Bound, causes: Sequence[Evidence], heavy: Sequence[Evidence]
) -> Iterator[str]:
    """Yield why a verdict is not sure, as parts of sentences."""
    fall = case.fall
    yield from _doubts_about_launching(case, bound, heavy)
    taken = case.seen.cores_taken or 0.0
    is_touched = bound in (Bound.INPUT, Bound.LAUNCH)
    if waterfall.shares_cores(fall.target):
        is_touched = bound is not Bound.CONTENTION
    if is_touched and taken >= NEIGHBORS_FROM:
        yield f"other programs took {taken:.0%} of the cores"
    alone = fall.ablations.results.get(ablations.Ablation.ALONE)
    if bound is not Bound.COMMUNICATION and alone is not None:
        is_served = alone.axes["local_parameter_device"] == "cpu" and not alone.trains_apart
        if is_served and not waterfall.shares_cores(alone):
            yield "the one replica fetches its variables from the CPU, which counts as its compute"
    of_bound = [cause for cause in heavy if cause.bound is bound]
    if bound is Bound.HEALTHY:
        assert fall.ideal is not None  # nothing is healthy without it
        lost = waterfall.difference(fall.target, fall.ideal)
        if lost.is_conclusive and fall.share(lost.high or 0.0) > MATTERS:
            yield "the interval of its loss reaches above 10% of the step"
        if ablations.Ablation.ALONE_READING in fall.ablations.results:
            yield "one replica was measured with its input alone, which may hold that back, too"
    elif of_bound:
        yield from _doubts_about_top(fall, of_bound[0], heavy)
    else:  # causes that seem to take less than what matters, but whose intervals reach it
        known = [(" or ".join(part.causes), part.seconds) for part in fall.parts]
        known += [(str(cause.bound), cause.seconds) for cause in causes if cause.bound]
        names: dict[str, None] = {}
        for name, seconds in known:
            if name not in names and fall.share(_at_most(seconds)) >= MATTERS:
                names[name] = None
                yield f"the interval of {name} reaches 10% of the step"


def _doubts_about_launching(case: Case, bound: Bound, heavy: Sequence[Evidence]) -> Iterator[str]:
    """Yield what launching may take, unless it is little, or less than the verdict's cause."""
    fall = case.fall
    surely_s = _surely_s(bound, heavy)
    # Nothing unknown takes more than what surely has half of the step.
    if surely_s > 0.5 * fall.step.value or case.seen.launch_gap_share is not None:
        return
    if bound is Bound.LAUNCH or fall.target.axes["model"] == ablations.FLOOR:
        return
    most_s = at_most_launching_s(fall)
    if most_s is None:
        yield f"without {_shows_fixed(fall)} nothing shows what is fixed in a step"
    elif fall.share(most_s) >= MATTERS and surely_s <= most_s:
        yield (
            f"up to {min(1.0, fall.share(most_s)):.0%} of the step may be there whatever the "
            "batch: launching, or the memory of the weights"
        )


def _surely_s(bound: Bound | None, heavy: Sequence[Evidence]) -> float:
    """Return what the verdict's cause takes at least, by its interval; 0 where nothing is sure."""
    if not heavy or heavy[0].bound is not bound:
        return 0.0
    top = heavy[0]
    if top.is_direct and top.seconds.is_conclusive:
        return top.seconds.low or 0.0
    return 0.0


def _doubts_about_top(
    fall: waterfall.Waterfall, top: Evidence, heavy: Sequence[Evidence]
) -> Iterator[str]:
    missing = [str(name) for name in fall.ablations.missing if name in ablations.ABLATION_ORDER]
    # Nothing larger may be hidden in what the waterfall stands on.
    is_whole = fall.target.num_gpus == 1
    is_whole |= fall.base in (*EXCHANGING_NOTHING, ablations.Ablation.ALONE_READING)
    is_whole |= _surely_s(top.bound, heavy) > 0.5 * fall.step.value
    if missing and not (top.is_direct and is_whole):
        yield f"missing to tell it from other causes: {listed(missing)}"
    if top.by_neighbors and not waterfall.shares_cores(fall.target):
        yield "its input may be as slow by itself: again without other programs would tell"
    elif not missing and not top.is_direct:
        yield "nothing measured it for itself"
    if top.seconds.is_conclusive and fall.share(top.seconds.low or 0.0) < MATTERS:
        yield "its interval reaches below 10% of the step"
    for other in heavy:
        if other.bound is not top.bound and not _is_apart(top, other):
            yield f"{other.bound or UNNAMED} may be as large"


MOST_REPEATS = 3  # of a remedy's trial: a target that was judged has dozens
MORE_BATCHES = 8  # that wait on each device
FEW_PACKS = 8  # tf_cnn_benchmarks' own choice of gradient_repacking


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """One change, and the command that tests it."""

    change: str  # as "prefetch=8"
    why: str
    command: str = ""  # empty for published figures, and where no trial tests it
    trial_id: str = ""  # of the trial that the command runs


def remedies(
    bound: Bound | None,
    target: Result,
    num_cores: int | None = None,
    *,
    refuted: Collection[str] = (),
) -> list[Remedy]:
    """Return the remedies against a verdict, but for axes that trials have `refuted`."""
    place = target.environment
    if bound is None or bound is Bound.SLOW_REPLICA:  # no axis makes a GPU faster
        return []
    left_out = set(refuted)
    if place.device_kind is DeviceKind.SIMULATED_GPU:
        left_out.update(unknown_to(Engine.simulated))
    offered = []
    for changes, why in _changes(bound, target.axes, place, num_cores or 8):
        if changes.keys() & left_out:
            continue
        change = " ".join(overrides.of_axes(changes))
        if place.origin is Origin.PUBLISHED:
            offered.append(Remedy(change=change, why=why))
            continue
        changed = TrialSpec.of_axes({**target.axes, **changes})
        update = abilities.VARIABLE_UPDATES.get(changed.variable_update)
        if update and any(update.refusals(changed)):
            continue
        num_repeats = min(len(target.repeats), MOST_REPEATS)
        command = again.command(changed, [target], *again.repeated(num_repeats))
        offered.append(Remedy(change=change, why=why, command=command, trial_id=changed.trial_id))
    return offered


Axes = Mapping[str, Any]  # of published figures a few
Changes = Iterator[tuple[dict[str, Any], str]]


def _changes(bound: Bound, axes: Axes, place: Environment, num_cores: int) -> Changes:
    if bound is Bound.INPUT:
        yield from _input(axes, num_cores)
        yield from _own_threads(axes, place)
    elif bound is Bound.LAUNCH:
        yield {"batch_size": 4 * axes.get("batch_size", 1)}, "each launched kernel does more"
        yield from _fewer_calls(axes, place)
        if axes.get("xla", "off") == "off":
            yield {"xla": "on"}, "XLA joins small kernels"
        yield from _own_threads(axes, place)
    elif bound is Bound.CONTENTION:
        yield from _own_threads(axes, place)
        yield from _fewer_calls(axes, place)
    elif bound is Bound.COMMUNICATION:
        yield from _communication(axes, place)
    else:
        yield from _compute(axes, place)


def _input(axes: Axes, num_cores: int) -> Changes:
    if not axes.get("cache", True):
        yield {"cache": True}, "records are read from memory after the first time"
    if axes.get("data_threads", 0) not in (0, num_cores):
        yield {"data_threads": num_cores}, "more of the input is decoded at once"
    if axes.get("prefetch", 2) < MORE_BATCHES:
        yield {"prefetch": MORE_BATCHES}, "waiting batches hide input that takes unevenly long"
    if axes.get("distortions", False):
        yield {"distortions": False}, "it shows what distorting costs: if that is all, distort less"


def _communication(axes: Axes, place: Environment) -> Changes:
    why = "gradients are sent as often, for twice the batch"
    yield {"batch_size": 2 * axes.get("batch_size", 1)}, why
    num_micro = 4 * (axes.get("gradient_accumulation") or 1)
    why = "gradients are sent as often, for four times the micro-batches"
    yield {"gradient_accumulation": num_micro}, why
    if axes.get("hosts", 1) > 1:
        return  # strategies over several hosts are other trials, which `advise` ranks
    changes: dict[str, Any] = {}
    own, ways = axes.get("all_reduce", ""), ["nccl", "pscpu"]
    is_replicated = axes.get("variable_update", "") == abilities.DEFAULT_UPDATE
    if is_replicated:
        ways.append("hierarchical_copy")
    else:
        changes = {"variable_update": abilities.DEFAULT_UPDATE, "local_parameter_device": "gpu"}
        changes["staged_vars"] = False
        own = ""
    is_of_gpus = place.device_kind is not DeviceKind.CPU_DEVICE
    for all_reduce in ways:
        if all_reduce != own and (is_of_gpus or not abilities.ALL_REDUCES[all_reduce].gpu_only):
            yield {**changes, "all_reduce": all_reduce}, "gradients take another way"
    if is_replicated and not axes.get("gradient_repacking", 0):
        yield {"gradient_repacking": FEW_PACKS}, "few large messages instead of one per tensor"


def _compute(axes: Axes, place: Environment) -> Changes:
    if axes.get("precision", "fp32") == "fp32" and place.device_kind is not DeviceKind.CPU_DEVICE:
        half = abilities.half_precision(place.compute_capability)
        # Replicas that exchange nothing cannot agree on skipping a step.
        apart = abilities.trains_apart(axes.get("variable_update", ""))
        is_scaled = abilities.PRECISIONS[half].is_loss_scaled and not apart
        loss_scale = "dynamic" if is_scaled else "none"
        changes = {"precision": half, "loss_scale": loss_scale, "data_format": "NHWC"}
        yield changes, "half precision is much faster on tensor cores, hardly on other cores"
    if axes.get("xla", "off") == "off":
        yield {"xla": "on"}, "XLA joins kernels, and saves memory traffic"


def _fewer_calls(axes: Axes, place: Environment) -> Changes:
    """Yield more steps in a call, unless several GPUs of a process would wait (docs/gpus.md)."""
    update = abilities.VARIABLE_UPDATES.get(axes.get("variable_update", ""))
    is_alone = axes.get("num_gpus", 1) == 1 or (update is not None and update.is_of_one_host)
    can_gain = is_alone or place.device_kind is not DeviceKind.GPU
    if can_gain and axes.get("steps_per_execution", 1) < ablations.MANY_STEPS:
        changes = {"steps_per_execution": ablations.MANY_STEPS}
        yield changes, "what a call costs is paid once for ten steps"


def _own_threads(axes: Axes, place: Environment) -> Changes:
    if place.device_kind is DeviceKind.GPU and not axes.get("env.TF_GPU_THREAD_MODE"):
        why = "each GPU's kernels are launched from threads of their own"
        yield {"env.TF_GPU_THREAD_MODE": "gpu_private"}, why


def against_slow(replica: str, kind: DeviceKind) -> Remedy:
    """Return what to do about the replica for which all others wait."""
    why = "all others wait for it"
    if kind is DeviceKind.GPU:
        why += (
            "; nvidia-smi -q -d PERFORMANCE,CLOCK shows what holds it back, and a sweep with "
            "CUDA_VISIBLE_DEVICES without it what the others reach"
        )
    return Remedy(change=f"to repair {replica}, or leave it out", why=why)
