"""The trial: one fully resolved cell of a grid, and its identity. Its fields define the axes."""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

from scalemark.records.axes import (
    ENGINES,
    OWN_MODELS,
    Axis,
    AxisValue,
    Engine,
    axis,
    axis_of,
    record_of_axes,
)
from scalemark.records.devices import DeviceKind
from scalemark.records.free_axes import PREFIX, FreeAxes, free_axes
from scalemark.records.injected import injected_on_one_host, read_injected
from scalemark.records.measurement import check_item
from scalemark.records.strategies import STRATEGY_AXES, strategy_name

LARGEST_FLOAT32 = 3.4e38

_THREAD_MODES = ("global", "gpu_private", "gpu_shared")
_SWITCH = ("auto", "on", "off")  # auto: as TensorFlow has it


@record_of_axes
class TrialSpec:
    """One fully resolved cell of the grid: what is trained, and how. No `auto` is left in it.

    A field with a default is left out of the identity while it has that default, so that an axis
    that is added later does not change the identity of older trials. Therefore a default never
    changes.
    """

    engine: str = axis(
        "what runs the trial",
        default=Engine.tensorflow.value,
        choices=ENGINES,
        set_by="engine",
        engines=ENGINES,
    )
    model: str = axis(
        "a definition in scalemark/models/, your own as my_model.py:build, or a program",
        set_by="model",
        engines=ENGINES,
    )
    model_digest: str = axis(
        "of the file of a model of your own: a changed file is another trial",
        default="",
        set_by="model",
    )
    num_gpus: int = axis(
        "replicas in step, over all hosts", given=1, least=1, in_curve=False, engines=ENGINES
    )
    hosts: int = axis(
        "hosts that share the replicas evenly; more than 1 in distributed modes, or for programs",
        default=1,
        least=1,
        in_curve=False,
        engines=(Engine.tensorflow, Engine.command),
    )
    device_kind: str = axis(
        "what replicas run on", choices=tuple(DeviceKind), set_by="hardware", engines=ENGINES
    )
    variable_update: str = axis(
        "how replicas share variables", folder="variable_updates", auto=True, engines=OWN_MODELS
    )
    local_parameter_device: str = axis(
        "where shared variables live", choices=("cpu", "gpu"), auto=True, engines=OWN_MODELS
    )
    all_reduce: str = axis(
        "how gradients meet", folder="all_reduces", auto=True, engines=OWN_MODELS
    )
    staged_vars: bool = axis(
        "use the weights of the previous step", default=False, engines=OWN_MODELS
    )
    gradient_repacking: int = axis(
        "number of packs; 0 = one message per tensor",
        default=0,
        least=0,
        most=256,
        engines=OWN_MODELS,
    )
    compact_gradients: bool = axis(
        "send packs as half precision", default=False, engines=OWN_MODELS
    )
    precision: str = axis(
        "number format of the computation", folder="precisions", given="fp32", engines=ENGINES
    )
    loss_scale: str = axis(
        "none, dynamic, static, or a factor of the loss; auto = dynamic for fp16, else none",
        default="none",
        auto=True,
        engines=OWN_MODELS,
    )
    xla: str = axis(
        "compile with XLA: on = each tower, auto = clusters of operations",
        default="off",
        choices=("off", "on", "auto"),
        engines=OWN_MODELS,
    )
    optimizer: str = axis(
        "how gradients change weights", folder="optimizers", given="momentum", engines=ENGINES
    )
    learning_rate: float = axis(
        "factor of a gradient", auto=True, least=0, sets_step_time=False, engines=ENGINES
    )
    momentum: float = axis(
        "share of the last update", auto=True, least=0, below=1, engines=OWN_MODELS
    )
    weight_decay: float = axis(
        "factor of the L2 loss over all trainable variables",
        given=4e-5,
        least=0,
        engines=OWN_MODELS,
    )
    data: str = axis("a file in trainer/data/", set_by="data", engines=OWN_MODELS)
    data_dir: str = axis(
        "folder of the shards; empty = our cache", default="", set_by="data.dir", engines=OWN_MODELS
    )
    distortions: bool = axis("random crop, flip and colors", auto=True, engines=OWN_MODELS)
    data_format: str = axis(
        "order of dimensions",
        default="NHWC",
        choices=("NHWC", "NCHW"),
        auto=True,
        engines=OWN_MODELS,
    )
    image_px: int = axis(
        "height and width of the model's input, in pixels; 0 = a model of your own says",
        auto=True,
        least=0,
        engines=OWN_MODELS,
    )
    num_classes: int = axis(
        "classes of the model; 0 = a model of your own says",
        set_by="model",
        least=0,
        sets_step_time=False,
        engines=OWN_MODELS,
    )
    batch_size: int = axis("images per replica and step", auto=True, least=1, engines=ENGINES)
    scaling: str = axis(
        "weak: batch_size is of one replica; strong: of all replicas together",
        default="weak",
        choices=("weak", "strong"),
        sets_step_time=False,
        engines=OWN_MODELS,
    )
    steps_per_execution: int = axis(
        "steps inside one call of the training function", default=1, least=1, engines=OWN_MODELS
    )
    gpu_thread_mode: str = axis(
        "threads that launch kernels", default="global", choices=_THREAD_MODES
    )
    gpu_thread_count: int = axis(
        "threads per GPU in the two private modes", default=0, least=0, most=1024
    )
    num_inter_threads: int = axis(
        "operations at once on the host; 0 = TensorFlow's", default=0, least=0, most=1024
    )
    num_intra_threads: int = axis(
        "threads of one operation on the host; 0 = TensorFlow's", default=0, least=0, most=1024
    )
    onednn: str = axis(
        "oneDNN's kernels; auto = TensorFlow's choice", default="auto", choices=_SWITCH
    )
    cudnn_autotune: str = axis(
        "try convolution algorithms and keep the fastest", default="auto", choices=_SWITCH
    )
    winograd_nonfused: str = axis(
        "cuDNN's non-fused Winograd convolutions", default="auto", choices=_SWITCH
    )
    batchnorm_persistent: str = axis(
        "cuDNN's persistent batch normalization", default="auto", choices=_SWITCH
    )
    cache: bool = axis(
        "keep serialized records in memory once read", default=True, auto=True, engines=OWN_MODELS
    )
    data_threads: int = axis(
        "private threads of the input pipeline; 0 = TensorFlow's", default=0, least=0, most=1024
    )
    prefetch: int = axis(
        "batches waiting on each device; 0 = copied when asked for", default=2, least=0, most=1024
    )
    visibility: str = axis(
        "other GPUs are masked by CUDA_VISIBLE_DEVICES, or all are visible to the process",
        default="masked",
        choices=("masked", "all"),
    )
    min_warm_up_steps: int = axis(
        "least number of warm-up steps", auto=True, least=0, sets_step_time=False, engines=ENGINES
    )
    num_steps: int = axis(
        "measured steps, at least", auto=True, least=1, sets_step_time=False, engines=ENGINES
    )
    min_window_s: float = axis(
        "seconds that measuring goes on for, at least",
        default=0.0,
        given=1.0,
        least=0,
        sets_step_time=False,
        engines=OWN_MODELS,
    )
    profile: bool = axis(
        "profile a few steps after the measurement", default=False, sets_step_time=False
    )
    # as "drift=0.05 noise=0.02", names in order; see `scalemark.records.injected`
    injected: str = axis(
        "what was slowed or broken on purpose", default="", set_by="injected", engines=OWN_MODELS
    )
    seed: int = axis("of weights and data", given=1, least=0, sets_step_time=False, engines=ENGINES)
    # as scalemark.program.template reads it
    command: str = axis(
        "the program's command line, with {axis} where the value of an axis goes",
        default="",
        set_by="command.run",
        engines=(Engine.command,),
    )
    shell: bool = axis(
        "let /bin/sh read the command line",
        default=False,
        set_by="command.shell",
        engines=(Engine.command,),
    )
    read: str = axis(
        "how the program's output is read: KIND or KIND:ARGUMENT",
        default="",
        set_by="command.read",
        engines=(Engine.command,),
    )
    item: str = axis(
        "what is counted per second, as images, tokens or samples",
        default="",
        set_by="command.item",
        sets_step_time=False,
        engines=(Engine.command,),
    )
    items_per_step: str = axis(
        "items of all replicas per step, as batch_size*num_gpus",
        default="",
        set_by="command.items_per_step",
        sets_step_time=False,
        engines=(Engine.command,),
    )
    per_gpu: bool = axis(
        "the program's numbers are of one GPU",
        default=False,
        set_by="command.per_gpu",
        sets_step_time=False,
        engines=(Engine.command,),
    )
    compare: str = axis(
        "the axis that plays the part of the strategy",
        default="",
        in_curve=False,
        set_by="command.compare",
        sets_step_time=False,
        engines=(Engine.command,),
    )
    free: FreeAxes = ()  # axes that the sweep brought itself

    def __post_init__(self) -> None:
        if self.free:
            object.__setattr__(self, "free", free_axes(dict(self.free)))
        is_of_commands = self.engine == Engine.command
        if self.device_kind == DeviceKind.SIMULATED_GPU and not is_of_commands:
            # no other engine can run on these
            object.__setattr__(self, "engine", Engine.simulated.value)
        _check(self)

    @property
    def gpus_per_host(self) -> int:
        return self.num_gpus // self.hosts

    @property
    def injected_values(self) -> dict[str, float]:
        """Return the injected faults by name."""
        return read_injected(self.injected)

    def lacks(self, axis: Axis) -> bool:
        """Return whether the trial has no such axis, as its engine knows nothing of it."""
        if self.engine != Engine.command or axis.name in ALWAYS_OF_COMMANDS:
            return False
        return self.value(axis) == axis.lacking

    def value(self, axis: Axis) -> AxisValue:
        """Return the value of its field; see `lacks`."""
        found: AxisValue = getattr(self, axis.name)
        return found

    @property
    def axes(self) -> dict[str, AxisValue | None]:
        """Return all axes by name, free ones last; None for those that it lacks."""
        values: dict[str, AxisValue | None] = {}
        for name, definition in AXES.items():
            values[name] = None if self.lacks(definition) else self.value(definition)
        return values | dict(self.free)

    @property
    def strategy(self) -> str:
        """Return the name of its way of training: a row of tables."""
        if self.engine != Engine.command:
            return strategy_name(self.variable_update, self.local_parameter_device, self.all_reduce)
        axes = self.axes
        words = [f"{name.removeprefix(PREFIX)}={axes[name]}" for name in strategy_axes(axes)]
        return " ".join(words) or Engine.command.value

    @property
    def trial_id(self) -> str:
        """Return the first 16 hex digits of the SHA-256 of the canonical JSON.

        `compare` is left out: it chooses the rows of tables, and changes nothing of what runs.
        """
        values = json.loads(self.to_json())
        values.pop("compare", None)
        return hashlib.sha256(_canonical(values).encode()).hexdigest()[:16]

    @property
    def curve(self) -> str:
        """Return a digest that all trials of one scaling curve share.

        It leaves out the number of GPUs and of hosts, and the rate of links between hosts, because
        a curve begins on one host. Under strong scaling it has the batch of all replicas.
        """
        values = json.loads(self.to_json())
        if self.hosts > 1 and "injected" in values:
            values["injected"] = injected_on_one_host(self.injected)
            if not values["injected"]:
                del values["injected"]
        for name in _OUTSIDE_CURVE:
            values.pop(name, None)
        if self.scaling == "strong":
            values["batch_size"] *= self.num_gpus
        return hashlib.sha256(_canonical(values).encode()).hexdigest()[:16]

    def to_json(self) -> str:
        """Return canonical JSON (sorted keys, no spaces, no defaults): equal specs, equal text."""
        values: dict[str, object] = {}
        for name, definition in AXES.items():
            value = self.value(definition)
            if value != definition.default and not self.lacks(definition):
                values[name] = value
        if self.free:
            values["free"] = {name.removeprefix(PREFIX): value for name, value in self.free}
        return _canonical(values)

    @classmethod
    def from_json(cls, text: str) -> TrialSpec:
        """Invert `to_json`. Raises ValueError, which names missing and unknown keys."""
        values = json.loads(text)
        if not isinstance(values, dict):
            raise ValueError(
                f"not a trial spec: found {type(values).__name__}, wanted an object of axes"
            )
        _check_names(values)
        return cls.of(values)

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> TrialSpec:
        """Return the trial of these values of its JSON. Raises ValueError."""
        free = values.get("free", {})
        if not isinstance(free, dict):
            raise ValueError(f"free={str(free)[:60]}: wanted an object of free axes")
        lacking = {}
        if values.get("engine") == Engine.command:
            lacking = {name: AXES[name].lacking for name in LACKED_BY_COMMANDS}
        return cls(**{**lacking, **values, "free": tuple(free.items())})

    @classmethod
    def of_axes(cls, axes: Mapping[str, Any]) -> TrialSpec:
        """Invert `axes`; names that are not axes are left out."""
        values: dict[str, Any] = {}
        for name, definition in AXES.items():
            values[name] = definition.lacking if axes[name] is None else axes[name]
        free = tuple((name, axes[name]) for name in free_names(axes))
        return cls(**values, free=free)


