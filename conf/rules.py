"""Which combinations of axes mean something. Tables, so that a new choice is a new line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from costs.unknown import not_simulated
from scalemark.records.cluster import RANK_JOBS
from scalemark.records.devices import DeviceKind
from scalemark.records.planted import PLANTED, PLANTED_FOR_REAL, PLANTED_ON_LINKS
from scalemark.records.strategies import STRATEGY_NAMES
from scalemark.records.trial import TrialSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class VariableUpdateRule:
    """What goes with one variable update. The first choice that the device kind allows is what
    `auto` means.
    """

    local_parameter_devices: tuple[str, ...]
    all_reduces: tuple[str, ...]
    why: str  # completes "because ..."
    repacks_with: tuple[str, ...] = ()  # all-reduces whose messages can be packed
    even_with: tuple[str, ...] = ()  # all-reduces that are right for even numbers of replicas only
    compacts: bool = False  # gradients can travel in half precision
    stages: bool = False  # replicas can compute on the weights of the step before
    skips_together: bool = True  # a step that overflows is skipped by all replicas
    is_distributed: bool = False  # runs as several processes, on one host or more
    one_stand_in_per_host: bool = False  # on CPUs it uses one device of each process


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
        why=(
            "every GPU keeps its own copy of the variables; to reduce on the host ask for "
            "all_reduce=pscpu"
        ),
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
    "distributed_parameter_server": VariableUpdateRule(
        local_parameter_devices=("cpu",),
        all_reduces=("none",),
        why="variables live on the parameter servers of all hosts, and gradients meet there",
        stages=True,
        is_distributed=True,
    ),
    "distributed_replicated": VariableUpdateRule(
        local_parameter_devices=("cpu",),
        all_reduces=("none", "nccl", "pscpu", "psgpu", "hierarchical_copy"),
        why=(
            "each host sums its own gradients, and parameter servers apply them to the master "
            "copies"
        ),
        is_distributed=True,
    ),
    "distributed_all_reduce": VariableUpdateRule(
        local_parameter_devices=("gpu",),
        all_reduces=("ring", "nccl"),
        why="every replica of every host keeps its own copy, and all of them reduce together",
        repacks_with=("ring", "nccl"),
        compacts=True,
        is_distributed=True,
    ),
    "multi_worker_mirrored": VariableUpdateRule(
        local_parameter_devices=("gpu",),
        all_reduces=("ring", "nccl"),
        why="these are the ways of tf.distribute.MultiWorkerMirroredStrategy",
        is_distributed=True,
        one_stand_in_per_host=True,
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

PLANTED_AT_MOST = {
    "noise": 1.0,
    "process_noise": 1.0,
    "drift": 1.0,
    "throttling": 0.95,
    "contention": 0.95,
    "launch_s": 3600.0,
    "reduction_s": 3600.0,
    "input_s": 3600.0,
    "link_mbit": 1e6,
    "out_of_memory": 1.0,
    "hang": 1.0,
    "failure_rate": 1.0,
}
"""What is planted beyond these means nothing; waits of more than an hour per step are slips of
units.
"""

PLANTED_SWITCHES = ("out_of_memory", "hang")
"""Of these, what there is or is not: 0 or 1."""


for _of, _own, _theirs in (
    (
        "VARIABLE_UPDATES that are distributed",
        {name for name, rule in VARIABLE_UPDATES.items() if rule.is_distributed},
        RANK_JOBS,
    ),
    ("PLANTED_AT_MOST", PLANTED_AT_MOST, PLANTED),
):
    if _lacking := set(_own) ^ set(_theirs):
        raise NotImplementedError(
            f"{', '.join(sorted(_lacking))}: wanted both in {_of} of conf/rules.py and in "
            "scalemark/records/"
        )


def problems(spec: TrialSpec) -> Iterator[str]:
    """Everything that is wrong with a resolved trial, each in one sentence."""
    if rule := VARIABLE_UPDATES.get(spec.variable_update):
        yield from _problems_of_update(spec, rule)
    else:
        known = ", ".join(VARIABLE_UPDATES)
        yield (
            f"variable_update={spec.variable_update}: conf/rules.py has no rule of it; there are "
            f"rules of {known}"
        )
    if spec.device_kind == DeviceKind.CPU_STAND_IN:
        for (axis, value), why in GPU_ONLY.items():
            if getattr(spec, axis) == value:
                yield f"{axis}={value}: {why}; these replicas are CPU stand-ins"
        if spec.data_format == "NCHW" and spec.precision == "fp16":
            yield (
                "data_format=NCHW: CPUs have no float16 convolution in it; choose another "
                "precision, or NHWC"
            )
    if spec.device_kind == DeviceKind.SIMULATED_GPU:
        yield from not_simulated(spec)
        if spec.variable_update in RANK_JOBS:
            yield (
                f"variable_update={spec.variable_update}: is of several processes, and the cost model knows one on one host; "
                "choose another, or leave engine=simulated out"
            )
    yield from _problems_of_planted(spec)
    if spec.loss_scale != "none" and spec.precision not in LOSS_SCALED:
        yield (
            f"loss_scale={spec.loss_scale}: only fp16 needs one, the trial says "
            f"precision={spec.precision}; leave it out"
        )
    if spec.gpu_thread_count and spec.gpu_thread_mode == "global":
        count = f"gpu_thread_count={spec.gpu_thread_count}"
        yield (
            f"{count}: means nothing with gpu_thread_mode=global; choose gpu_private or gpu_shared"
        )
    if spec.momentum and spec.optimizer in WITHOUT_MOMENTUM:
        yield (
            f"momentum={spec.momentum:g}: optimizer={spec.optimizer} has none; leave it out, or "
            "choose momentum or rmsprop"
        )


def _problems_of_planted(spec: TrialSpec) -> Iterator[str]:
    for name, value in spec.planted_values.items():
        told = f"planted.{name}={value:g}"
        if spec.device_kind != DeviceKind.SIMULATED_GPU and name not in PLANTED_FOR_REAL:
            also = ", ".join(f"planted.{each}" for each in PLANTED_FOR_REAL)
            yield (
                f"{told}: only simulated trials can have it, TensorFlow's can have {also}; add "
                "engine=simulated"
            )
        if spec.device_kind == DeviceKind.SIMULATED_GPU and name in PLANTED_ON_LINKS:
            yield (
                f"{told}: simulated trials are of one host, which has no link to limit; leave it "
                "out"
            )
        if value > PLANTED_AT_MOST[name]:
            yield f"{told}: wanted {PLANTED_AT_MOST[name]:g} or less"
        elif name in PLANTED_SWITCHES and value != 1:
            yield f"{told}: wanted 0 or 1"


def _problems_of_update(spec: TrialSpec, rule: VariableUpdateRule) -> Iterator[str]:
    update = f"variable_update={spec.variable_update}"
    if spec.hosts > 1 and not rule.is_distributed:
        distributed = [name for name, other in VARIABLE_UPDATES.items() if other.is_distributed]
        strategies = ", ".join(
            name for (of_update, *_), name in STRATEGY_NAMES.items() if of_update in distributed
        )
        choice = f"strategy={strategies} (variable_update={', '.join(distributed)})"
        yield f"hosts={spec.hosts}: {update} is of one host; choose {choice}"
    if (
        rule.one_stand_in_per_host
        and spec.device_kind == DeviceKind.CPU_STAND_IN
        and spec.gpus_per_host > 1
    ):
        wanted = f"choose num_gpus={spec.hosts}, or as many hosts as replicas"
        yield f"num_gpus={spec.num_gpus}: on CPUs {update} uses one device per host; {wanted}"
    if rule.is_distributed and spec.visibility == "all":
        yield (
            f"visibility=all: each process of {update} sees the GPUs of its own replicas alone; "
            "choose masked"
        )
    is_simulated = spec.device_kind == DeviceKind.SIMULATED_GPU
    if "link_mbit" in spec.planted_values and spec.hosts == 1 and not is_simulated:
        yield (
            "planted.link_mbit: one host has no link to limit; choose hosts=2 or more, or leave "
            "it out"
        )
    if spec.all_reduce not in rule.all_reduces:
        yield (
            f"all_reduce={spec.all_reduce}: not with {update}, because {rule.why}; it takes "
            f"{', '.join(rule.all_reduces)}"
        )
    if spec.local_parameter_device not in rule.local_parameter_devices:
        yield (
            f"local_parameter_device={spec.local_parameter_device}: not with {update}, because "
            f"{rule.why}"
        )
    if spec.staged_vars and not rule.stages:
        yield (
            f"staged_vars=true: not with {update}; only a parameter server's weights can be "
            "fetched a step ahead"
        )
    if spec.gradient_repacking and spec.all_reduce not in rule.repacks_with:
        packs = f"gradient_repacking={spec.gradient_repacking}"
        yield f"{packs}: not with {update} all_reduce={spec.all_reduce}; {_that_repack(rule)}"
    if spec.loss_scale != "none" and not rule.skips_together:
        yield (
            f"loss_scale={spec.loss_scale}: not with {update}, whose replicas would have to "
            "agree on skipping; choose none"
        )
    if spec.compact_gradients and not rule.compacts:
        choices = ", ".join(name for name, other in VARIABLE_UPDATES.items() if other.compacts)
        yield (
            f"compact_gradients=true: not with {update}, which sends gradients as they are; "
            f"choose variable_update={choices}"
        )

    if spec.all_reduce in rule.even_with and spec.num_gpus > 1 and spec.num_gpus % 2:
        yield (
            "all_reduce=hierarchical_copy: tf.distribute sums wrongly over an odd number of "
            f"replicas; num_gpus={spec.num_gpus}"
        )


def _that_repack(rule: VariableUpdateRule) -> str:
    """What to choose."""
    if rule.repacks_with:
        return f"it takes all_reduce={', '.join(rule.repacks_with)}"
    return (
        "choose "
        f"variable_update={', '.join(name for name, other in VARIABLE_UPDATES.items() if other.repacks_with)}"
    )
