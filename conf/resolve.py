"""Turns one composed config into a trial: `auto` becomes a value, what means nothing is refused."""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache, partial
from pathlib import Path
from typing import Any

from conf import program, rules
from conf.schema import AXES_SET_BY_NAME, Config, DataConfig, free_values
from scalemark import abilities, models, own_model
from scalemark.records.axes import AUTO, Axis, AxisValue, Engine, free_axes
from scalemark.records.machine import DeviceKind
from scalemark.records.measurement import INJECTED, injected_text
from scalemark.records.trial import AXES, TrialSpec
from simulator.costs.networks import Network, network
from simulator.costs.step import replica_bytes


class TrialRefusedError(Exception):
    """Raised for a cell that means nothing, or cannot run here; says why in one sentence."""

    def __init__(self, why: str, spec: TrialSpec | None = None) -> None:
        super().__init__(why)
        self.spec = spec  # the trial of a program that it would be


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialEffort:
    """The numbers of steps and seconds that `auto` means."""

    min_warm_up_steps: int
    num_steps: int
    min_warm_up_s: float = 0.0
    min_window_s: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Hosts:
    """The hosts of a shared sweep."""

    most: int  # hosts that one trial may be spread over
    remedy: str  # how to get more


EFFORT = {
    # tf_cnn_benchmarks' steps; within the seconds clocks ramp up, and some cards become warm
    DeviceKind.GPU: TrialEffort(
        min_warm_up_steps=10, num_steps=100, min_warm_up_s=5.0, min_window_s=5.0
    ),
    DeviceKind.SIMULATED_GPU: TrialEffort(min_warm_up_steps=10, num_steps=100),
    DeviceKind.CPU_DEVICE: TrialEffort(min_warm_up_steps=3, num_steps=10),  # a laptop in minutes
}

ALWAYS_SIMULATED = {"noise": 0.02, "process_noise": 0.005}
"""Injected into simulated trials by default: no machine takes the same time twice."""


def resolve(
    config: Config,
    device_kind: DeviceKind,
    num_devices: int,
    compute_capability: tuple[int, int] | None = None,
    is_mig: bool = False,
    hosts: Hosts | None = None,
    memory_bytes: int | None = None,
) -> TrialSpec:
    """Return the trial this config means on `num_devices` devices of this kind, on each of `hosts`.

    `compute_capability` and `memory_bytes` are the least of the usable GPUs; None on CPU devices.
    `is_mig` says that they are MIG devices. Raises TrialRefusedError, naming axis, value and
    remedy, and ModelError when the model has no definition.
    """
    if (config.engine is Engine.simulated) != (device_kind is DeviceKind.SIMULATED_GPU):
        raise TrialRefusedError(
            f"engine={config.engine.name}: one engine for the whole sweep; give it on the "
            "command line"
        )
    is_program = config.engine is Engine.command
    try:
        if is_program:
            spec = program.trial_of(config, device_kind)
        else:
            spec = _trial_of(config, device_kind, compute_capability, memory_bytes)
    except models.ModelError:
        raise
    except program.ProgramRefusedError as error:
        raise TrialRefusedError(str(error), error.spec) from None
    except ValueError as error:
        raise TrialRefusedError(str(error)) from None
    if is_program:
        no_room = _problem_of_room(spec, num_devices, hosts)
        if no_room:
            raise TrialRefusedError(no_room, spec)
        return spec
    problems = itertools.chain(
        _problems_of_own_model(spec),
        rules.problems(spec),
        _problems_of_model(spec.model, spec.image_px, spec.seq_len, spec.num_classes),
        _problems_of_recompute(spec),
        _problems_of_data(spec, config.data),
        _problems_of_machine(spec, num_devices, compute_capability, is_mig, hosts),
    )
    for problem in problems:
        raise TrialRefusedError(problem)
    return spec


def _problems_of_machine(
    spec: TrialSpec,
    num_devices: int,
    compute_capability: tuple[int, int] | None,
    is_mig: bool,
    hosts: Hosts | None,
) -> Iterator[str]:
    lack = abilities.PRECISIONS[spec.precision].lack_of(compute_capability)
    if lack:
        yield f"precision={spec.precision}: {lack}"
    no_room = _problem_of_room(spec, num_devices, hosts)
    if no_room:
        yield no_room
    if is_mig and spec.gpus_per_host > 1:
        yield (
            f"num_gpus={spec.num_gpus} hosts={spec.hosts}: the usable devices are MIG slices, and "
            "CUDA shows a process only one"
        )