AXES: Mapping[str, Axis] = {
    field.name: axis_of(field) for field in fields(TrialSpec) if field.name != "free"
}
"""Name -> the axis, in the order of the fields."""

PROGRAM_AXES = tuple(one.name for one in AXES.values() if one.engines == (Engine.command,))
"""Axes that say what the program is and how it is read."""

USED_BY_PROGRAMS = (
    "precision",
    "optimizer",
    "learning_rate",
    "batch_size",
    "num_steps",
)
ALWAYS_OF_COMMANDS = frozenset(
    one.name
    for one in AXES.values()
    if Engine.command in one.engines and one.name not in USED_BY_PROGRAMS
)
"""Axes that every trial of engine=command has. It lacks those of `USED_BY_PROGRAMS` that its
program does not use, and all that are of our own models.
"""

_REQUIRED = frozenset(one.name for one in AXES.values() if one.default is None)
LACKED_BY_COMMANDS = _REQUIRED.difference(ALWAYS_OF_COMMANDS)
_CHECKED = tuple(one for one in AXES.values() if one.is_bounded)
_OUTSIDE_CURVE = tuple(one.name for one in AXES.values() if not one.in_curve)


def _canonical(values: Mapping[str, object]) -> str:
    return json.dumps(values, sort_keys=True, separators=(",", ":"))


