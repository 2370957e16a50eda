"""Which combinations of axes mean something, and which engines are built. Tables, so that a new choice is a new line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from store.records import DeviceKind, TrialSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class VariableUpdateRule:
    """What goes with one variable update. The first choice that the device kind allows is what `auto` means."""

    local_parameter_devices: tuple[str, ...]
    all_reduces: tuple[str, ...]
    why: str  # completes "because ..."


VARIABLE_UPDATES = {
    "parameter_server": VariableUpdateRule(
        local_parameter_devices=("cpu", "gpu"),
        all_reduces=("none",),
        why="gradients meet at the variable's owner, so there is nothing to all-reduce",
    ),
    "replicated": VariableUpdateRule(
        local_parameter_devices=("gpu",),
        all_reduces=("nccl", "none", "pscpu", "psgpu", "hierarchical_copy", "ring"),
        why="every GPU keeps its own copy of the variables; to reduce on the host ask for all_reduce=pscpu",
    ),
    "independent": VariableUpdateRule(
        local_parameter_devices=("gpu",),
        all_reduces=("none",),
        why="replicas train alone and exchange nothing",
    ),
}

GPU_ONLY = {"nccl": "NCCL needs one physical GPU per replica"}
"""All-reduces that CPU stand-ins cannot run."""

BUILT: dict[str, tuple[object, ...]] = {
    "hosts": (1,),
    "variable_update": tuple(VARIABLE_UPDATES),
    "all_reduce": ("none", "nccl", "pscpu", "psgpu"),
    "staged_vars": (False,),
    "gradient_repacking": (0,),
    "compact_gradients": (False,),
    "precision": ("fp32", "bf16"),
    "loss_scale": ("none",),
    "xla": ("off",),
    "optimizer": ("momentum",),
    "data": ("synthetic", "photos", "digits", "imagenet"),
    "data_format": ("NHWC",),
    "steps_per_execution": (1,),
    "gpu_thread_mode": ("global",),
    "gpu_thread_count": (0,),
    "visibility": ("masked",),
}
"""Axis -> values whose engine is in this version. Other values are declared, and refused until their engine comes."""


def not_built(axis: str, value: object) -> str | None:
    """Why this value of this axis cannot run in this version, or None."""
    if axis not in BUILT or value in BUILT[axis]:
        return None
    built = ", ".join(f"{axis}={choice}" for choice in BUILT[axis])
    return f"{axis}={value}: declared, but its engine comes in a later version; in this one: {built}"


def problems(spec: TrialSpec) -> Iterator[str]:
    """Everything that is wrong with a resolved trial, each in one sentence."""
    for axis in BUILT:
        if reason := not_built(axis, getattr(spec, axis)):
            yield reason
    rule = VARIABLE_UPDATES.get(spec.variable_update)
    if rule and spec.all_reduce not in rule.all_reduces:
        yield (
            f"all_reduce={spec.all_reduce}: not with variable_update={spec.variable_update}, because {rule.why}; "
            f"it takes {', '.join(rule.all_reduces)}"
        )
    if rule and spec.local_parameter_device not in rule.local_parameter_devices:
        yield (
            f"local_parameter_device={spec.local_parameter_device}: not with variable_update={spec.variable_update}, "
            f"because {rule.why}"
        )
    if spec.all_reduce in GPU_ONLY and spec.device_kind == DeviceKind.CPU_STAND_IN:
        yield f"all_reduce={spec.all_reduce}: {GPU_ONLY[spec.all_reduce]}; these replicas are CPU stand-ins"
