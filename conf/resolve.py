"""Turns one composed config into a trial: `auto` becomes a value, and what means nothing is
refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from conf import rules
from conf.schema import Config, DataConfig, Engine
from scalemark import models
from scalemark.abilities import (
    ALL_REDUCES,
    DEFAULT_UPDATE,
    OPTIMIZERS,
    PRECISIONS,
    VARIABLE_UPDATES,
)
from scalemark.abilities.variable_update import VariableUpdateAbilities
from scalemark.records.devices import DeviceKind
from scalemark.records.planted import PLANTED, planted_text
from scalemark.records.trial import TrialSpec


class TrialRefusedError(Exception):
    """This cell of the grid means nothing, or cannot run here. The text says why, in one
    sentence.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How much `auto` measures."""

    min_warm_up_steps: int
    num_steps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Hosts:
    """Those that share a sweep."""

    most: int  # that one trial may be spread over
    remedy: str  # what to do for more


EFFORT = {
    DeviceKind.GPU: Effort(min_warm_up_steps=10, num_steps=100),  # tf_cnn_benchmarks' defaults
    DeviceKind.SIMULATED_GPU: Effort(min_warm_up_steps=10, num_steps=100),
    DeviceKind.CPU_STAND_IN: Effort(min_warm_up_steps=3, num_steps=10),  # a laptop in minutes
}

ALWAYS_SIMULATED = {"noise": 0.02, "process_noise": 0.005}
"""Planted in simulated trials unless the user says otherwise: no machine takes the same time
twice.
"""


def resolve(
    config: Config,
    device_kind: DeviceKind,
    num_devices: int,
    compute_capability: tuple[int, int] | None = None,
    is_mig: bool = False,
    hosts: Hosts | None = None,
) -> TrialSpec:
    """The trial this config means on a machine with `num_devices` devices of this kind, or on
    `hosts` with as many each.

    `compute_capability` is the least of the usable GPUs; None on stand-ins. `is_mig` says that they
    are MIG devices.

    Raises TrialRefusedError, naming axis, value and remedy, and ModelError when the model has no
    definition.
    """
    if (config.engine is Engine.simulated) != (device_kind is DeviceKind.SIMULATED_GPU):
        raise TrialRefusedError(
            f"engine={config.engine.name}: one engine for the whole sweep; give it on the "
            "command line"
        )
    update = _auto(config.variable_update.name, DEFAULT_UPDATE)
    rule = VARIABLE_UPDATES[update]
    stand_in = device_kind is DeviceKind.CPU_STAND_IN
    runnable = [name for name in rule.all_reduces if not stand_in or not ALL_REDUCES[name].gpu_only]
    model = config.model
    published = models.published_sizes(model.name)
    try:
        batch_size = _number(
            "batch_size",
            config.batch_size,
            model.stand_in_batch_size if stand_in else model.batch_size,
        )
        spec = TrialSpec(
            model=model.name,
            num_gpus=config.num_gpus,
            hosts=config.hosts,
            device_kind=device_kind,
            variable_update=update,
            local_parameter_device=_auto(
                config.local_parameter_device.name, rule.local_parameter_devices[0]
            ),
            all_reduce=_auto(config.all_reduce.name, runnable[0]),
            staged_vars=config.staged_vars,
            gradient_repacking=config.gradient_repacking,
            compact_gradients=config.compact_gradients,
            precision=config.precision.name,
            loss_scale=_loss_scale(config, rule),
            xla=config.xla.name,
            optimizer=config.optimizer.name,
            learning_rate=_real("learning_rate", config.learning_rate, _learning_rate(config)),
            momentum=_real(
                "momentum",
                config.momentum,
                MOMENTUM if OPTIMIZERS[config.optimizer.name].has_momentum else 0.0,
            ),
            weight_decay=config.weight_decay,
            data=config.data.name,
            data_dir=str(Path(config.data.dir).expanduser().resolve()) if config.data.dir else "",
            distortions=_flag("distortions", config.distortions, config.data.distorts),
            data_format=_auto(config.data_format.name, _data_format(config, stand_in)),
            image_px=_number(
                "image_px",
                config.image_px,
                model.stand_in_image_px if stand_in else model.image_px or published["image_px"],
            ),
            num_classes=model.num_classes or published["num_classes"],
            batch_size=_per_replica(batch_size, config),
            scaling=config.scaling.name,
            steps_per_execution=config.steps_per_execution,
            gpu_thread_mode=config.gpu_thread_mode.name,
            gpu_thread_count=config.gpu_thread_count,
            num_inter_threads=config.num_inter_threads,
            num_intra_threads=config.num_intra_threads,
            onednn=config.onednn.name,
            cudnn_autotune=config.cudnn_autotune.name,
            winograd_nonfused=config.winograd_nonfused.name,
            batchnorm_persistent=config.batchnorm_persistent.name,
            cache=_flag("cache", config.cache, config.data.cache),
            data_threads=config.data_threads,
            prefetch=config.prefetch,
            visibility=config.visibility.name,
            min_warm_up_steps=_number(
                "min_warm_up_steps", config.min_warm_up_steps, EFFORT[device_kind].min_warm_up_steps
            ),
            num_steps=_number("num_steps", config.num_steps, EFFORT[device_kind].num_steps),
            min_window_s=config.min_window_s,
            profile=config.profile,
            planted=planted_text(_planted(config)),
            seed=config.seed,
        )
    except ValueError as error:
        raise TrialRefusedError(str(error)) from None
    for problem in (*rules.problems(spec), *_problems_of_config(spec, config)):
        raise TrialRefusedError(problem)
    least = PRECISIONS[spec.precision].compute_capability
    if compute_capability and least and compute_capability < least:
        found, wanted = (".".join(map(str, version)) for version in (compute_capability, least))
        raise TrialRefusedError(
            f"precision={spec.precision}: needs compute capability {wanted}, a GPU here has {found}"
        )
    if no_room := _problem_of_room(spec, num_devices, hosts):
        raise TrialRefusedError(no_room)
    if hosts and "link_mbit" in spec.planted_values:
        raise TrialRefusedError(
            "planted.link_mbit: only links between hosts that are processes of this machine can be limited, and with this "
            "launcher hosts are machines; leave it out, or choose launcher=local"
        )
    if is_mig and (refusal := _problem_of_mig(spec)):
        raise TrialRefusedError(refusal)
    return spec


def _problem_of_room(spec: TrialSpec, num_devices: int, hosts: Hosts | None) -> str | None:
    """Hosts that are processes of this machine share its devices."""
    if hosts and spec.hosts > hosts.most:
        told = "1 host" if hosts.most == 1 else f"{hosts.most} hosts"
        return f"hosts={spec.hosts}: here a trial has {told} at most; {hosts.remedy}"
    if (spec.gpus_per_host if hosts else spec.num_gpus) <= num_devices:
        return None
    if not hosts:
        return (
            f"num_gpus={spec.num_gpus}: there are {num_devices} "
            f"{_COUNTED[DeviceKind(spec.device_kind)]}"
        )
    told = f"num_gpus={spec.num_gpus} hosts={spec.hosts}: {spec.gpus_per_host} on each host"
    return f"{told}, which has {num_devices} {DeviceKind(spec.device_kind).plural}"


_COUNTED = {
    DeviceKind.GPU: "GPUs usable here",
    DeviceKind.CPU_STAND_IN: "CPU stand-ins (hardware.num_stand_ins raises that)",
    DeviceKind.SIMULATED_GPU: "simulated GPUs in this profile (hardware.profile.num_gpus raises that)",
}


def _planted(config: Config) -> dict[str, float]:
    """What is 0 is not planted. Of simulated trials the noise is always said, so that an identity
    without it has none.
    """
    usual = ALWAYS_SIMULATED if config.engine is Engine.simulated else {}
    told = {name: getattr(config.planted, name) for name in PLANTED}
    values = {
        name: usual.get(name, 0.0) if value is None else value for name, value in told.items()
    }
    return {name: value for name, value in values.items() if value != 0}


def _problem_of_mig(spec: TrialSpec) -> str | None:
    slices = "the usable devices are MIG slices, and CUDA shows a process only one"
    if spec.gpus_per_host > 1:
        return (
            f"num_gpus={spec.num_gpus}{f' hosts={spec.hosts}' if spec.hosts > 1 else ''}: {slices}"
        )
    return f"visibility=all: {slices}; choose masked" if spec.visibility == "all" else None


def _problems_of_config(spec: TrialSpec, config: Config) -> list[str]:
    """What only the model's and the data source's own files can tell."""
    problems = [*_problems_of_sizes(spec.model, spec.image_px, spec.num_classes)]
    if spec.distortions and not config.data.distorts:
        problems.append(
            f"distortions=true: data={spec.data} has no images to distort; leave it out or "
            "choose data=photos"
        )
    if config.data.num_labels is not None and spec.num_classes < config.data.num_labels:
        problems.append(
            f"data={spec.data}: it has labels up to {config.data.num_labels - 1}; "
            f"choose a model of {config.data.num_labels} classes or more, {spec.model} has {spec.num_classes}"
        )
    return problems + _problems_of_reading(spec, config.data)


@cache
def _problems_of_sizes(model: str, image_px: int, num_classes: int) -> tuple[str, ...]:
    try:
        models.define(model, image_px=image_px, num_classes=num_classes)
    except models.ModelError as error:
        return (str(error),)
    return ()


def _problems_of_reading(spec: TrialSpec, data: DataConfig) -> list[str]:
    if data.reads_folder and spec.device_kind == DeviceKind.SIMULATED_GPU:
        return (
            [f"data.dir={spec.data_dir}: simulated trials read no files; leave it out"]
            if spec.data_dir
            else []
        )
    if data.reads_folder:
        if spec.data_dir or data.makes_folder:
            return []
        return [
            (
                f"data={spec.data}: wanted data.dir=FOLDER, the folder that holds its files "
                "train-*-of-*"
            )
        ]
    problems = []
    if spec.data_dir:
        problems.append(
            f"data.dir={spec.data_dir}: data={spec.data} reads no folder; leave data.dir out"
        )
    defaults = {
        "cache": data.cache,
        "data_threads": Config.data_threads,
        "prefetch": Config.prefetch,
    }
    for axis, default in defaults.items():
        if (value := getattr(spec, axis)) != default:
            problems.append(
                (
                    f"{axis}={value}: data={spec.data} reads nothing, so that changes nothing; "
                    "leave it out"
                ).lower()
            )
    return problems


def _per_replica(batch_size: int, config: Config) -> int:
    """Weak scaling keeps the batch of one replica, strong scaling the batch of all together."""
    if config.scaling.name == "weak" or config.num_gpus < 1:
        return batch_size
    if batch_size % config.num_gpus:
        raise ValueError(
            f"batch_size={batch_size}: scaling=strong splits it over "
            f"num_gpus={config.num_gpus}, which does not divide it"
        )
    return batch_size // config.num_gpus


MOMENTUM = 0.9  # tf_cnn_benchmarks' default, for momentum and rmsprop


def _learning_rate(config: Config) -> float:
    own = OPTIMIZERS[config.optimizer.name].learning_rate
    return config.model.learning_rate if own is None else own


def _data_format(config: Config, stand_in: bool) -> str:
    """CPUs' convolutions are made for NHWC."""
    return "NHWC" if stand_in else PRECISIONS[config.precision.name].gpu_data_format


