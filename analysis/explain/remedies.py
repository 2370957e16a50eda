"""Lists what to do against each verdict, as trials with one axis changed.

"Optimize TensorFlow GPU performance with the TensorFlow Profiler" (source 001), and its checklist
for several GPUs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from analysis import again
from analysis.explain.causes import Bound
from analysis.results import Environment, Result
from scalemark.abilities import (
    ALL_REDUCES,
    DEFAULT_UPDATE,
    PRECISIONS,
    VARIABLE_UPDATES,
    half_precision,
    trains_apart,
)
from scalemark.records.axes import Engine
from scalemark.records.machine import DeviceKind
from scalemark.records.references import Origin
from scalemark.records.switches import unknown_to
from scalemark.text.wording import as_typed

MORE_BATCHES = 8  # that wait on each device
FEW_PACKS = 8  # tf_cnn_benchmarks' own choice of gradient_repacking
MANY_STEPS = 10  # per call


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
        change = " ".join(f"{axis}={as_typed(value)}" for axis, value in changes.items())
        if place.origin is Origin.PUBLISHED:
            offered.append(Remedy(change=change, why=why))
            continue
        changed = replace(target.spec, **changes)
        command = again.command(changed, [target], *again.repeated(len(target.repeats)))
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
    is_replicated = axes.get("variable_update", "") == DEFAULT_UPDATE
    if is_replicated:
        ways.append("hierarchical_copy")
    else:
        changes = {"variable_update": DEFAULT_UPDATE, "local_parameter_device": "gpu"}
        changes["staged_vars"] = False
        own = ""
    is_of_gpus = place.device_kind is not DeviceKind.CPU_DEVICE
    for all_reduce in ways:
        if all_reduce != own and (is_of_gpus or not ALL_REDUCES[all_reduce].gpu_only):
            yield {**changes, "all_reduce": all_reduce}, "gradients take another way"
    if is_replicated and not axes.get("gradient_repacking", 0):
        yield {"gradient_repacking": FEW_PACKS}, "few large messages instead of one per tensor"


def _compute(axes: Axes, place: Environment) -> Changes:
    if axes.get("precision", "fp32") == "fp32" and place.device_kind is not DeviceKind.CPU_DEVICE:
        half = half_precision(place.compute_capability)
        # Replicas that exchange nothing cannot agree on skipping a step.
        apart = trains_apart(axes.get("variable_update", ""))
        is_scaled = PRECISIONS[half].is_loss_scaled and not apart
        loss_scale = "dynamic" if is_scaled else "none"
        changes = {"precision": half, "loss_scale": loss_scale, "data_format": "NHWC"}
        yield changes, "tensor cores gain much by half precision, other cores little or nothing"
    if axes.get("xla", "off") == "off":
        yield {"xla": "on"}, "XLA joins kernels, and saves memory traffic"


def _fewer_calls(axes: Axes, place: Environment) -> Changes:
    """Yield more steps in a call, but where several GPUs of a process would wait for the host after
    each of them (docs/gpus.md).
    """
    update = VARIABLE_UPDATES.get(axes.get("variable_update", ""))
    is_alone = axes.get("num_gpus", 1) == 1 or (update is not None and update.is_of_one_host)
    can_gain = is_alone or place.device_kind is not DeviceKind.GPU
    if can_gain and axes.get("steps_per_execution", 1) < MANY_STEPS:
        yield {"steps_per_execution": MANY_STEPS}, "what a call costs is paid once for ten steps"


def _own_threads(axes: Axes, place: Environment) -> Changes:
    mode = axes.get("gpu_thread_mode", "global")
    if place.device_kind is not DeviceKind.CPU_DEVICE and mode == "global":
        why = "each GPU's kernels are launched from threads of their own"
        yield {"gpu_thread_mode": "gpu_private"}, why


def against_slow(replica: str, kind: DeviceKind) -> Remedy:
    """Return what to do about the replica for which all others wait."""
    why = "all others wait for it"
    if kind is DeviceKind.GPU:
        why += (
            "; nvidia-smi -q -d PERFORMANCE,CLOCK shows what holds it back, and a sweep with "
            "CUDA_VISIBLE_DEVICES without it what the others reach"
        )
    return Remedy(change=f"to repair {replica}, or leave it out", why=why)
