"""What the performance guide recommends against each verdict, as the same trial with one axis
changed: run it, and see.

"Optimize TensorFlow GPU performance with the TensorFlow Profiler" (source 001), and its checklist
for several GPUs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from analysis.explanation.host_links import link_bytes
from analysis.explanation.suspects import Bound
from analysis.results import Origin, Result
from costs.hardware import Hardware
from costs.memory import memory_bytes
from costs.work import Work
from scalemark.abilities import ALL_REDUCES, DEFAULT_UPDATE, trains_apart
from scalemark.records import overrides
from scalemark.records.axes import Engine
from scalemark.records.devices import DeviceKind
from scalemark.records.strategies import STRATEGY_AXES, STRATEGY_NAMES
from scalemark.records.trial import TrialSpec
from scalemark.records.unknown_axes import unknown_to

_NOT_SIMULATED = unknown_to(Engine.simulated)
MORE_BATCHES = 8  # that wait on each device
FEW_PACKS = 8  # tf_cnn_benchmarks' own choice of gradient_repacking


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """One change, and the command that tests it."""

    change: str  # as "prefetch=8"
    why: str
    command: str  # empty for published figures


def remedies(
    bound: Bound | None,
    target: Result,
    num_cores: int | None = None,
    *,
    refuted: Collection[str] = (),
) -> list[Remedy]:
    """None where nothing can be said. `num_cores` of the machine; `refuted`: axes of which trials
    told what they bring.
    """
    if bound is None:
        return []
    spec = None if target.place.origin is Origin.PUBLISHED else target.spec
    found = []
    kind = target.place.device_kind
    for changes, why in _AGAINST[bound](spec or target.axes, kind, num_cores or 8):
        if kind is DeviceKind.SIMULATED_GPU and set(_NOT_SIMULATED).intersection(changes):
            continue
        if set(refuted).intersection(changes):
            continue
        if (
            spec
            and target.place.hardware_profile
            and not _fits(replace(spec, **changes), target.place.hardware_profile)
        ):
            continue
        change = " ".join(
            f"{axis}={str(value).lower() if isinstance(value, bool) else value}"
            for axis, value in changes.items()
        )
        command = (
            overrides.as_often(replace(spec, **changes), target.place.hardware, len(target.repeats))
            if spec
            else ""
        )
        found.append(Remedy(change=change, why=why, command=command))
    return found


def _fits(spec: TrialSpec, hardware_profile: str) -> bool:
    """Into the memory of a simulated GPU, as the simulator has it; a network that it does not know
    fits into none.
    """
    try:
        needed = memory_bytes(Work.of(asdict(spec)))
    # unknown, or of an image too small for it: an imported trial may be of a model of others
    except ValueError:
        return False
    return needed <= Hardware.from_json(hardware_profile).memory_gib * 2**30


Changes = Iterator[tuple[dict[str, Any], str]]
Trial = TrialSpec | Mapping[str, Any]  # of published figures the axes alone


def _of(trial: Trial, axis: str, default: Any) -> Any:
    return getattr(trial, axis) if isinstance(trial, TrialSpec) else trial.get(axis, default)


def _input(trial: Trial, kind: DeviceKind, num_cores: int) -> Changes:
    if not _of(trial, "cache", True):
        yield {"cache": True}, "records are read from memory once they were read"
    if _of(trial, "data_threads", 0) not in (0, num_cores):
        yield {"data_threads": num_cores}, "more images are decoded at once"
    if _of(trial, "prefetch", 2) < MORE_BATCHES:
        yield (
            {"prefetch": MORE_BATCHES},
            "batches wait on the devices, and hide what takes unevenly long",
        )
    if _of(trial, "distortions", False):
        yield {"distortions": False}, "what distorting costs: if it is all, distort less"
    if kind is not DeviceKind.CPU_STAND_IN and _of(trial, "gpu_thread_mode", "global") == "global":
        yield (
            {"gpu_thread_mode": "gpu_private"},
            "the input's threads no longer keep kernels waiting",
        )


def _launch(trial: Trial, kind: DeviceKind, num_cores: int) -> Changes:
    yield {"batch_size": 4 * _of(trial, "batch_size", 1)}, "each kernel that is launched does more"
    if _of(trial, "steps_per_execution", 1) < 10:
        yield {"steps_per_execution": 10}, "what a call costs is paid once for ten steps"
    if _of(trial, "xla", "off") == "off":
        yield {"xla": "on"}, "XLA joins small kernels"
    if kind is not DeviceKind.CPU_STAND_IN and _of(trial, "gpu_thread_mode", "global") == "global":
        yield {"gpu_thread_mode": "gpu_private"}, "kernels are launched from threads of their own"


def _communication(trial: Trial, kind: DeviceKind, num_cores: int) -> Changes:
    yield (
        {"batch_size": 2 * _of(trial, "batch_size", 1)},
        "gradients are sent as often, for twice the images",
    )
    if _of(trial, "hosts", 1) > 1:
        yield from _between_hosts(trial, kind)
        return
    is_replicated = _of(trial, "variable_update", "") == _REPLICATED["variable_update"]
    own = _of(trial, "all_reduce", "") if is_replicated else ""
    for all_reduce in ("nccl", "pscpu", "hierarchical_copy"):
        if all_reduce != own and _can_run(all_reduce, kind):
            apart = {} if is_replicated else _REPLICATED | {"staged_vars": False}
            yield {**apart, "all_reduce": all_reduce}, "gradients take another way"
    if is_replicated and not _of(trial, "gradient_repacking", 0):
        yield {"gradient_repacking": FEW_PACKS}, "few large messages instead of one per tensor"


def _between_hosts(trial: Trial, kind: DeviceKind) -> Changes:
    """Other ways that send fewer bytes over each host's link, fewest first; of equal ones the
    first.
    """
    axes = {
        name: _of(trial, name, None)
        for name in ("model", "hosts", "num_gpus", "compact_gradients", *STRATEGY_AXES)
    }
    now = link_bytes(axes, _SOME_PARAMETERS)
    fewer: dict[float, dict[str, Any]] = {}
    for way in STRATEGY_NAMES:
        changes = dict(zip(STRATEGY_AXES, way, strict=True))
        sent = link_bytes(axes | changes, _SOME_PARAMETERS)
        if _can_run(changes["all_reduce"], kind) and 0 < sent < now:
            fewer.setdefault(sent, changes)
    for sent, changes in sorted(fewer.items()):
        yield changes, f"{sent / now:.0%} of the bytes go over each host's link"


def _can_run(all_reduce: str, kind: DeviceKind) -> bool:
    return kind is not DeviceKind.CPU_STAND_IN or not ALL_REDUCES[all_reduce].gpu_only


def _contention(trial: Trial, kind: DeviceKind, num_cores: int) -> Changes:
    if kind is not DeviceKind.CPU_STAND_IN and _of(trial, "gpu_thread_mode", "global") == "global":
        yield (
            {"gpu_thread_mode": "gpu_private"},
            "each GPU's kernels are launched from threads of their own",
        )
    if _of(trial, "steps_per_execution", 1) < 10:
        yield {"steps_per_execution": 10}, "the host is asked less often"


def _compute(trial: Trial, kind: DeviceKind, num_cores: int) -> Changes:
    if _of(trial, "precision", "fp32") == "fp32" and kind is not DeviceKind.CPU_STAND_IN:
        # replicas that exchange nothing cannot agree on skipping a step
        apart = trains_apart(_of(trial, "variable_update", ""))
        scale = {"loss_scale": "none" if apart else "dynamic"}
        yield (
            {"precision": "fp16", **scale, "data_format": "NHWC"},
            (
                "half as many bits to calculate with: tensor cores gain much, other cores "
                "little or nothing"
            ),
        )
    if _of(trial, "xla", "off") == "off":
        yield {"xla": "on"}, "XLA joins kernels, and saves memory traffic"


_SOME_PARAMETERS = 1_000_000  # shares of them are those of any number

_REPLICATED = {"variable_update": DEFAULT_UPDATE, "local_parameter_device": "gpu"}

_AGAINST = {
    Bound.INPUT: _input,
    Bound.LAUNCH: _launch,
    Bound.COMMUNICATION: _communication,
    Bound.CONTENTION: _contention,
    Bound.COMPUTE: _compute,
    Bound.HEALTHY: _compute,
}
