"""The trial: one fully resolved cell of a grid, and its identity."""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields

from scalemark.records.planted import planted_on_one_host, read_planted
from scalemark.records.strategies import STRATEGY_AXES
from scalemark.records.validation import (
    LARGEST_INTEGER,
)

LARGEST_FLOAT32 = 3.4e38


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialSpec:
    """One fully resolved cell of the grid: what is trained, and how. No `auto` is left in it.

    A field with a default is left out of the identity while it has that default, so that an axis
    added later, with what was done before as its default, changes no identity. Defaults are
    therefore never changed.
    """

    model: str  # a definition in scalemark/models/
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
