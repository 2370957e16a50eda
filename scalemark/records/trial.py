"""The trial: one fully resolved cell of a grid, its strategy, and its identity."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from functools import cached_property, lru_cache
from typing import Any

from scalemark.records.axes import (
    INHERITED,
    Axis,
    AxisValue,
    Engine,
    FreeAxes,
    axis_of,
    bare_name,
    free_axes,
    is_env_variable,
    is_free,
    name_in_records,
    number_of,
    record_of_axes,
)
from scalemark.records.machine import DeviceKind
from scalemark.records.measurement import check_item, read_injected
from scalemark.records.trial_axes import TrialAxes
from scalemark.text.wording import did_you_mean

STRATEGY_AXES = ("variable_update", "local_parameter_device", "all_reduce")
"""The axes that together are one strategy: a row of the article's tables."""

WORK = (
    *("model", "model_digest", "image_px", "seq_len", "num_classes", "data", "data_dir"),
    *("distortions", "optimizer", "learning_rate", "learning_rate_warm_up", "momentum"),
    *("weight_decay", "injected"),
)
"""Axes that make it other work, or another training; sources report few of them. Of a program it
is all that says what it is, and free axes that are not compared.
"""

STRATEGY_COLUMNS = {
    ("parameter_server", "cpu", "none"): "ps_cpu",
    ("parameter_server", "gpu", "none"): "ps_gpu",
    ("replicated", "gpu", "nccl"): "replicated_nccl",
    ("replicated", "gpu", "none"): "replicated_none",
    ("replicated", "gpu", "pscpu"): "replicated_pscpu",
}
"""The strategies of the cloud article (source 004): values of STRATEGY_AXES -> name."""

STRATEGY_NAMES = STRATEGY_COLUMNS | {
    ("mirrored", "gpu", "collective"): "mirrored",
    ("fit", "gpu", "collective"): "fit",
    ("sharded", "gpu", "none"): "sharded",
    ("sharded", "gpu", "nccl"): "sharded_nccl",
    ("distributed_parameter_server", "cpu", "none"): "distributed_ps",
    ("distributed_replicated", "cpu", "none"): "distributed_replicated",
    ("distributed_all_reduce", "gpu", "ring"): "distributed_ring",
    ("distributed_all_reduce", "gpu", "nccl"): "distributed_nccl",
    ("distributed_sharded", "gpu", "ring"): "distributed_sharded",
    ("multi_worker_mirrored", "gpu", "ring"): "multi_worker_mirrored_ring",
    ("multi_worker_mirrored", "gpu", "nccl"): "multi_worker_mirrored_nccl",
    ("process_per_gpu", "gpu", "nccl"): "process_per_gpu_nccl",
    ("process_per_gpu", "gpu", "ring"): "process_per_gpu_ring",
}
"""The strategies that `strategy=NAME` can choose: the article's, sharded and distributed ones."""


def strategy_name(variable_update: str, local_parameter_device: str, all_reduce: str) -> str:
    """Return the name of a combination, made of its parts where it has none of its own."""
    axes = (variable_update, local_parameter_device, all_reduce)
    if axes in STRATEGY_NAMES:
        return STRATEGY_NAMES[axes]
    parts = [variable_update]
    if all_reduce not in ("none", ""):
        parts.append(all_reduce)
    if local_parameter_device == "cpu":
        parts.append("cpu")
    return "_".join(parts)


LARGEST_FLOAT32 = 3.4e38


