"""Lists what the performance guide recommends against each verdict, as trials with one axis
changed.

"Optimize TensorFlow GPU performance with the TensorFlow Profiler" (source 001), and its checklist
for several GPUs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from analysis import again
from analysis.explanation.communication.host_links import link_bytes
from analysis.explanation.suspects import Bound
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
from scalemark.records.origin import Origin
from scalemark.records.strategies import STRATEGY_AXES, STRATEGY_NAMES
from scalemark.records.trial import TrialSpec
from scalemark.records.unknown_axes import unknown_to
from scalemark.text.wording import as_typed
from simulator.costs.box import Hardware
from simulator.costs.memory import memory_bytes
from simulator.costs.work import Work

_NOT_SIMULATED = unknown_to(Engine.simulated)
MORE_BATCHES = 8  # that wait on each device
FEW_PACKS = 8  # tf_cnn_benchmarks' own choice of gradient_repacking


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """One change, and the command that tests it."""

    change: str  # as "prefetch=8"
    why: str
    command: str  # empty for published figures
    trial_id: str = ""  # of the trial that the command runs


def remedies(
    bound: Bound | None,
    target: Result,
    num_cores: int | None = None,
    *,
    refuted: Collection[str] = (),
) -> list[Remedy]:
    """Return the remedies against a verdict, but for axes that trials have `refuted`."""
    if bound is None or bound is Bound.SLOW_REPLICA:  # no axis makes a GPU faster
        return []
    spec = None if target.environment.origin is Origin.PUBLISHED else target.spec
    kind = target.environment.device_kind
    found = []
    for changes, why in _AGAINST[bound](target.axes, target.environment, num_cores or 8):
        if kind is DeviceKind.SIMULATED_GPU and set(_NOT_SIMULATED).intersection(changes):
            continue
        if set(refuted).intersection(changes):
            continue
        command, trial_id = "", ""
        if spec:
            changed = replace(spec, **changes)
            profile = target.environment.hardware_profile
            if profile and not _fits(changed, profile):
                continue
            command = again.command(changed, [target], *again.repeated(len(target.repeats)))
            trial_id = changed.trial_id
        change = _said(changes)
        found.append(Remedy(change=change, why=why, command=command, trial_id=trial_id))
    return found


def _fits(spec: TrialSpec, hardware_profile: str) -> bool:
    """Return whether it fits into the memory of a simulated GPU, as the simulator counts it."""
    try:
        needed = memory_bytes(Work.of(asdict(spec)))
    except ValueError:  # an imported trial may have a model that the simulator does not know
        return False
    return needed <= Hardware.from_json(hardware_profile).memory_gib * 2**30


def _said(changes: Mapping[str, Any]) -> str:
    said = []
    for axis, value in changes.items():
        said.append(f"{axis}={as_typed(value)}")
    return " ".join(said)


Axes = Mapping[str, Any]  # of published figures a few
Changes = Iterator[tuple[dict[str, Any], str]]


def _input(axes: Axes, place: Environment, num_cores: int) -> Changes:
    if not axes.get("cache", True):
        yield {"cache": True}, "records are read from memory once they were read"
    if axes.get("data_threads", 0) not in (0, num_cores):
        yield {"data_threads": num_cores}, "more of the input is decoded at once"
    if axes.get("prefetch", 2) < MORE_BATCHES:
        yield {"prefetch": MORE_BATCHES}, "waiting batches hide what takes unevenly long"
    if axes.get("distortions", False):
        yield {"distortions": False}, "it shows what distorting costs: if that is all, distort less"
    yield from _own_threads(axes, place, "the input's threads no longer keep kernels waiting")


def _launch(axes: Axes, place: Environment, _num_cores: int) -> Changes:
    yield {"batch_size": 4 * axes.get("batch_size", 1)}, "each kernel that is launched does more"
    yield from _fewer_calls(axes, place, "what a call costs is paid once for ten steps")
    if axes.get("xla", "off") == "off":
        yield {"xla": "on"}, "XLA joins small kernels"
    yield from _own_threads(axes, place, "kernels are launched from threads of their own")


def _communication(axes: Axes, place: Environment, _num_cores: int) -> Changes:
    why = "gradients are sent as often, for twice the batch"
    yield {"batch_size": 2 * axes.get("batch_size", 1)}, why
    num_micro = 4 * (axes.get("gradient_accumulation") or 1)
    why = "gradients are sent as often, for four times the micro-batches"
    yield {"gradient_accumulation": num_micro}, why
    if axes.get("hosts", 1) > 1:
        yield from _between_hosts(axes, place)
        return
    changes: dict[str, Any] = {}
    own = axes.get("all_reduce", "")
    is_replicated = axes.get("variable_update", "") == DEFAULT_UPDATE
    if not is_replicated:
        changes = {
            "variable_update": DEFAULT_UPDATE,
            "local_parameter_device": "gpu",
            "staged_vars": False,
        }
        own = ""
    ways = ("nccl", "pscpu", "hierarchical_copy") if is_replicated else ("nccl", "pscpu")
    for all_reduce in ways:
        if all_reduce != own and _can_run(all_reduce, place):
            yield {**changes, "all_reduce": all_reduce}, "gradients take another way"
    if is_replicated and not axes.get("gradient_repacking", 0):
        yield {"gradient_repacking": FEW_PACKS}, "few large messages instead of one per tensor"


def _between_hosts(axes: Axes, place: Environment) -> Changes:
    """Yield strategies that send fewer bytes over each host's link, fewest first."""
    now = link_bytes(axes, _SOME_PARAMETERS)
    fewer: dict[float, dict[str, Any]] = {}
    for strategy in STRATEGY_NAMES:
        changes = dict(zip(STRATEGY_AXES, strategy, strict=True))
        sent = link_bytes({**axes, **changes}, _SOME_PARAMETERS)
        if _can_run(changes["all_reduce"], place) and 0 < sent < now:
            fewer.setdefault(sent, changes)
    for sent, changes in sorted(fewer.items()):
        yield changes, f"{sent / now:.0%} of the bytes go over each host's link"