def _problem_of_room(spec: TrialSpec, num_devices: int, hosts: Hosts | None) -> str | None:
    kind = DeviceKind(spec.device_kind)
    if not hosts:  # processes of this machine, which share its devices
        if spec.num_gpus <= num_devices:
            return None
        verb = "is" if num_devices == 1 else "are"
        there = f"there {verb} {kind.counted(num_devices)} {_WHERE[kind]}"
        return f"num_gpus={spec.num_gpus}: {there}"
    if spec.hosts > hosts.most:
        return f"hosts={spec.hosts}: here a trial has {hosts.most} at most; {hosts.remedy}"
    if spec.gpus_per_host <= num_devices:
        return None
    wanted = f"num_gpus={spec.num_gpus} hosts={spec.hosts}: {spec.gpus_per_host} on each host"
    return f"{wanted}, which has {num_devices} {kind.plural}"


_WHERE = {
    DeviceKind.GPU: "usable here",
    DeviceKind.CPU_DEVICE: "(hardware.num_cpu_devices raises that)",
    DeviceKind.SIMULATED_GPU: "in this profile (hardware.profile.num_gpus raises that)",
}


def _injected(config: Config) -> dict[str, float]:
    """Return what is injected: nothing of size 0, and the usual noise into simulated trials."""
    values = {}
    if config.engine is Engine.simulated:
        values.update(ALWAYS_SIMULATED)
    for name in INJECTED:
        value = getattr(config.injected, name)
        if value is not None:
            values[name] = value
    return {name: value for name, value in values.items() if value != 0}


def _problems_of_own_model(spec: TrialSpec) -> Iterator[str]:
    if not own_model.is_own(spec.model):
        return
    if spec.engine != Engine.tensorflow:
        yield (
            f"model={spec.model}: engine={spec.engine} does not know the layers of a model of your "
            f"own; choose one of {', '.join(sorted(models.trainable()))}, or engine=tensorflow"
        )
    for axis in ("image_px", "seq_len"):
        value = getattr(spec, axis)
        if value:
            yield f"{axis}={value}: {spec.model} has an input of its own; leave it out"
    if spec.data != "synthetic":
        yield (
            f"data={spec.data}: {spec.model} takes synthetic data of its own input alone; leave it "
            "out"
        )
    if spec.data_format != "NHWC":
        yield (
            f"data_format={spec.data_format}: {spec.model} says itself which order of dimensions "
            "it takes; leave it out"
        )


@cache
def _problems_of_model(
    model: str, image_px: int, seq_len: int, num_classes: int
) -> tuple[str, ...]:
    if own_model.is_own(model):
        return ()
    try:
        models.define(model, image_px=image_px, seq_len=seq_len, num_classes=num_classes)
    except models.ModelError as error:
        return (str(error),)
    return ()


def _problems_of_recompute(spec: TrialSpec) -> Iterator[str]:
    if spec.recompute and not _can_recompute(spec.model):
        able = [name for name in sorted(models.trainable()) if _can_recompute(name)]
        yield (
            f"recompute=true: {spec.model} does not say which activations to keep; leave it out, "
            f"or choose {', '.join(able)}"
        )


@cache
def _can_recompute(model: str) -> bool:
    return not own_model.is_own(model) and models.can_recompute(models.define(model))


def _problems_of_data(spec: TrialSpec, data: DataConfig) -> Iterator[str]:
    if spec.seq_len and spec.data_format != "NHWC":
        yield f"data_format={spec.data_format}: {spec.model} takes no images; leave it out"
    taken = "tokens" if spec.seq_len else "images"
    if data.gives and data.gives != taken:
        yield (
            f"data={spec.data}: it has {data.gives}, and {spec.model} takes {taken}; choose "
            f"data=synthetic, or a model that takes {data.gives}"
        )
    if spec.distortions and not data.distorts:
        yield (
            f"distortions=true: data={spec.data} has no images to distort; leave it out or "
            "choose data=photos"
        )
    if data.num_labels is not None and spec.num_classes < data.num_labels:
        yield (
            f"data={spec.data}: it has labels up to {data.num_labels - 1}; choose a model of "
            f"{data.num_labels} classes or more, {spec.model} has {spec.num_classes}"
        )
    if data.reads_folder and spec.device_kind == DeviceKind.SIMULATED_GPU:
        if spec.data_dir:
            yield f"data.dir={spec.data_dir}: simulated trials read no files; leave it out"
    elif data.reads_folder:
        if not spec.data_dir and not data.makes_folder:
            yield f"data={spec.data}: wanted data.dir=FOLDER, with its files train-*-of-*"
    else:
        yield from _problems_of_no_folder(spec, data)