@record_of_axes
class TrialSpec(TrialAxes):
    """One fully resolved cell of the grid, with the axes that the sweep brought itself."""

    free: FreeAxes = ()

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
    def examples_per_replica(self) -> int:
        """Return the examples that one replica takes for one update."""
        return self.gradient_accumulation * self.batch_size

    @property
    def examples_per_step(self) -> int:
        """Return the examples of one update, over all replicas and micro-batches."""
        return self.num_gpus * self.examples_per_replica

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
        value: AxisValue = getattr(self, axis.name)
        return value

    @property
    def axes(self) -> dict[str, AxisValue | None]:
        """Return all axes by name, free ones last; None for those that it lacks."""
        values: dict[str, AxisValue | None] = {name: getattr(self, name) for name in AXES}
        if self.engine == Engine.command:
            values |= {name: None for name, axis in AXES.items() if self.lacks(axis)}
        return values | dict(self.free)

    @property
    def strategy(self) -> str:
        """Return the name of its way of training: a row of tables."""
        if self.engine != Engine.command:
            return strategy_name(self.variable_update, self.local_parameter_device, self.all_reduce)
        axes = self.axes
        return strategy_of_free_axes(axes, strategy_axes(axes)) or self.model

    @cached_property
    def trial_id(self) -> str:
        """Return the first 16 hex digits of the SHA-256 of the canonical JSON.

        `compare` and READING are left out: they change nothing of what runs.
        """
        return self._digest_without("compare", *READING)

    def has_id(self, trial_id: str) -> bool:
        """Return whether it has this id, or had it when READING was a part of it."""
        return trial_id in (self.trial_id, self._digest_without("compare", "flops_per_item"))

    def _digest_without(self, *names: str, **instead: object) -> str:
        values = self._unusual_values()
        for name in names:
            values.pop(name, None)
        return hashlib.sha256(_canonical(values | instead).encode()).hexdigest()[:16]

    @property
    def reading(self) -> dict[str, AxisValue]:
        """Return how the output of its program is read, by the settings for it."""
        return {f"command.{name}": self.value(AXES[name]) for name in READING}

    @property
    def curve(self) -> str:
        """Return a digest that all trials of one scaling curve share.

        It leaves out the number of GPUs and of hosts. Under strong scaling it has the examples of
        an update.
        """
        if self.scaling == "strong":
            return self._digest_without(*_OUTSIDE_CURVE, batch_size=self.examples_per_step)
        return self._digest_without(*_OUTSIDE_CURVE)

    def to_json(self) -> str:
        """Return canonical JSON (sorted keys, no spaces, no defaults): equal specs, equal text."""
        return _canonical(self._unusual_values())

    def _unusual_values(self) -> dict[str, object]:
        values: dict[str, object] = {}
        for name, definition in AXES.items():
            value = self.value(definition)
            if value != definition.default and not self.lacks(definition):
                values[name] = value
        if self.free:
            values["free"] = {name_in_records(name): value for name, value in self.free}
        return values

    @classmethod
    def from_json(cls, text: str) -> TrialSpec:
        """Invert `to_json`. Raises ValueError, which names missing and unknown keys."""
        values = named(json.loads(text))
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

PROGRAM_AXES = tuple(axis.name for axis in AXES.values() if axis.engines == (Engine.command,))
"""Axes that say what the program is and how it is read."""

READING = ("read", "item", "items_per_step", "per_gpu", "flops_per_item")
"""Axes that only say how the log of a program is read: a kept log can be read again."""

USED_BY_PROGRAMS = ("precision", "optimizer", "learning_rate", "batch_size", "num_steps")
ALWAYS_OF_COMMANDS = frozenset(
    axis.name
    for axis in AXES.values()
    if Engine.command in axis.engines and axis.name not in ("scaling", *USED_BY_PROGRAMS)
)
"""Axes that every trial of engine=command has. It lacks those of `USED_BY_PROGRAMS` that its
program does not use, weak scaling, and all that are of our own models.
"""

_REQUIRED = frozenset(axis.name for axis in AXES.values() if axis.default is None)
LACKED_BY_COMMANDS = _REQUIRED.difference(ALWAYS_OF_COMMANDS)
_CHECKED = tuple(axis for axis in AXES.values() if axis.is_bounded)
_OUTSIDE_CURVE = tuple(axis.name for axis in AXES.values() if not axis.in_curve)


def _canonical(values: Mapping[str, object]) -> str:
    return json.dumps(values, sort_keys=True, separators=(",", ":"))


def _check(spec: TrialSpec) -> None:
    """Raise ValueError for a value out of bounds, and for values that exclude each other."""
    for axis in _CHECKED:
        problem = axis.problem(spec.value(axis))
        if problem and not spec.lacks(axis):
            raise ValueError(problem)
    if spec.engine == Engine.command:
        _check_command(spec)
    elif ":" not in spec.model:  # a model of the user's own says its sizes itself
        if not spec.num_classes:
            raise ValueError("num_classes=0: wanted 1 or more")
        if not spec.image_px and not spec.seq_len:
            raise ValueError(
                "image_px=0 seq_len=0: wanted 1 or more of what the model takes, pixels or tokens"
            )
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
    scale = number_of(spec.loss_scale) or 0.0
    if spec.loss_scale not in ("none", "dynamic") and not 0 < scale < LARGEST_FLOAT32:
        raise ValueError(
            f"loss_scale={spec.loss_scale}: wanted auto, none, dynamic, static, or a number "
            "greater than 0"
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
            "([0-9.,]+)', or what `scalemark read LOG` prints for a log of it"
        )
    if spec.item:
        check_item(spec.item)


RETIRED = frozenset(
    (
        *("onednn", "cudnn_autotune", "winograd_nonfused"),
        *("gpu_thread_mode", "gpu_thread_count", "visibility"),
        *("num_inter_threads", "num_intra_threads", "batchnorm_persistent"),
    )
)
"""Axes of earlier versions."""


class RetiredAxisError(ValueError):
    """Raised for a trial of an earlier version, with an axis that is gone."""