_SOME_PARAMETERS = 1_000_000  # shares of them are those of any number


def _can_run(all_reduce: str, place: Environment) -> bool:
    return place.device_kind is not DeviceKind.CPU_DEVICE or not ALL_REDUCES[all_reduce].gpu_only


def _contention(axes: Axes, place: Environment, _num_cores: int) -> Changes:
    yield from _own_threads(
        axes, place, "each GPU's kernels are launched from threads of their own"
    )
    yield from _fewer_calls(axes, place, "the host is asked less often")


def _compute(axes: Axes, place: Environment, _num_cores: int) -> Changes:
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


def _fewer_calls(axes: Axes, place: Environment, why: str) -> Changes:
    """Yield more steps in a call, but where several GPUs of a process would wait for the host after
    each of them (docs/gpus.md).
    """
    update = VARIABLE_UPDATES.get(axes.get("variable_update", ""))
    is_alone = axes.get("num_gpus", 1) == 1 or (update is not None and update.is_of_one_host)
    can_gain = is_alone or place.device_kind is not DeviceKind.GPU
    if can_gain and axes.get("steps_per_execution", 1) < 10:
        yield {"steps_per_execution": 10}, why


def _own_threads(axes: Axes, place: Environment, why: str) -> Changes:
    mode = axes.get("gpu_thread_mode", "global")
    if place.device_kind is not DeviceKind.CPU_DEVICE and mode == "global":
        yield {"gpu_thread_mode": "gpu_private"}, why


_AGAINST = {
    Bound.INPUT: _input,
    Bound.LAUNCH: _launch,
    Bound.COMMUNICATION: _communication,
    Bound.CONTENTION: _contention,
    Bound.COMPUTE: _compute,
    Bound.HEALTHY: _compute,
}
