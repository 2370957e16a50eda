"""The vocabulary: what a trial, a measurement and an outcome are. Standard library only."""

from __future__ import annotations

import difflib
import hashlib
import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import MISSING, asdict, dataclass, fields
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

from store.outside import quoted_lines
from store.regular_file import MOST_BYTES, open_regular, read_regular
from store.strict import (
    LARGEST_INTEGER,
    build,
    build_all,
    check_json,
    check_least,
    check_one_of,
    checked,
    parsed,
    utc_text,
)

_Made = TypeVar("_Made")
MOST_STEPS_BYTES = 2**28  # of steps.jsonl: some 1.5 million calls


class Outcome(StrEnum):
    """How one attempt ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    OUT_OF_MEMORY = "out_of_memory"
    TIMED_OUT = "timed_out"
    HUNG = "hung"
    INTERRUPTED = "interrupted"
    UNSUPPORTED = "unsupported"
    INVALID = "invalid"


class State(StrEnum):
    """Where one repeat of a trial stands in its sweep. After `running` it is the outcome of the
    last attempt.
    """

    PENDING = "pending"  # to be run, or to be tried again
    CLAIMED = "claimed"  # one orchestrator has taken it; nothing is started yet
    RUNNING = "running"  # its process is started, or about to be
    COMPLETED = "completed"
    FAILED = "failed"
    OUT_OF_MEMORY = "out_of_memory"
    TIMED_OUT = "timed_out"
    HUNG = "hung"
    INTERRUPTED = "interrupted"
    UNSUPPORTED = "unsupported"
    INVALID = "invalid"
    SKIPPED = "skipped"  # never run, for a reason that stands beside it


class Doing(StrEnum):
    """What a trainer is at, as it tells in its run folder: each has its own deadline."""

    BUILDING = "building"  # until the first step is done
    STEPPING = "stepping"
    PROFILING = "profiling"  # and whatever else comes after the last measured step


IN_FLIGHT = (State.CLAIMED, State.RUNNING)
"""Of repeats that an orchestrator has in its hands."""


class Phase(StrEnum):
    """Which part of an attempt a step belongs to; only `measure` steps make the numbers."""

    WARM_UP = "warm_up"
    MEASURE = "measure"


class Verdict(StrEnum):
    """May a measurement be quoted?"""

    VALID = "valid"
    SUSPECT = "suspect"
    INVALID = "invalid"


class DeviceKind(StrEnum):
    """What a replica runs on: a physical GPU, a logical CPU device standing in for one, or nothing
    but a cost model.
    """

    GPU = "gpu"
    CPU_STAND_IN = "cpu_stand_in"
    # of a hardware profile: no such device was touched, and its numbers are no measurements
    SIMULATED_GPU = "simulated_gpu"

    @property
    def plural(self) -> str:
        """As people count them."""
        return _COUNTED[self]

    @property
    def singular(self) -> str:
        return self.plural.removesuffix("s")

    def counted(self, number: int) -> str:
        """As `1 GPU`, `4 GPUs`."""
        return f"{number} {self.singular if number == 1 else self.plural}"

    @property
    def note(self) -> str:
        """What must stand wherever a number made on such devices is shown; of GPUs nothing."""
        return {
            DeviceKind.GPU: "",
            DeviceKind.CPU_STAND_IN: STAND_INS_NOTE,
            DeviceKind.SIMULATED_GPU: SIMULATED_NOTE,
        }[self]


_COUNTED = {
    DeviceKind.GPU: "GPUs",
    DeviceKind.CPU_STAND_IN: "CPU stand-ins",
    DeviceKind.SIMULATED_GPU: "simulated GPUs",
}


TRAINER_EXIT_CODES = {
    0: Outcome.COMPLETED,
    1: Outcome.FAILED,
    3: Outcome.UNSUPPORTED,
    4: Outcome.OUT_OF_MEMORY,
    5: Outcome.INVALID,
    6: Outcome.HUNG,  # a rank of a distributed trial
    130: Outcome.INTERRUPTED,
}
"""Exit status of `python -m trainer`; every other status is `failed`."""

RANK_LOST = 7
"""Exit status of what looks after the ranks of a trial: `failed`, for one of them crashed; another
try may do better.
"""

RANK_JOBS = {
    "distributed_parameter_server": ("worker", "ps"),
    "distributed_replicated": ("worker", "ps"),
    "distributed_all_reduce": ("worker",),
    "multi_worker_mirrored": ("worker",),
}
"""Variable updates that run as several processes -> the jobs of each host's ranks. A trial of any
other is one process.
"""


ORCHESTRATOR_VARIABLE = "SCALEMARK_ORCHESTRATOR"
"""Environment variable that tells a trainer the process id of who started it; it dies with that
process.
"""

RANK_SOCKET_VARIABLE = "SCALEMARK_RANK_SOCKET"
"""Environment variable with the path of the socket where `rank_start=ray` asks for ranks on the
hosts of its agent.
"""

LARGEST_FLOAT32 = 3.4e38


STAND_INS_NOTE = (
    "CPU stand-ins share the cores of one machine: expect speed-ups near 1; nothing here speaks "
    "of GPUs"
)
"""Stands wherever a number made on CPU stand-ins is shown."""

SIMULATED_NOTE = (
    "Simulated: computed by a cost model for a hardware profile; no GPU was measured, and "
    "nothing here is a measurement"
)
"""Stands wherever a simulated number is shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialSpec:
    """One fully resolved cell of the grid: what is trained, and how. No `auto` is left in it.

    A field with a default is left out of the identity while it has that default, so that an axis
    added later, with what was done before as its default, changes no identity. Defaults are
    therefore never changed.
    """

    model: str  # a file in trainer/models/
    num_gpus: int  # replicas in step, over all hosts
    # over how many hosts they are spread, each with as many; more than 1 only in distributed modes
    hosts: int = 1
    device_kind: str  # a DeviceKind
    variable_update: str  # a file in trainer/variable_updates/
    local_parameter_device: str  # cpu or gpu: where shared variables live
    all_reduce: str  # a file in trainer/all_reduces/
    staged_vars: bool = False  # use the weights of the previous step
    gradient_repacking: int = 0  # number of packs; 0 = one message per tensor
    compact_gradients: bool = False  # send packs as half precision
    precision: str  # a file in trainer/precisions/
    loss_scale: str = "none"  # none, dynamic, or the number that the loss is multiplied with
    xla: str = "off"  # off, on, auto
    optimizer: str  # a file in trainer/optimizers/
    learning_rate: float
    momentum: float
    weight_decay: float  # factor of the L2 loss over all trainable variables
    data: str  # a file in trainer/data/
    data_dir: str = ""  # folder of the shards; empty = the product's own cache
    distortions: bool  # random crop, flip and colors
    data_format: str = "NHWC"  # NHWC or NCHW
    image_px: int  # height and width of the model's input
    num_classes: int
    batch_size: int  # images per replica and step
    # weak: batch_size is fixed; strong: batch_size was the global batch / num_gpus
    scaling: str = "weak"
    steps_per_execution: int = 1  # steps inside one call of the training function
    gpu_thread_mode: str = "global"  # global, gpu_private, gpu_shared
    gpu_thread_count: int = 0  # threads per GPU in the two private modes
    num_inter_threads: int = 0  # operations at once on the host; 0 = TensorFlow's choice
    num_intra_threads: int = 0  # threads of one operation on the host; 0 = TensorFlow's choice
    onednn: str = "auto"  # auto (as TensorFlow has it), on, off
    cudnn_autotune: str = "auto"  # auto, on, off: try convolution algorithms and keep the fastest
    winograd_nonfused: str = "auto"  # auto, on, off: cuDNN's non-fused Winograd convolutions
    batchnorm_persistent: str = "auto"  # auto, on, off: cuDNN's persistent batch normalization
    cache: bool = True  # keep serialized records in memory once read
    data_threads: int = 0  # private threads of the input pipeline; 0 = those that TensorFlow shares
    prefetch: int = 2  # batches waiting on each replica's device; 0 = copied when asked for
    # masked (CUDA_VISIBLE_DEVICES) or all (hidden inside TensorFlow only)
    visibility: str = "masked"
    min_warm_up_steps: int  # steps before the steady state may be declared
    num_steps: int  # measured steps, at least
    min_window_s: float = 0.0  # measuring goes on for at least so long
    profile: bool = False  # record a profile of a few more steps after the measurement
    # what was slowed or broken on purpose, as "drift=0.05 noise=0.02"; names in order, see
    # `planted`
    planted: str = ""
    seed: int  # of weights and data

    def __post_init__(self) -> None:
        for name in (
            "num_gpus",
            "hosts",
            "image_px",
            "num_classes",
            "batch_size",
            "steps_per_execution",
            "num_steps",
        ):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)}: wanted 1 or more")
        for name in _ZERO_OR_MORE:
            if getattr(self, name) < 0:
                raise ValueError(f"{name}={getattr(self, name)}: wanted 0 or more")
        for name in (field.name for field in fields(self) if field.type == "int"):
            if getattr(self, name) > (most := _AT_MOST.get(name, LARGEST_INTEGER)):
                raise ValueError(f"{name}={getattr(self, name)}: wanted {most} or less")
        for name in ("learning_rate", "weight_decay", "min_window_s"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise ValueError(f"{name}={getattr(self, name)}: wanted a finite number, 0 or more")
        if not 0 <= self.momentum < 1:
            raise ValueError(f"momentum={self.momentum}: wanted 0 or more, and less than 1")
        if self.num_gpus % self.hosts:
            raise ValueError(
                f"num_gpus={self.num_gpus}: counts the replicas of all hosts={self.hosts}, each of which takes as many; "
                f"wanted a multiple of {self.hosts}"
            )
        read_planted(self.planted)
        if self.loss_scale not in ("none", "dynamic") and not _is_positive(self.loss_scale):
            raise ValueError(
                f"loss_scale={self.loss_scale}: wanted none, dynamic, or a number greater than 0"
            )

    @property
    def gpus_per_host(self) -> int:
        """Replicas of each host."""
        return self.num_gpus // self.hosts

    @property
    def planted_values(self) -> dict[str, float]:
        """By name, see `planted`."""
        return read_planted(self.planted)

    @property
    def trial_id(self) -> str:
        """Identity of the trial: the first 16 hex digits of the SHA-256 of its canonical JSON."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:16]

    @property
    def curve(self) -> str:
        """Digest of everything but the number of GPUs, of hosts, and the rate of links between
        these: trials of one scaling curve share it, for the one host that a curve begins on has no
        links.

        Under strong scaling it is the global batch that they share.
        """
        told = json.loads(self.to_json())
        num_gpus = told.pop("num_gpus")
        if told.pop("hosts", 1) > 1 and (planted := planted_on_one_host(told.pop("planted", ""))):
            told["planted"] = planted
        if self.scaling == "strong":
            told["batch_size"] *= num_gpus
        return hashlib.sha256(_canonical(told).encode()).hexdigest()[:16]

    def to_json(self) -> str:
        """Canonical JSON: sorted keys, no spaces, nothing that has its default. Equal specs give
        equal text.
        """
        return _canonical(
            {
                field.name: getattr(self, field.name)
                for field in fields(self)
                if getattr(self, field.name) != field.default
            }
        )

    @classmethod
    def from_json(cls, text: str) -> TrialSpec:
        """Inverse of `to_json`. Raises ValueError, naming the keys, when keys are missing or
        unknown.
        """
        values = json.loads(text)
        if not isinstance(values, dict):
            raise ValueError(
                f"not a trial spec: found {type(values).__name__}, wanted an object of axes"
            )
        missing = {field.name for field in fields(cls) if field.default is MISSING} - set(values)
        unknown = set(values) - {field.name for field in fields(cls)}
        if missing or unknown:
            raise ValueError(f"not a trial spec: {'; '.join(_wrong_axes(missing, unknown))}")
        return cls(**values)


PLANTED = {
    "noise": "standard deviation of a step's time within a process, over its mean",
    "process_noise": "standard deviation of a process's mean step time among processes, over their mean",
    "drift": "growth of the step time over the whole attempt, over its mean",
    "throttling": "share of the GPUs' clock that is lost",
    "contention": "share of the host's cores that others take",
    "launch_s": "seconds more per step between kernels",
    "reduction_s": "seconds more per step while gradients are reduced",
    "input_s": "seconds more that each batch takes to make",
    "link_mbit": "megabits per second that each host's link takes each way; 0 = as it is",
    "out_of_memory": "1 = runs out of memory",
    "hang": "1 = stops for good half-way through the measured steps",
    "failure_rate": (
        "share of attempts that fail without a result, drawn by the seed and the attempt's folder"
    ),
}
"""What can be slowed or broken on purpose, to see whether it is found: name -> meaning. All of it
in simulated trials.
"""

PLANTED_ON_LINKS = ("link_mbit",)
"""Of these, what slows links between hosts."""

NOISE = ("noise", "process_noise")
"""Of these, what every simulated trial has as real ones do: no fault."""

PLANTED_FOR_REAL = ("reduction_s", "input_s", "link_mbit")
"""Of these, what TensorFlow trials can have, too: by waiting, or by a network of limited rate.
Their numbers are suspect.
"""

PLANTED_REASON = "planted: "
"""So begins the reason of a verdict that is suspect for that alone; what was planted follows."""


def planted_text(values: Mapping[str, float]) -> str:
    """Canonical text of what is planted; equal values give equal text."""
    return " ".join(f"{name}={values[name]:g}" for name in sorted(values))


def read_planted(text: str) -> dict[str, float]:
    """Inverse of `planted_text`. Raises ValueError for text that is not canonical."""
    values: dict[str, float] = {}
    for part in text.split():
        name, _, value = part.partition("=")
        if name not in PLANTED:
            raise ValueError(f"planted={text}: no {name}; there are {', '.join(PLANTED)}")
        try:
            values[name] = float(value)
        except ValueError:
            raise ValueError(f"planted={text}: wanted NAME=NUMBER, found {part}") from None
        if not 0 <= values[name] < float("inf"):
            raise ValueError(f"planted={text}: wanted finite numbers, 0 or more")
    if planted_text(values) != text:
        raise ValueError(
            f"planted={text}: wanted {planted_text(values)}, each name once and in order"
        )
    return values


def planted_on_one_host(text: str) -> str:
    """What of this can be planted where there are no links between hosts."""
    return planted_text(
        {name: value for name, value in read_planted(text).items() if name not in PLANTED_ON_LINKS}
    )


def _canonical(told: Mapping[str, object]) -> str:
    return json.dumps(told, sort_keys=True, separators=(",", ":"))


_ZERO_OR_MORE = (
    "min_warm_up_steps",
    "gradient_repacking",
    "gpu_thread_count",
    "num_inter_threads",
    "num_intra_threads",
    "data_threads",
    "prefetch",
    "seed",
)


_AT_MOST = {
    "gradient_repacking": 256,  # a graph of more packs takes minutes to build
    "num_inter_threads": 1024,
    "num_intra_threads": 1024,
    "data_threads": 1024,
    "gpu_thread_count": 1024,
    "prefetch": 1024,
}


def _wrong_axes(missing: Collection[str], unknown: Collection[str]) -> Iterator[str]:
    """With the known axis that is nearest to each unknown one."""
    known = [field.name for field in fields(TrialSpec)]
    if missing:
        yield f"missing {', '.join(sorted(missing))}"
    for name in sorted(unknown):
        near = difflib.get_close_matches(name, known, n=1)
        meant = f", did you mean {near[0]}?" if near else f", there are {', '.join(known)}"
        yield f"{name!r} is no axis{meant}"


def _is_positive(text: str) -> bool:
    try:
        return 0 < float(text) < LARGEST_FLOAT32
    except ValueError:
        return False


STRATEGY_AXES = ("variable_update", "local_parameter_device", "all_reduce")
"""The axes that together are one strategy: a row of the article's tables."""

STRATEGY_COLUMNS = {
    ("parameter_server", "cpu", "none"): "ps_cpu",
    ("parameter_server", "gpu", "none"): "ps_gpu",
    ("replicated", "gpu", "nccl"): "replicated_nccl",
    ("replicated", "gpu", "none"): "replicated_none",
    ("replicated", "gpu", "pscpu"): "replicated_pscpu",
}
"""The five columns of the cloud article (source 004): variable_update, local_parameter_device,
all_reduce -> name.
"""

STRATEGY_NAMES = STRATEGY_COLUMNS | {
    ("distributed_parameter_server", "cpu", "none"): "distributed_ps",
    ("distributed_replicated", "cpu", "none"): "distributed_replicated",
    ("distributed_all_reduce", "gpu", "ring"): "distributed_ring",
    ("distributed_all_reduce", "gpu", "nccl"): "distributed_nccl",
    ("multi_worker_mirrored", "gpu", "ring"): "multi_worker_mirrored_ring",
    ("multi_worker_mirrored", "gpu", "nccl"): "multi_worker_mirrored_nccl",
}
"""All that `strategy=NAME` can choose which train one model: the article's, and those that can go
over several hosts.
"""


def unusual_axes(values: Mapping[str, object]) -> list[str]:
    """Of these axes of a trial those that are not what most trials have, in their order: worth
    naming beside its numbers.
    """
    usual = {
        field.name: field.default for field in fields(TrialSpec) if field.default is not MISSING
    } | {"optimizer": "momentum"}
    quiet = ("min_window_s", *STRATEGY_AXES)
    return [
        name
        for name, value in usual.items()
        if name not in quiet and values.get(name, value) != value
    ]


def width_name(num_gpus: int, hosts: int) -> str:
    """As `x8`, `x8h2`: replicas, and over how many hosts where there are several; in names of
    folders, races and trials.
    """
    return f"x{num_gpus}" if hosts == 1 else f"x{num_gpus}h{hosts}"


def strategy_name(variable_update: str, local_parameter_device: str, all_reduce: str) -> str:
    """The name of a combination where it has one, else a name made of its parts."""
    if named := STRATEGY_NAMES.get((variable_update, local_parameter_device, all_reduce)):
        return named
    told = [
        variable_update,
        "" if all_reduce == "none" else all_reduce,
        "cpu" if local_parameter_device == "cpu" else "",
    ]
    return "_".join(filter(None, told))


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSample:
    """One call of the training function, as written to `steps.jsonl`."""

    step: int  # its first step, counted from 0 over warm-up and measurement
    phase: str  # a Phase
    start_s: float  # since the first step began, monotonic clock
    duration_s: float  # batch wait and steps together
    data_wait_s: float  # part of duration_s spent waiting for the batch
    # of its last step: mean cross entropy over all replicas; none when it is not a finite number
    loss: float | None
    num_steps: int = 1  # training steps in the call


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """What follows from the measured steps of one attempt."""

    images_per_second: float  # images of all replicas / time of the whole measured window
    # 95 % interval of it within this process, see store.within_process; none of less than 8 calls
    # that count.
    images_per_second_low: float | None
    images_per_second_high: float | None
    median_step_s: float
    jitter_s: float  # 1.4826 x median absolute deviation of the step time
    p90_step_s: float
    num_steps: int  # measured
    window_s: float  # from the first measured step to idle devices after the last
    num_warm_up_steps: int
    steady: bool  # the steady state was seen before measuring began
    # start of process to end of first step; a forked one had TensorFlow imported before its start
    time_to_first_step_s: float
    trace_s: float  # building the step's graph
    first_step_s: float  # first call, compilation included
    data_wait_share: float  # of the measured window, 0..1
    # CPU seconds of the process (of several: of worker 0) in the measured window; over window_s:
    # cores it got
    cpu_s: float
    # Mean over the window, hypervisor included; none where the kernel does not say, or nobody knows
    # which ranks run here.
    cores_taken_by_others: float | None
    # largest resident size of the process; forked, without pages of libraries it did not touch
    peak_host_memory_bytes: int
    # largest of the GPUs, of several hosts of worker 0's; none on stand-ins
    peak_device_memory_bytes: int | None
    first_loss: float | None  # of the step that compiles, before the samples; none when not finite
    last_loss: float | None  # median of the last five steps; none when not finite
    num_skipped_steps: int  # of all steps so far, those whose gradients overflowed the loss scale
    last_loss_scale: float | None  # none without a loss scale
    num_parameters: int  # trainable, of one replica
    # slowest rate seen between two of its hosts before training; none on one host
    link_bytes_per_s: float | None = None


def check_measurement(told: Mapping[str, Any]) -> None:
    """Of the fields of a Measurement. Raises ValueError for numbers that none can have, or no
    database takes.
    """
    low, high = told["images_per_second_low"], told["images_per_second_high"]
    if not 0 <= told["images_per_second"] < 1e300:
        raise ValueError(
            f"images_per_second={told['images_per_second']}: wanted 0 or more, and less than 1e300"
        )
    if low is not None and high is not None and low > high:
        raise ValueError(f"images_per_second_low={low} is more than images_per_second_high={high}")
    for name in _NEVER_NEGATIVE:
        if told[name] is not None:
            check_least(name, told[name], 0)


_MAY_BE_NEGATIVE = {"first_loss", "last_loss", "cores_taken_by_others", "steady"}
_NEVER_NEGATIVE = [
    field.name for field in fields(Measurement) if field.name not in _MAY_BE_NEGATIVE
]


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuTelemetry:
    """What NVML saw of one GPU during the measured window. None where the GPU does not tell."""

    uuid: str
    num_samples: int
    sm_clock_mhz: float | None  # median
    max_sm_clock_mhz: int | None  # the most this GPU can
    power_w: float | None  # mean
    power_limit_w: float | None
    temperature_c: int | None  # highest
    utilization: float | None  # mean share of time with a kernel running, 0..1
    memory_used_bytes: int | None  # highest, all processes together
    # all that were seen, as trainer/nvml.py names them; empty also where it does not tell
    throttle_reasons: tuple[str, ...]
    num_foreign_processes: int | None  # most other processes seen computing on it at once


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Where the time of a few steps after the measurement went, read from TensorFlow's own profile.

    A step here is one call of the training function; all figures are means over the steps.
    Profiling costs time itself: shares travel, seconds do not. TensorFlow does not record its
    cheapest ops (Identity, Const, Reshape).
    """

    num_steps: int
    step_s: float  # while profiled, from beginning to beginning
    # per step: class of op (see trainer/op_classes.py) -> seconds, summed over devices and streams
    op_class_s: dict[str, float]
    # per step: time in which any gradient was being reduced, or was on its way from or to a
    # reduction
    reduction_s: float
    exposed_reduction_s: float  # part of reduction_s in which no device computed anything else
    # per step: tensors and signals sent from device to device by TensorFlow; NCCL's are not among
    # them
    num_copies: int
    # per step: by GPUs' copies of all kinds; none on stand-ins, which hand over pointers
    copied_bytes: int | None
    num_ops: dict[str, int]  # per step: device, as "GPU:0", -> ops executed, copies left out
    # device -> share of the step's time with something running on it, 0..1
    busy_share: dict[str, float]
    # of the step's time, GPUs idle between its first and last kernel; none on stand-ins
    launch_gap_share: float | None
    # of GPU time of convolutions and matmuls, by names of kernels; none without such kernels
    tensor_core_share: float | None
    input_wait_s: float  # per step: waiting for a batch
    problems: str  # what TensorFlow could not record; empty when nothing
    folder: str  # in the run folder; TensorBoard and xprof open it


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What an attempt left in `result.json`."""

    outcome: str  # an Outcome
    message: str  # why it did not complete, or what else is missing; empty when all is there
    measurement: Measurement | None
    op_placement: dict[str, dict[str, int]]  # role -> "op type @ device" -> how many nodes
    verdict: str | None = None  # a Verdict on the measurement
    verdict_reasons: tuple[str, ...] = ()  # why it is not valid
    # of the trial's GPUs in worker 0's machine; of other hosts' nothing is seen
    gpu_telemetry: tuple[GpuTelemetry, ...] = ()
    profile: Profile | None = None
    # of a simulated attempt: what the cost model made it from, seconds per step by part
    truth: dict[str, float] | None = None

    def __post_init__(self) -> None:
        check_one_of("outcome", self.outcome, Outcome)
        if self.verdict is not None:
            check_one_of("verdict", self.verdict, Verdict)
        if self.measurement:
            check_measurement(asdict(self.measurement))
        object.__setattr__(self, "message", quoted_lines(self.message))

    def to_json(self) -> str:
        return json.dumps(asdict(self), sort_keys=True, indent=1)

    @classmethod
    def from_json(cls, text: str) -> Result:
        """Raises ValueError."""
        return build(cls, parsed(text))


BESIDE_A_MEASUREMENT = ("verdict", "verdict_reasons", "gpu_telemetry", "profile", "truth")
"""Fields of Result that are stored in the row of its measurement."""


class PcieLevel(StrEnum):
    """What a message between two GPUs has to cross without NVLink, from the nearest to the
    farthest.
    """

    SAME_BOARD = "same_board"
    SINGLE_SWITCH = "single_switch"
    MULTIPLE_SWITCHES = "multiple_switches"
    HOST_BRIDGE = "host_bridge"
    NUMA_NODE = "numa_node"  # several host bridges of one CPU
    SYSTEM = "system"  # the link between CPUs


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuLink:
    """How two GPUs reach each other."""

    between: tuple[str, str]  # their UUIDs, in PCI order
    num_nvlinks: int = 0  # active ones from one to the other, or the fewer of both to NVSwitches
    pcie: str | None = None  # a PcieLevel; none where the driver does not tell


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One physical GPU, as NVML knows it, or a MIG device cut from one."""

    uuid: str  # what CUDA_VISIBLE_DEVICES takes
    name: str  # of a MIG device with its profile, as "NVIDIA A100-SXM4-40GB MIG 1g.5gb"
    memory_bytes: int | None  # none where it has no memory of its own to tell of
    pci_bus_id: str
    compute_capability: str  # as "8.0"; 7.0 has tensor cores, 8.0 bfloat16 and TensorFloat-32
    power_limit_w: float | None  # none where the GPU does not tell
    # of the CPU it is wired to; none where neither driver nor kernel tell
    numa_node: int | None = None
    cores: tuple[int, ...] = ()  # CPU cores near it; empty where neither driver nor kernel tell
    mig_parent: str | None = None  # of a MIG device: UUID of the GPU it is cut from
    mig_mode: bool = False  # it is cut up: not usable whole
    mig_devices: tuple[Gpu, ...] = ()  # what it is cut into

    @property
    def identity(self) -> dict[str, object]:
        """What makes it another GPU for numbers: not where it sits, but how it is cut up."""
        told: dict[str, object] = {name: getattr(self, name) for name in _GPU_IDENTITY}
        return (
            told | {"mig_devices": [device.identity for device in self.mig_devices]}
            if self.mig_mode
            else told
        )


_GPU_IDENTITY = (
    "uuid",
    "name",
    "memory_bytes",
    "pci_bus_id",
    "compute_capability",
    "power_limit_w",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What numbers are made on. A number never travels without it."""

    host: str
    cpu: str
    num_cores: int
    memory_bytes: int
    gpus: tuple[Gpu, ...]  # all physical GPUs, in PCI order
    driver: str  # of the GPUs; empty without
    links: tuple[GpuLink, ...] = ()  # between each two of them
    # of simulated hardware: canonical JSON of costs.hardware.Hardware; empty of a machine that
    # exists
    hardware_profile: str = ""
    # several equal hosts that share sweeps count as one machine of this name; empty: it stands for
    # itself alone
    pool: str = ""

    @property
    def key(self) -> str:
        """Digest of what numbers depend on, memory in GiB: another driver or another GPU makes
        another machine.

        What was learned to be told later (links, near cores) is left out, so that numbers stored
        before stay comparable. Of a pool it is what its hosts have in common that tells: a host
        with other GPUs or cores is another machine.
        """
        if self.pool:
            own = ("uuid", "pci_bus_id")
            gpus = [
                {name: value for name, value in gpu.identity.items() if name not in own}
                for gpu in self.gpus
            ]
            told = {
                "pool": self.pool,
                "cpu": self.cpu,
                "num_cores": self.num_cores,
                "driver": self.driver,
                "gpus": gpus,
            }
            return _digest(told | {"memory_bytes": round(self.memory_bytes / 2**30)})
        told = {
            "host": self.host,
            "cpu": self.cpu,
            "num_cores": self.num_cores,
            "memory_bytes": round(self.memory_bytes / 2**30),
            "gpus": [gpu.identity for gpu in self.gpus],
            "driver": self.driver,
        } | ({"hardware_profile": self.hardware_profile} if self.hardware_profile else {})
        return _digest(told)

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Machine:
        """Raises ValueError."""
        return build(cls, parsed(text))


def _digest(told: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]


def check_kind_of_machine(device_kind: str, machine: Machine) -> None:
    """Raises ValueError when a simulated trial is told of a machine that exists, or another one of
    a machine that does not.
    """
    if (device_kind == DeviceKind.SIMULATED_GPU) != bool(machine.hardware_profile):
        what = (
            f"a hardware profile ({machine.host})"
            if machine.hardware_profile
            else f"a machine that exists ({machine.host})"
        )
        raise ValueError(
            f"device_kind={device_kind} on {what}: simulated numbers are kept apart from "
            "measurements; wanted both or none"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessIdentity:
    """One process among all that ever ran: its number alone is given to others later."""

    host: str
    boot_id: str  # /proc/sys/kernel/random/boot_id
    pid_namespace: str  # as /proc/self/ns/pid names it: containers number on their own
    pid: int
    start_ticks: int  # since boot; field 22 of /proc/PID/stat


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """What an attempt was given to run on, and how it was started: `placement.json`, which its
    trainer obeys.
    """

    start: str  # fork (of a server that has TensorFlow loaded) or spawn (a new process)
    # numbers of the slots it holds: GPUs in the order of the inventory, or CPU stand-ins
    devices: tuple[int, ...]
    visible_devices: str  # CUDA_VISIBLE_DEVICES; empty on CPU stand-ins
    cores: tuple[int, ...] = ()  # CPU cores it may run on; empty = all that the orchestrator may
    # a core of none of the trials, for what watches them; none where there is none to spare
    spare_core: int | None = None
    shares_host: bool = False  # other trials of its sweep may run beside it
    # more data it may not have on a host, all its processes alike; none = no limit
    host_memory_bytes: int | None = None
    # names of the hosts that its ranks run on, worker 0's first; empty = all on this one
    hosts: tuple[str, ...] = ()
    # what starts its ranks there: srun or ray; empty = its trainer itself, as processes of this
    # host
    rank_start: str = ""

    def to_json(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Placement:
        """Raises ValueError."""
        return build(cls, parsed(text))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """One process of a distributed trial, in tf_cnn_benchmarks' words."""

    job_name: str  # worker or ps
    task_index: int

    @property
    def name(self) -> str:
        """For people and files: worker-0."""
        return f"{self.job_name}-{self.task_index}"


WORKER_0 = Rank(job_name="worker", task_index=0)
"""The one that trains and tells."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankLimits:
    """Deadlines of the ranks of a distributed trial, as conf.schema.LauncherConfig has them:
    `rank_limits.json`.
    """

    start_timeout_s: float = 300.0  # until each can be reached
    timeout_s: float = 30.0  # from one sign of life to the next

    def to_json(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> RankLimits:
        """Raises ValueError."""
        return build(cls, parsed(text))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Where the ranks of a distributed trial listen, as HOST:PORT: what TF_CONFIG calls `cluster`.
    Worker 0 trains and tells.
    """

    worker_hosts: tuple[str, ...]
    # one on each worker's host where the variable update has parameter servers; else none
    ps_hosts: tuple[str, ...] = ()

    @property
    def ranks(self) -> tuple[Rank, ...]:
        """Host by host: its worker, then its parameter server."""
        jobs = {"worker": self.worker_hosts, "ps": self.ps_hosts}
        return tuple(
            Rank(job_name=job, task_index=index)
            for index in range(len(self.worker_hosts))
            for job, hosts in jobs.items()
            if index < len(hosts)
        )

    def tf_config(self, rank: Rank) -> str:
        """The environment variable TF_CONFIG of that rank: JSON."""
        jobs = {"worker": list(self.worker_hosts)} | (
            {"ps": list(self.ps_hosts)} if self.ps_hosts else {}
        )
        return json.dumps(
            {"cluster": jobs, "task": {"type": rank.job_name, "index": rank.task_index}}
        )


def sweep_uid(name: str, started_at: datetime, command: str) -> str:
    """What tells a sweep from those of the same name in other databases: 16 hex digits of a digest
    of how it first began.
    """
    digest = hashlib.sha256(json.dumps([name, utc_text(started_at), command]).encode())
    return digest.hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedFor:
    """One trial of a sweep. Where a sweep was continued with others, two may have the same
    position.
    """

    position: int
    spec: str  # canonical JSON of its TrialSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRecord:
    """What a database holds of one sweep beside its attempts: `sweep.json`, once it has begun."""

    name: str
    reason: str
    command: str  # of the first beginning, as the time
    started_at: datetime
    trials: tuple[AskedFor, ...]  # also those finished earlier
    left_out: tuple[tuple[str, str], ...]  # overrides of a refused cell, and why

    @property
    def uid(self) -> str:
        return sweep_uid(self.name, self.started_at, self.command)

    def to_json(self) -> str:
        """A line per trial: their specs are JSON already."""
        head = {name: getattr(self, name) for name in ("uid", "name", "reason", "command")}
        head |= {"started_at": utc_text(self.started_at), "left_out": self.left_out}
        trials = ",\n".join(
            f'{{"position": {trial.position}, "spec": {trial.spec}}}' for trial in self.trials
        )
        return f'{json.dumps(head, indent=1)[:-2]},\n "trials": [\n{trials}\n ]\n}}\n'

    @classmethod
    def from_json(cls, text: str) -> SweepRecord:
        """Inverse of `to_json`. Raises ValueError when it is none; earlier versions told no
        trials.
        """
        told = checked(_ToldSweep, parsed(text))
        uid, trials = told.pop("uid"), told.pop("trials")
        found = cls(
            **told,
            trials=tuple(
                AskedFor(position=one.position, spec=spec_of(one.spec).to_json()) for one in trials
            ),
        )
        if found.uid != uid:
            raise ValueError(f"uid {uid}, and what it tells of has {found.uid}")
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _ToldTrial:
    """One of `trials` in `sweep.json`."""

    position: int
    spec: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class _ToldSweep:
    """The values of `sweep.json`."""

    uid: str
    name: str
    reason: str
    command: str
    started_at: datetime
    trials: tuple[_ToldTrial, ...]
    left_out: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptBegin:
    """Which attempt a run folder is of: `attempt.json`, once the folder is made."""

    sweep_uid: str
    sweep: str  # its name
    trial_id: str
    repeat: int
    attempt: int
    started_at: datetime
    software_key: str  # of what its orchestrator wanted to run it with

    def __post_init__(self) -> None:
        check_least("repeat", self.repeat, 1)
        check_least("attempt", self.attempt, 1)
        check_year("started_at", self.started_at)

    def to_json(self) -> str:
        return json.dumps(asdict(self) | {"started_at": utc_text(self.started_at)}, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> AttemptBegin:
        """Raises ValueError."""
        return build(cls, parsed(text))


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEnd:
    """How an attempt ended, as the database has it: `ended.json`, written before the row."""

    exit_code: int | None  # as in FinishedAttempt
    duration_s: float | None
    ended_at: datetime
    placement: Placement  # as it came to be
    outcome: str  # an Outcome
    message: str
    result: Result | None  # what counts instead of result.json; none where that counts as it is

    def __post_init__(self) -> None:
        check_one_of("outcome", self.outcome, Outcome)
        check_year("ended_at", self.ended_at)
        if self.duration_s is not None:
            check_duration("duration_s", self.duration_s)
        object.__setattr__(self, "message", quoted_lines(self.message))
        if self.result and (self.result.outcome, self.result.message) != (
            self.outcome,
            self.message,
        ):
            raise ValueError(
                f"outcome={self.outcome}, and its result says {self.result.outcome}: "
                f"{self.result.message}"
            )

    def to_json(self) -> str:
        return json.dumps(asdict(self) | {"ended_at": utc_text(self.ended_at)}, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> AttemptEnd:
        """Raises ValueError."""
        return build(cls, parsed(text))


LONGEST_S, FIRST_YEAR, LAST_YEAR = 315_576_000, 1900, 9900
"""What nobody measures, and beyond which times cannot be reckoned with."""


def check_duration(name: str, duration_s: float) -> None:
    """Raises ValueError."""
    check_least(name, duration_s, 0)
    if duration_s > LONGEST_S:
        raise ValueError(f"{name}={duration_s}: wanted {LONGEST_S} (ten years) or less")


def check_year(name: str, at: datetime) -> None:
    """Raises ValueError."""
    if not FIRST_YEAR <= at.year <= LAST_YEAR:
        raise ValueError(f"{name}={at.isoformat()}: wanted a year from {FIRST_YEAR} to {LAST_YEAR}")


def check_environment(told: object) -> None:
    """Raises ValueError when it is none that a trainer wrote."""
    check_json(told, "environment")
    if not isinstance(told, Mapping):
        raise ValueError(f"environment: found {type(told).__name__}, wanted an object")
    for name, kind in (
        ("python", str),
        ("kernel", str),
        ("commit", str),
        ("packages", dict),
        ("variables", dict),
    ):
        if not isinstance(told.get(name), kind):
            raise ValueError(f"environment.{name}: wanted {'text' if kind is str else 'an object'}")
    for name in ("diff", "cuda", "cudnn"):
        if not isinstance(told.get(name, ""), str):
            raise ValueError(f"environment.{name}: wanted text")
    for name, version in told["packages"].items():
        if not isinstance(version, str):
            raise ValueError(f"environment.packages.{name}: wanted text")


def spec_of(told: object) -> TrialSpec:
    """Kept as it was told, whole numbers in place of floats, too: its digest is the trial's
    identity. Raises ValueError.
    """
    checked(TrialSpec, told, "spec")
    assert isinstance(told, dict)
    return TrialSpec(**told)


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The files of one attempt. The trainer writes most of them; the orchestrator reads them.

    What cannot be read raises OSError; what is read and makes no sense, as after a full disk,
    ValueError. Both name the file.
    """

    path: Path

    @property
    def trial(self) -> Path:
        return self.path / "trial.json"

    @property
    def attempt(self) -> Path:
        return self.path / "attempt.json"

    @property
    def ended(self) -> Path:
        return self.path / "ended.json"

    @property
    def machine(self) -> Path:
        return self.path / "machine.json"

    @property
    def placement(self) -> Path:
        return self.path / "placement.json"

    @property
    def doing(self) -> Path:
        return self.path / "doing.txt"

    @property
    def environment(self) -> Path:
        return self.path / "environment.json"

    @property
    def steps(self) -> Path:
        return self.path / "steps.jsonl"

    @property
    def telemetry(self) -> Path:
        return self.path / "telemetry.jsonl"

    @property
    def profile(self) -> Path:
        return self.path / "profile"

    @property
    def result(self) -> Path:
        return self.path / "result.json"

    @property
    def log(self) -> Path:
        """Of the trainer; in a distributed trial of what looks after its ranks, and of worker 0."""
        return self.path / "log.txt"

    @property
    def rank_limits(self) -> Path:
        return self.path / "rank_limits.json"

    def rank_log(self, rank: Rank) -> Path:
        """Of a rank of a distributed trial; worker 0 is its trainer."""
        return self.log if rank == WORKER_0 else self.path / f"log-{rank.name}.txt"

    def rank_beat(self, rank: Rank) -> Path:
        """What a rank writes anew every few seconds, beginning when it can be reached: a growing
        number.

        "7 joining" where it may be silent from then on, until it has met the others.
        """
        return self.path / f"beat-{rank.name}.txt"

    def write(self, path: Path, text: str) -> None:
        """At once and whole: who ends in the middle leaves no half a file.

        Of what was measured not even a power loss does: the steps are on the disk before the result
        that rests on them. What is written beside the steps never waits for a disk, and neither
        does how the attempt ended: the database, which is told next, is as likely to lose it.
        """
        if path == self.result:
            self._sync_steps()
        draft = path.with_suffix(".draft")
        with draft.open("w") as file:
            file.write(text)
            if path in (self.result, self.environment):
                file.flush()
                os.fsync(file.fileno())
        draft.replace(path)

    def _sync_steps(self) -> None:
        """The file, and its name in the folder."""
        for path in (self.steps, self.path):
            with suppress(FileNotFoundError):
                descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
                try:
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)

    def read_trial(self) -> TrialSpec:
        with _making_sense_of(self.trial):
            return spec_of(parsed(read_regular(self.trial)))

    def read_attempt(self) -> AttemptBegin | None:
        """None in a folder that an earlier version made, or a trainer by hand."""
        return self._read(self.attempt, AttemptBegin.from_json)

    def read_ended(self) -> AttemptEnd | None:
        """None while it runs, and when its orchestrator was killed before it could tell."""
        return self._read(self.ended, AttemptEnd.from_json)

    def read_rank_limits(self) -> RankLimits:
        """The defaults in a folder that a trainer was given by hand."""
        return self._read(self.rank_limits, RankLimits.from_json) or RankLimits()

    def read_machine(self) -> Machine | None:
        """None in a folder that a trainer was given by hand."""
        return self._read(self.machine, Machine.from_json)

    def read_placement(self) -> Placement | None:
        """None in a folder that a trainer was given by hand."""
        return self._read(self.placement, Placement.from_json)

    def read_steps(self) -> list[StepSample]:
        """All complete lines; a last line cut off by a crash is left out."""
        return self._read(self.steps, _steps_in, MOST_STEPS_BYTES) or []

    def read_doing(self) -> Doing:
        """What the trainer is at; a process that has not told yet is building."""
        return self._read(self.doing, Doing) or Doing.BUILDING

    def last_step(self) -> int | None:
        """Number of the last complete line, from the end of the file alone: cheap enough to ask
        beside a measurement.
        """
        try:
            with open_regular(self.steps) as file:
                file.seek(max(0, file.seek(0, 2) - 1024))
                lines = file.read(1024).split(b"\n")[:-1]
        except FileNotFoundError:
            return None
        with _making_sense_of(self.steps):
            return (
                build(_ToldStep, {"step": parsed(lines[-1].decode())["step"]}).step
                if lines
                else None
            )

    def read_environment(self) -> dict[str, Any] | None:
        """None when the attempt ended before it was known."""
        return self._read(self.environment, _environment_in)

    def read_result(self) -> Result | None:
        """None when the attempt ended without one."""
        return self._read(self.result, Result.from_json)

    def _read(
        self, path: Path, make: Callable[[str], _Made], most_bytes: int = MOST_BYTES
    ) -> _Made | None:
        """None when there is no such file."""
        try:
            with _making_sense_of(path):
                return make(read_regular(path, most_bytes))
        except FileNotFoundError:
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _ToldStep:
    """What is asked of a step while it runs."""

    step: int


def _steps_in(text: str) -> list[StepSample]:
    """Of lines that a crash did not cut off."""
    lines = text.split("\n")[:-1]
    try:
        told = parsed(f"[{','.join(lines)}]")
    except ValueError:
        told = []
    if len(told) != len(lines):  # one by one it is found which
        told = [_line(number, line) for number, line in enumerate(lines, 1)]
    return build_all(StepSample, told, "line")


def _line(number: int, text: str) -> Any:
    try:
        return parsed(text)
    except ValueError as error:
        raise ValueError(f"line {number}: {error}") from error


def _environment_in(text: str) -> dict[str, Any]:
    found = parsed(text)
    check_environment(found)
    return dict(found)


@contextmanager
def _making_sense_of(path: Path) -> Iterator[None]:
    try:
        yield
    except (ValueError, TypeError, KeyError, IndexError) as error:
        told = str(error) if type(error) is ValueError else f"{type(error).__name__}: {error}"
        raise ValueError(f"{path} is damaged: {told}") from error