def _check(spec: TrialSpec) -> None:
    """Raise ValueError for a value out of bounds, and for values that exclude each other."""
    for one in _CHECKED:
        problem = one.problem(getattr(spec, one.name))
        if problem and not spec.lacks(one):
            raise ValueError(problem)
    if spec.engine == Engine.command:
        _check_command(spec)
    elif ":" not in spec.model:  # a model of the user's own says its sizes itself
        for name in ("image_px", "num_classes"):
            if getattr(spec, name) < 1:
                raise ValueError(f"{name}={getattr(spec, name)}: wanted 1 or more")
    if spec.num_gpus % spec.hosts:
        raise ValueError(
            f"num_gpus={spec.num_gpus}: counts the replicas of all hosts={spec.hosts}, each of "
            f"which takes as many; wanted a multiple of {spec.hosts}"
        )
    if spec.engine == Engine.simulated and spec.device_kind != DeviceKind.SIMULATED_GPU:
        raise ValueError(
            f"engine=simulated device_kind={spec.device_kind}: wanted "
            f"{DeviceKind.SIMULATED_GPU.value}"
        )
    read_injected(spec.injected)
    if spec.loss_scale not in ("none", "dynamic") and not _is_positive(spec.loss_scale):
        raise ValueError(
            f"loss_scale={spec.loss_scale}: wanted none, dynamic, or a number greater than 0"
        )