STATIC_LOSS_SCALE = "128"  # tf_cnn_benchmarks' default for fp16


def _loss_scale(config: Config, rule: VariableUpdateAbilities) -> str:
    """As `TrialSpec.loss_scale` has it; numbers in their shortest form, so that 128 and 128.0 are
    one trial.
    """
    value = config.loss_scale
    if isinstance(value, str):
        needed = PRECISIONS[config.precision.name].is_loss_scaled and rule.is_synchronous
        return {"auto": "dynamic" if needed else "none", "static": STATIC_LOSS_SCALE}.get(
            value, value
        )
    return f"{value:.17g}"


def _auto(value: str, meaning: str) -> str:
    return meaning if value == "auto" else value


def _number(axis: str, value: int | str, meaning: int) -> int:
    if value == "auto":
        return meaning
    if isinstance(value, str):
        raise TrialRefusedError(f"{axis}={value}: wanted a whole number or auto")
    return value


def _real(axis: str, value: float | str, meaning: float) -> float:
    if value == "auto":
        return meaning
    if isinstance(value, str):
        raise TrialRefusedError(f"{axis}={value}: wanted a number or auto")
    return float(value)


def _flag(axis: str, value: bool | str, meaning: bool) -> bool:
    if value == "auto":
        return meaning
    if isinstance(value, str):
        raise TrialRefusedError(f"{axis}={value}: wanted true, false or auto")
    return value