def _problems_of_no_folder(spec: TrialSpec, data: DataConfig) -> Iterator[str]:
    if spec.data_dir:
        yield (f"data.dir={spec.data_dir}: data={spec.data} reads no folder; leave data.dir out")
    without_effect: dict[str, AxisValue | None] = {"cache": data.cache}
    if not data.has_pipeline:
        without_effect |= {axis: AXES[axis].default for axis in ("data_threads", "prefetch")}
    for axis, default in without_effect.items():
        value = getattr(spec, axis)
        if value != default:
            text = f"{axis}={value}".lower()
            yield f"{text}: data={spec.data} reads nothing, so that changes nothing; leave it out"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Around:
    """The circumstances that decide what `auto` means."""

    device_kind: DeviceKind
    rule: abilities.VariableUpdateAbilities  # of the variable update that the config means
    precision: str  # that the config means
    memory_bytes: int | None  # the least of the GPUs
    usual_precision: str  # of these devices

    @property
    def on_cpu_devices(self) -> bool:
        return self.device_kind is DeviceKind.CPU_DEVICE


def _trial_of(
    config: Config,
    device_kind: DeviceKind,
    compute_capability: tuple[int, int] | None,
    memory_bytes: int | None,
) -> TrialSpec:
    """Make the trial. Raises ValueError, or TrialRefusedError for a value of the wrong type."""
    update = config.variable_update.name
    if update == AUTO:
        update = abilities.DEFAULT_UPDATE
    rule = abilities.VARIABLE_UPDATES[update]
    on_gpus = device_kind is DeviceKind.GPU
    is_ours = on_gpus and not own_model.is_own(config.model.name)
    usual_precision = abilities.fastest_precision(compute_capability if is_ours else None)
    precision = config.precision.name
    if precision == AUTO:
        precision = usual_precision
    around = _Around(
        device_kind=device_kind,
        rule=rule,
        precision=precision,
        memory_bytes=memory_bytes if on_gpus else None,
        usual_precision=usual_precision,
    )
    model, digest = config.model.name, ""
    if own_model.is_own(model):
        own = own_model.find(model, Path.cwd())
        model, digest = own.reference, own.digest
    num_classes = config.model.num_classes
    if num_classes is None:
        num_classes = _published(config)["num_classes"]
    values = {axis.name: _value_of(axis, config, around) for axis in AXES_SET_BY_NAME}
    if config.engine is not Engine.command and not own_model.is_own(model):
        for size in models.published_sizes(model):
            if not values.get(size, num_classes):
                raise TrialRefusedError(f"{size}=0: {model} wants 1 or more")
    if values["loss_scale"] == "static":
        values["loss_scale"] = STATIC_LOSS_SCALE
    elif not isinstance(values["loss_scale"], str):  # 128 and 128.0 are one trial
        values["loss_scale"] = f"{values['loss_scale']:.17g}"
    values["batch_size"] = _batch_of_a_replica(values["batch_size"], config)
    return TrialSpec(
        **values,
        engine=config.engine.value,
        free=free_axes(free_values(config)),
        model=model,
        model_digest=digest,
        num_classes=num_classes,
        device_kind=device_kind,
        data=config.data.name,
        data_dir=str(Path(config.data.dir).expanduser().resolve()) if config.data.dir else "",
        injected=injected_text(_injected(config)),
    )


def _value_of(axis: Axis, config: Config, around: _Around) -> Any:
    """Return the value of an axis as a trial has it."""
    value = getattr(config, axis.name)
    if isinstance(value, Enum):
        value = value.name
    if axis.auto and value == AUTO:
        return _AUTO[axis.name](config, around)
    if axis.type is float and not isinstance(value, str):
        return float(value)
    if isinstance(value, str) and axis.type is not str:
        raise TrialRefusedError(f"{axis.name}={value}: wanted {_WANTED[axis.type]} or auto")
    return value


_WANTED = {int: "a whole number", float: "a number", bool: "true, false"}

MOMENTUM = 0.9  # tf_cnn_benchmarks' default, for momentum and rmsprop
STATIC_LOSS_SCALE = "128"  # tf_cnn_benchmarks' default for fp16


def _all_reduce(_: Config, around: _Around) -> str:
    """Return the first that the devices can run."""
    for name in around.rule.all_reduces:
        if not around.on_cpu_devices or not abilities.ALL_REDUCES[name].gpu_only:
            return name
    raise AssertionError("a variable update has an all-reduce for every kind of device")


def _loss_scale(_: Config, around: _Around) -> str:
    precision = abilities.PRECISIONS[around.precision]
    if precision.is_loss_scaled and around.rule.is_synchronous:
        return "dynamic"
    return "none"


def _learning_rate(config: Config, _: _Around) -> float:
    of_optimizer: float | None = abilities.OPTIMIZERS[config.optimizer.name].learning_rate
    if of_optimizer is None:
        return config.model.learning_rate
    of_model = config.model.adaptive_learning_rate
    if of_model is None:
        return of_optimizer
    return of_model


def _momentum(config: Config, _: _Around) -> float:
    if abilities.OPTIMIZERS[config.optimizer.name].has_momentum:
        return MOMENTUM
    return 0.0