def named(values: object) -> dict[str, Any]:
    """Return the values of a spec by name. Raises ValueError for missing and unknown axes."""
    if not isinstance(values, dict):
        raise ValueError(
            f"not a trial spec: found {type(values).__name__}, wanted an object of axes"
        )
    retired = sorted(RETIRED & values.keys())
    if retired:
        raise RetiredAxisError(
            f"a trial of an earlier version, with {retired[0]}={values[retired[0]]}; that axis is "
            "gone: variables of TensorFlow are given as +env.NAME="
        )
    required = _REQUIRED
    if values.get("engine") == Engine.command:
        required = required.difference(LACKED_BY_COMMANDS)
    missing = sorted(required - set(values))
    problems = [f"missing {', '.join(missing)}"] if missing else []
    for name in sorted(set(values) - {"free", *AXES}):
        hint = did_you_mean(name, AXES, f"choose one of {', '.join(AXES)}")
        problems.append(f"{name!r} is no axis, {hint}")
    if problems:
        raise ValueError(f"not a trial spec: {'; '.join(problems)}")
    return values


# `auto` settles these three, and a strategy is named by a word of its own
_NEVER_UNUSUAL = ("engine", "min_warm_up_s", "min_window_s", *STRATEGY_AXES, *PROGRAM_AXES)
_USUAL = {
    axis.name: axis.default
    for axis in AXES.values()
    if axis.default is not None and axis.name not in _NEVER_UNUSUAL
}
_USUAL["optimizer"] = "momentum"


def unusual_axes(values: Mapping[str, object]) -> list[str]:
    """Return the axes worth naming beside a number: free ones, and those of an unusual value."""
    unusual = [
        name for name, usual in _USUAL.items() if values.get(name, usual) not in (usual, None)
    ]
    return unusual + free_names(values)


def free_names(axes: Mapping[str, object]) -> list[str]:
    """Return the names of free axes, with their prefix; an axis that a trial lacks is None."""
    return [name for name in _free_of(tuple(axes)) if axes[name] is not None]


@lru_cache(maxsize=1_000)
def _free_of(names: tuple[str, ...]) -> tuple[str, ...]:
    """All trials of a database have the same names, so they are looked through once."""
    return tuple(name for name in names if is_free(name))


def strategy_axes(axes: Mapping[str, object]) -> tuple[str, ...]:
    """Return the axes that a trial's strategy stands for, by all of its axes.

    For a program of the user's own these are its free axes, or the one named to be compared; none
    where that is a variable that the trial inherits.
    """
    if axes.get("engine") != Engine.command:
        return STRATEGY_AXES
    free = tuple(free_names(axes))
    compared = str(axes.get("compare") or "")
    if is_env_variable(compared) and compared not in free:
        return ()
    return (compared,) if compared else free


def work_axes(axes: Mapping[str, object]) -> list[str]:
    """Return the axes that say what a trial works on, by all of its axes: see WORK."""
    if axes.get("engine") != Engine.command:
        return list(WORK)
    left_out = strategy_axes(axes)
    return [name for name in (*WORK, *PROGRAM_AXES, *free_names(axes)) if name not in left_out]


def strategy_of_free_axes(axes: Mapping[str, object], names: Iterable[str]) -> str:
    """Return as `zero=2 NCCL_ALGO=inherited`; a variable that a trial lacks is inherited."""
    words = []
    for name in names:
        value = axes.get(name)
        words.append(f"{bare_name(name)}={INHERITED if value is None else value}")
    return " ".join(words)


def naming_axes(trials: Sequence[Mapping[str, object]]) -> list[tuple[str, ...]]:
    """Return for each trial the axes that tell it from others of its program: those of its strategy
    that vary. None where none does, and of our own models.

    Where only variables vary, a trial that lacks one is named as what inherits it.
    """
    values: dict[object, dict[str, set[str]]] = defaultdict(dict)
    programs = [axes for axes in trials if axes.get("engine") == Engine.command]
    for axes in programs:
        values[axes["model"]].update({name: set() for name in strategy_axes(axes)})
    for axes in programs:
        for name, of_name in values[axes["model"]].items():
            of_name.add(str(axes.get(name)))
    varying: dict[object, tuple[str, ...]] = {}
    for model, of_program in values.items():
        varying[model] = tuple(name for name, of_name in of_program.items() if len(of_name) > 1)
    naming = []
    for axes in trials:
        named = varying.get(axes["model"], ())
        if not all(map(is_env_variable, named)):
            named = tuple(name for name in strategy_axes(axes) if name in named)
        naming.append(named)
    return naming


def all_axes(specs: Iterable[TrialSpec]) -> list[str]:
    """Return the names of all axes that any of these trials has."""
    free = {name for spec in specs for name, _ in spec.free}
    return [*AXES, *sorted(free)]


def width_name(num_gpus: int, hosts: int) -> str:
    """Return `x8`, or `x8h2` for 8 replicas over 2 hosts, for names of folders and trials."""
    if hosts == 1:
        return f"x{num_gpus}"
    return f"x{num_gpus}h{hosts}"