def _check_command(spec: TrialSpec) -> None:
    """Raise ValueError for a program that is not known, or whose output nothing reads."""
    if spec.device_kind == DeviceKind.SIMULATED_GPU:
        raise ValueError(f"engine=command device_kind={spec.device_kind}: wanted real devices")
    if not spec.command:
        raise ValueError("engine=command: wanted command=, which is empty")
    if not spec.read:
        raise ValueError(
            "engine=command: nothing says how its numbers are read; give 'read=regex:images/sec: "
            "([0-9.]+)', or what `scalemark read LOG` prints for a log of it"
        )
    if spec.item:
        check_item(spec.item)


def _check_names(values: Mapping[str, Any]) -> None:
    """Raise ValueError for missing axes, and for unknown ones, with the nearest known name."""
    required = _REQUIRED
    if values.get("engine") == Engine.command:
        required = required.difference(LACKED_BY_COMMANDS)
    missing = sorted(required - set(values))
    problems = [f"missing {', '.join(missing)}"] if missing else []
    for name in sorted(set(values) - {"free", *AXES}):
        near = difflib.get_close_matches(name, AXES, n=1) or [f"one of {', '.join(AXES)}"]
        problems.append(f"{name!r} is no axis, did you mean {near[0]}?")
    if problems:
        raise ValueError(f"not a trial spec: {'; '.join(problems)}")


