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
    repacks_with: tuple[str, ...] = ()  # all-reduces whose messages can be packed
    even_with: tuple[str, ...] = ()  # all-reduces that are right for even numbers of replicas only
    compacts: bool = False  # gradients can travel in half precision
    stages: bool = False  # replicas can compute on the weights of the step before
    skips_together: bool = True  # a step that overflows is skipped by all replicas


VARIABLE_UPDATES = {
    "parameter_server": VariableUpdateRule(
        local_parameter_devices=("cpu", "gpu"),
        all_reduces=("none",),
        why="gradients meet at the variable's owner, so there is nothing to all-reduce",
        stages=True,
    ),
    "replicated": VariableUpdateRule(
        local_parameter_devices=("gpu",),
        all_reduces=("nccl", "none", "pscpu", "psgpu", "hierarchical_copy", "ring"),
        why="every GPU keeps its own copy of the variables; to reduce on the host ask for all_reduce=pscpu",
        repacks_with=("nccl", "none", "pscpu", "psgpu", "hierarchical_copy", "ring"),
        compacts=True,
    ),
    "independent": VariableUpdateRule(
        local_parameter_devices=("gpu",),
        all_reduces=("none",),
        why="replicas train alone and exchange nothing",
        skips_together=False,
    ),
    "mirrored": VariableUpdateRule(
        local_parameter_devices=("gpu",),
        all_reduces=("nccl", "ring", "none", "pscpu", "hierarchical_copy"),
        why="these are the ways of tf.distribute.MirroredStrategy",
        repacks_with=("nccl", "hierarchical_copy"),
        even_with=("hierarchical_copy",),
    ),
}

GPU_ONLY = {
    ("all_reduce", "nccl"): "NCCL needs one physical GPU per replica",
    ("precision", "tf32"): "TensorFloat-32 is a way of GPUs",
    ("gpu_thread_mode", "gpu_private"): "it is about the threads that launch GPU kernels",
    ("gpu_thread_mode", "gpu_shared"): "it is about the threads that launch GPU kernels",
    ("cudnn_autotune", "on"): "cuDNN runs on GPUs",
    ("cudnn_autotune", "off"): "cuDNN runs on GPUs",
    ("winograd_nonfused", "on"): "cuDNN runs on GPUs",
    ("winograd_nonfused", "off"): "cuDNN runs on GPUs",
    ("batchnorm_persistent", "on"): "cuDNN runs on GPUs",
    ("batchnorm_persistent", "off"): "cuDNN runs on GPUs",
    ("visibility", "all"): "there is no GPU to hide",
}
"""Axis and value that CPU stand-ins cannot run, and why."""

COMPUTE_CAPABILITY = {"bf16": (8, 0), "tf32": (8, 0)}
"""Precision -> the least compute capability of a GPU that has it in hardware."""

LOSS_SCALED = ("fp16",)
"""Precisions whose small gradients vanish without a loss scale."""

WITHOUT_MOMENTUM = ("sgd", "adam")
"""Optimizers that have no momentum to set."""

BUILT: dict[str, tuple[object, ...]] = {
    "hosts": (1,),
    "variable_update": tuple(VARIABLE_UPDATES),
    "data": ("synthetic", "photos", "digits", "imagenet"),
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
    if rule := VARIABLE_UPDATES.get(spec.variable_update):
        yield from _problems_of_update(spec, rule)
    if spec.device_kind == DeviceKind.CPU_STAND_IN:
        for (axis, value), why in GPU_ONLY.items():
            if getattr(spec, axis) == value:
                yield f"{axis}={value}: {why}; these replicas are CPU stand-ins"
        if spec.data_format == "NCHW" and spec.precision == "fp16":
            yield "data_format=NCHW: CPUs have no float16 convolution in it; choose another precision, or NHWC"
    if spec.loss_scale != "none" and spec.precision not in LOSS_SCALED:
        yield f"loss_scale={spec.loss_scale}: only fp16 needs one, the trial says precision={spec.precision}; leave it out"
    if spec.gpu_thread_count and spec.gpu_thread_mode == "global":
        count = f"gpu_thread_count={spec.gpu_thread_count}"
        yield f"{count}: means nothing with gpu_thread_mode=global; choose gpu_private or gpu_shared"
    if spec.momentum and spec.optimizer in WITHOUT_MOMENTUM:
        yield f"momentum={spec.momentum:g}: optimizer={spec.optimizer} has none; leave it out, or choose momentum or rmsprop"


def _problems_of_update(spec: TrialSpec, rule: VariableUpdateRule) -> Iterator[str]:
    update = f"variable_update={spec.variable_update}"
    if spec.all_reduce not in rule.all_reduces:
        yield f"all_reduce={spec.all_reduce}: not with {update}, because {rule.why}; it takes {', '.join(rule.all_reduces)}"
    if spec.local_parameter_device not in rule.local_parameter_devices:
        yield f"local_parameter_device={spec.local_parameter_device}: not with {update}, because {rule.why}"
    if spec.staged_vars and not rule.stages:
        yield f"staged_vars=true: not with {update}; only a parameter server's weights can be fetched a step ahead"
    if spec.gradient_repacking and spec.all_reduce not in rule.repacks_with:
        packs = f"gradient_repacking={spec.gradient_repacking}"
        yield f"{packs}: not with {update} all_reduce={spec.all_reduce}; it takes {_named('all_reduce', rule.repacks_with)}"
    if spec.loss_scale != "none" and not rule.skips_together:
        yield f"loss_scale={spec.loss_scale}: not with {update}, whose replicas would have to agree on skipping; choose none"
    if spec.compact_gradients and not rule.compacts:
        yield f"compact_gradients=true: not with {update}; only variable_update=replicated packs gradients itself"

    if spec.all_reduce in rule.even_with and spec.num_gpus > 1 and spec.num_gpus % 2:
        yield f"all_reduce=hierarchical_copy: tf.distribute sums wrongly over an odd number of replicas; num_gpus={spec.num_gpus}"


def _named(axis: str, values: tuple[str, ...]) -> str:
    return f"{axis}={', '.join(values)}" if values else "variable_update=replicated"
