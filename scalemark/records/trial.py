"""The trial: one fully resolved cell of a grid, and its identity. Its fields define the axes."""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from scalemark.records.axes import ENGINES, Axis, AxisValue, Engine, axis, axis_of
from scalemark.records.devices import DeviceKind
from scalemark.records.free_axes import RESERVED, FreeAxes, free_axes
from scalemark.records.planted import planted_on_one_host, read_planted
from scalemark.records.strategies import STRATEGY_AXES

LARGEST_FLOAT32 = 3.4e38

_SWITCH = ("auto", "on", "off")  # auto: as TensorFlow has it


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialSpec:
    """One fully resolved cell of the grid: what is trained, and how. No `auto` is left in it.

    A field with a default is left out of the identity while it has that default, so that an axis
    added later, with what was done before as its default, changes no identity. Defaults are
    therefore never changed.
    """

    engine: str = field(
        default=Engine.tensorflow.value,
        metadata=axis("what runs the trial", choices=ENGINES, set_by="engine", engines=ENGINES),
    )
    model: str = field(
        metadata=axis("a definition in scalemark/models/", set_by="model", engines=ENGINES)
    )
    num_gpus: int = field(
        metadata=axis(
            "replicas in step, over all hosts", given=1, least=1, in_curve=False, engines=ENGINES
        )
    )
    hosts: int = field(
        default=1,
        metadata=axis(
            "hosts that the replicas are spread over, each with as many; more than 1 only in "
            "distributed modes",
            least=1,
            in_curve=False,
        ),
    )
    device_kind: str = field(
        metadata=axis(
            "what replicas run on",
            choices=tuple(DeviceKind),
            set_by="hardware",
            engines=ENGINES,
        )
    )
    variable_update: str = field(
        metadata=axis(
            "how replicas share variables", folder="variable_updates", auto=True, engines=ENGINES
        )
    )
    local_parameter_device: str = field(
        metadata=axis(
            "where shared variables live", choices=("cpu", "gpu"), auto=True, engines=ENGINES
        )
    )
    all_reduce: str = field(
        metadata=axis("how gradients meet", folder="all_reduces", auto=True, engines=ENGINES)
    )
    staged_vars: bool = field(
        default=False, metadata=axis("use the weights of the previous step", engines=ENGINES)
    )
    gradient_repacking: int = field(
        default=0,
        # a graph of more packs takes minutes to build
        metadata=axis(
            "number of packs; 0 = one message per tensor", least=0, most=256, engines=ENGINES
        ),
    )
    compact_gradients: bool = field(
        default=False, metadata=axis("send packs as half precision", engines=ENGINES)
    )
    precision: str = field(
        metadata=axis(
            "number format of the computation", folder="precisions", given="fp32", engines=ENGINES
        )
    )
    loss_scale: str = field(
        default="none",
        metadata=axis(
            "none, dynamic, static, or the number that the loss is multiplied with; "
            "auto = dynamic for fp16, else none",
            auto=True,
            engines=ENGINES,
        ),
    )
    xla: str = field(
        default="off",
        metadata=axis(
            "compile with XLA: on = each tower, auto = clusters of operations",
            choices=("off", "on", "auto"),
            engines=ENGINES,
        ),
    )
    optimizer: str = field(
        metadata=axis(
            "how gradients change weights", folder="optimizers", given="momentum", engines=ENGINES
        )
    )
    learning_rate: float = field(
        metadata=axis(
            "factor of a gradient", auto=True, least=0, sets_step_time=False, engines=ENGINES
        )
    )
    momentum: float = field(
        metadata=axis("share of the last update", auto=True, least=0, below=1, engines=ENGINES)
    )
    weight_decay: float = field(
        metadata=axis(
            "factor of the L2 loss over all trainable variables",
            given=4e-5,
            least=0,
            engines=ENGINES,
        )
    )
    data: str = field(metadata=axis("a file in trainer/data/", set_by="data", engines=ENGINES))
    data_dir: str = field(
        default="",
        metadata=axis(
            "folder of the shards; empty = the product's own cache",
            set_by="data.dir",
            engines=ENGINES,
        ),
    )
    distortions: bool = field(
        metadata=axis("random crop, flip and colors", auto=True, engines=ENGINES)
    )
    data_format: str = field(
        default="NHWC",
        metadata=axis(
            "order of an image's dimensions", choices=("NHWC", "NCHW"), auto=True, engines=ENGINES
        ),
    )
    image_px: int = field(
        metadata=axis(
            "height and width of the model's input, in pixels", auto=True, least=1, engines=ENGINES
        )
    )
    num_classes: int = field(
        metadata=axis(
            "classes that the model tells apart",
            set_by="model",
            least=1,
            sets_step_time=False,
            engines=ENGINES,
        )
    )
    batch_size: int = field(
        metadata=axis("images per replica and step", auto=True, least=1, engines=ENGINES)
    )
    scaling: str = field(
        default="weak",
        metadata=axis(
            "weak: batch_size is of one replica; strong: of all replicas together",
            choices=("weak", "strong"),
            sets_step_time=False,
            engines=ENGINES,
        ),
    )
    steps_per_execution: int = field(
        default=1,
        metadata=axis("steps inside one call of the training function", least=1, engines=ENGINES),
    )
    gpu_thread_mode: str = field(
        default="global",
        metadata=axis(
            "threads that launch kernels", choices=("global", "gpu_private", "gpu_shared")
        ),
    )
    gpu_thread_count: int = field(
        default=0, metadata=axis("threads per GPU in the two private modes", least=0, most=1024)
    )
    num_inter_threads: int = field(
        default=0,
        metadata=axis("operations at once on the host; 0 = TensorFlow's", least=0, most=1024),
    )
    num_intra_threads: int = field(
        default=0,
        metadata=axis("threads of one operation on the host; 0 = TensorFlow's", least=0, most=1024),
    )
    onednn: str = field(
        default="auto",
        metadata=axis("oneDNN's kernels; auto = TensorFlow's choice", choices=_SWITCH),
    )
    cudnn_autotune: str = field(
        default="auto",
        metadata=axis("try convolution algorithms and keep the fastest", choices=_SWITCH),
    )
    winograd_nonfused: str = field(
        default="auto", metadata=axis("cuDNN's non-fused Winograd convolutions", choices=_SWITCH)
    )
    batchnorm_persistent: str = field(
        default="auto", metadata=axis("cuDNN's persistent batch normalization", choices=_SWITCH)
    )
    cache: bool = field(
        default=True,
        metadata=axis("keep serialized records in memory once read", auto=True, engines=ENGINES),
    )
    data_threads: int = field(
        default=0,
        metadata=axis(
            "private threads of the input pipeline; 0 = those that TensorFlow shares",
            least=0,
            most=1024,
        ),
    )
    prefetch: int = field(
        default=2,
        metadata=axis(
            "batches waiting on each replica's device; 0 = copied when asked for",
            least=0,
            most=1024,
        ),
    )
    visibility: str = field(
        default="masked",
        metadata=axis(
            "how other GPUs are hidden: masked by CUDA_VISIBLE_DEVICES, or all visible and hidden "
            "inside TensorFlow",
            choices=("masked", "all"),
        ),
    )
    min_warm_up_steps: int = field(
        metadata=axis(
            "steps before the steady state may be declared",
            auto=True,
            least=0,
            sets_step_time=False,
            engines=ENGINES,
        )
    )
    num_steps: int = field(
        metadata=axis(
            "measured steps, at least", auto=True, least=1, sets_step_time=False, engines=ENGINES
        )
    )
    min_window_s: float = field(
        default=0.0,
        metadata=axis(
            "seconds that measuring goes on for, at least",
            given=1.0,
            least=0,
            sets_step_time=False,
            engines=ENGINES,
        ),
    )
    profile: bool = field(
        default=False,
        metadata=axis(
            "record a profile of a few more steps after the measurement", sets_step_time=False
        ),
    )
    # as "drift=0.05 noise=0.02"; names in order, see `scalemark.records.planted`
    planted: str = field(
        default="",
        metadata=axis("what was slowed or broken on purpose", set_by="planted", engines=ENGINES),
    )
    seed: int = field(
        metadata=axis(
            "of weights and data", given=1, least=0, sets_step_time=False, engines=ENGINES
        )
    )
    free: FreeAxes = ()  # axes that the sweep brought itself

    def __post_init__(self) -> None:
        if self.free:
            object.__setattr__(self, "free", free_axes(dict(self.free), AXES))
        if self.device_kind == DeviceKind.SIMULATED_GPU:  # which nothing else can run on
            object.__setattr__(self, "engine", Engine.simulated.value)
        self._check()

    def _check(self) -> None:
        for one in _CHECKED:
            if problem := one.problem(getattr(self, one.name)):
                raise ValueError(problem)
        if self.num_gpus % self.hosts:
            raise ValueError(
                f"num_gpus={self.num_gpus}: counts the replicas of all hosts={self.hosts}, each of which takes as many; "
                f"wanted a multiple of {self.hosts}"
            )
        if self.engine == Engine.simulated and self.device_kind != DeviceKind.SIMULATED_GPU:
            raise ValueError(
                f"engine=simulated device_kind={self.device_kind}: wanted "
                f"{DeviceKind.SIMULATED_GPU.value}"
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
    def axes(self) -> dict[str, AxisValue]:
        """All axes by name, the free ones last."""
        return {name: getattr(self, name) for name in AXES} | dict(self.free)

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
        if self.hosts > 1 and (planted := planted_on_one_host(told.pop("planted", ""))):
            told["planted"] = planted
        for name in _OUTSIDE_CURVE:
            told.pop(name, None)
        if self.scaling == "strong":
            told["batch_size"] *= self.num_gpus
        return hashlib.sha256(_canonical(told).encode()).hexdigest()[:16]

    def to_json(self) -> str:
        """Canonical JSON: sorted keys, no spaces, nothing that has its default. Equal specs give
        equal text.
        """
        told: dict[str, object] = {
            name: value
            for name, axis in AXES.items()
            if (value := getattr(self, name)) != axis.default
        }
        if self.free:
            told["free"] = dict(self.free)
        return _canonical(told)

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
        missing = {axis.name for axis in AXES.values() if axis.default is None} - set(values)
        unknown = set(values) - {"free", *AXES}
        if missing or unknown:
            raise ValueError(f"not a trial spec: {'; '.join(_wrong_axes(missing, unknown))}")
        return cls.of(values)

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> TrialSpec:
        """Return the trial that `to_json` tells so. Raises ValueError."""
        free = values.get("free", {})
        if not isinstance(free, dict):
            raise ValueError(f"free={str(free)[:60]}: wanted an object of free axes")
        return cls(**{**values, "free": tuple(free.items())})

    @classmethod
    def of_axes(cls, axes: Mapping[str, Any]) -> TrialSpec:
        """Inverse of `axes`; names that no axis can have are left out."""
        free = tuple((name, axes[name]) for name in free_names(axes))
        return cls(**{name: axes[name] for name in AXES}, free=free)


AXES: Mapping[str, Axis] = {
    field.name: axis_of(field) for field in fields(TrialSpec) if field.name != "free"
}
"""Name -> the axis, in the order of the fields."""

_CHECKED = tuple(one for one in AXES.values() if one.is_bounded)
_OUTSIDE_CURVE = tuple(one.name for one in AXES.values() if not one.definition.in_curve)


def _canonical(told: Mapping[str, object]) -> str:
    return json.dumps(told, sort_keys=True, separators=(",", ":"))


def _wrong_axes(missing: Collection[str], unknown: Collection[str]) -> Iterator[str]:
    """Name the known axis that is nearest to each unknown one."""
    if missing:
        yield f"missing {', '.join(sorted(missing))}"
    for name in sorted(unknown):
        near = difflib.get_close_matches(name, AXES, n=1)
        meant = f", did you mean {near[0]}?" if near else f", there are {', '.join(AXES)}"
        yield f"{name!r} is no axis{meant}"


def _is_positive(text: str) -> bool:
    try:
        return 0 < float(text) < LARGEST_FLOAT32
    except ValueError:
        return False


def unusual_axes(values: Mapping[str, object]) -> list[str]:
    """Return those of these axes of a trial that are not what most trials have, in their order:
    worth naming beside its numbers. Free axes are.
    """
    usual = {axis.name: axis.default for axis in AXES.values() if axis.default is not None} | {
        "optimizer": "momentum"
    }
    quiet = ("engine", "min_window_s", *STRATEGY_AXES)
    unusual = [
        name
        for name, value in usual.items()
        if name not in quiet and values.get(name, value) != value
    ]
    return unusual + free_names(values)


def free_names(axes: Mapping[str, object]) -> list[str]:
    """Return the names of free axes among what is told of a trial; those that it lacks are None."""
    return [
        name
        for name, value in axes.items()
        if name not in AXES and name not in RESERVED and value is not None
    ]


def all_axes(specs: Iterable[TrialSpec]) -> list[str]:
    """Return the names of all axes that any of these trials has."""
    return [*AXES, *sorted({name for spec in specs for name, _ in spec.free})]


def width_name(num_gpus: int, hosts: int) -> str:
    """As `x8`, `x8h2`: replicas, and over how many hosts where there are several; in names of
    folders, races and trials.
    """
    return f"x{num_gpus}" if hosts == 1 else f"x{num_gpus}h{hosts}"