def _data_format(config: Config, around: _Around) -> str:
    """Choose NHWC on CPUs, whose convolutions are made for it, for models without images, and where
    a model of the user's own says itself what it takes.
    """
    if around.on_cpu_devices or own_model.is_own(config.model.name):
        return "NHWC"
    if "image_px" not in _published(config):
        return "NHWC"
    return abilities.PRECISIONS[around.precision].data_format(xla=config.xla.name != "off")


def _size(name: str, config: Config, around: _Around) -> int:
    """Return the pixels or tokens that a model takes; 0 where it takes none, or says it itself."""
    of_model: int | None = getattr(config.model, f"cpu_{name}" if around.on_cpu_devices else name)
    if of_model is not None:
        return of_model
    if own_model.is_own(config.model.name):
        return 0
    return _published(config).get(name, 0)


def _published(config: Config) -> Mapping[str, int]:
    """Return the sizes that the model was published with."""
    return models.published_sizes(config.model.name)


def _batch_size(config: Config, around: _Around) -> int:
    if around.on_cpu_devices:
        return config.model.cpu_batch_size
    model, memory_bytes = config.model, around.memory_bytes
    gib = (memory_bytes or 0) / 2**30 + 1  # a card of 32 GiB reports a little less
    batch_size = model.batch_size << max(0, int(math.log2(gib / _GIB_OF_A_BATCH)))
    if own_model.is_own(model.name):
        return batch_size
    counted = network(model.name, model.image_px, model.num_classes, model.seq_len)
    return _batch_that_fits(counted, batch_size, around.usual_precision, memory_bytes)


_GIB_OF_A_BATCH = 16  # models' batches are those of tf_cnn_benchmarks, for 12 to 16 GiB
_NUM_SLOTS = 2  # of adam, which has the most variables of its own
_MOST_OF_MEMORY = 0.85  # the rest is the driver's and NCCL's, and how far estimates are off


@cache
def _batch_that_fits(
    network: Network, batch_size: int, precision: str, memory_bytes: int | None
) -> int:
    """Halve a batch until GPUs have the memory for it, by the cost model's estimate.

    Call it with a model's own sizes, and the precision that the GPUs have by default: all cells of
    a grid have one batch.
    """
    while memory_bytes and batch_size > 1:
        held = (1 + _NUM_SLOTS) * 4.0 * network.num_parameters
        if held + replica_bytes(network, batch_size, precision) <= _MOST_OF_MEMORY * memory_bytes:
            break
        batch_size //= 2
    return batch_size


_AUTO: Mapping[str, Callable[[Config, _Around], AxisValue]] = {
    "variable_update": lambda _, __: abilities.DEFAULT_UPDATE,
    "local_parameter_device": lambda _, around: around.rule.local_parameter_devices[0],
    "all_reduce": _all_reduce,
    "precision": lambda _, around: around.precision,
    "loss_scale": _loss_scale,
    "learning_rate": _learning_rate,
    "momentum": _momentum,
    "weight_decay": lambda config, _: abilities.OPTIMIZERS[config.optimizer.name].weight_decay,
    "distortions": lambda config, _: config.data.distorts,
    "data_format": _data_format,
    "image_px": partial(_size, "image_px"),
    "seq_len": partial(_size, "seq_len"),
    "batch_size": _batch_size,
    "cache": lambda config, _: config.data.cache,
    "min_warm_up_steps": lambda _, around: EFFORT[around.device_kind].min_warm_up_steps,
    "min_warm_up_s": lambda _, around: EFFORT[around.device_kind].min_warm_up_s,
    "num_steps": lambda _, around: EFFORT[around.device_kind].num_steps,
    "min_window_s": lambda _, around: EFFORT[around.device_kind].min_window_s,
}
"""Axis -> what `auto` means."""

wrong = {axis.name for axis in AXES_SET_BY_NAME if axis.auto} ^ set(_AUTO)
if wrong:
    raise TypeError(f"{', '.join(sorted(wrong))}: wanted auto=True in the definition and a rule")


def _batch_of_a_replica(batch_size: int, config: Config) -> int:
    """Weak scaling keeps the batch of one replica and micro-batch, strong scaling that of all."""
    num_parts = config.num_gpus * config.gradient_accumulation
    if config.scaling.name == "weak" or num_parts < 1:
        return batch_size
    if batch_size % num_parts:
        over = f"num_gpus={config.num_gpus}"
        if config.gradient_accumulation > 1:
            over += f" * gradient_accumulation={config.gradient_accumulation}"
        raise ValueError(
            f"batch_size={batch_size}: scaling=strong splits it over {over}, which does not "
            "divide it"
        )
    return batch_size // int(num_parts)