def _is_positive(text: str) -> bool:
    try:
        return 0 < float(text) < LARGEST_FLOAT32
    except ValueError:
        return False


# `auto` settles these two, and a strategy is named by a word of its own
_NEVER_UNUSUAL = ("engine", "min_window_s", *STRATEGY_AXES, *PROGRAM_AXES)
_USUAL = {one.name: one.default for one in AXES.values() if one.default is not None}
_USUAL["optimizer"] = "momentum"


def unusual_axes(values: Mapping[str, object]) -> list[str]:
    """Return the axes that are worth naming beside a number: free ones, and those whose value most
    trials do not have.
    """
    unusual = []
    for name, usual in _USUAL.items():
        if name not in _NEVER_UNUSUAL and values.get(name, usual) not in (usual, None):
            unusual.append(name)
    return unusual + free_names(values)


def free_names(axes: Mapping[str, object]) -> list[str]:
    """Return the names of free axes, with their prefix; an axis that a trial lacks is None."""
    return [name for name, value in axes.items() if name.startswith(PREFIX) and value is not None]


def strategy_axes(axes: Mapping[str, object]) -> tuple[str, ...]:
    """Return the axes that a trial's strategy stands for, by all of its axes.

    For a program of the user's own these are its free axes, or the one named to be compared.
    """
    if axes.get("engine") != Engine.command:
        return STRATEGY_AXES
    compared = axes.get("compare")
    return (str(compared),) if compared else tuple(free_names(axes))


def all_axes(specs: Iterable[TrialSpec]) -> list[str]:
    """Return the names of all axes that any of these trials has."""
    free = {name for spec in specs for name, _ in spec.free}
    return [*AXES, *sorted(free)]


def width_name(num_gpus: int, hosts: int) -> str:
    """Return `x8`, or `x8h2` for 8 replicas over 2 hosts, for names of folders and trials."""
    return f"x{num_gpus}" if hosts == 1 else f"x{num_gpus}h{hosts}"
