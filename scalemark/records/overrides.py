"""The command that makes a trial again: overrides that compose to the same trial, whatever `auto`
means elsewhere.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence

from scalemark.host.own_code import typed
from scalemark.records.devices import DeviceKind
from scalemark.records.free_axes import PREFIX
from scalemark.records.planted import NOISE
from scalemark.records.strategies import STRATEGY_AXES, STRATEGY_NAMES
from scalemark.records.trial import AXES, TrialSpec

HARDWARE = {DeviceKind.GPU: "hardware=gpu", DeviceKind.CPU_STAND_IN: "hardware=cpu"}
STAND_INS = 16  # that there are unless more are asked for
# hardware and model bring them, and the strategy
_NO_AXES = ("device_kind", "num_classes", *STRATEGY_AXES)
# left out they are not what a trial without them has
_ALWAYS = ("loss_scale", "data_format", "cache", "min_window_s")


def overrides(spec: TrialSpec, hardware: Sequence[str]) -> list[str]:
    """As `sweep.py` takes them: all that depends on model, machine or version is said.

    `hardware`: what chooses that of a simulated trial, see `costs.profiles.overrides_of`. Raises
    ValueError when it is not told.
    """
    told = [f"model={_value(spec.model)}", f"num_gpus={spec.num_gpus}", *_strategy(spec)]
    kind = DeviceKind(spec.device_kind)
    if kind is DeviceKind.SIMULATED_GPU and not hardware:
        raise ValueError("a simulated trial is of a hardware profile, and which is not told")
    told += hardware if kind is DeviceKind.SIMULATED_GPU else [HARDWARE[kind]]
    if kind is DeviceKind.CPU_STAND_IN and spec.num_gpus > STAND_INS:
        told.append(f"hardware.num_stand_ins={spec.num_gpus}")
    return [*told, *_planted(spec), *_others(spec)]


def command(spec: TrialSpec, hardware: Sequence[str]) -> str:
    """For a shell, to be pasted: runs the trial, where that is not done yet. `hardware`: as
    `overrides` has it.
    """
    return sweep(overrides(spec, hardware))


def of_axes(axes: Mapping[str, object]) -> list[str]:
    """As `overrides`, of a few axes alone; what is not said is left to the sweep."""
    return [f"{axis}={_value(value)}" for axis, value in axes.items()]


def sweep(arguments: Sequence[str]) -> str:
    """For a shell, to be pasted."""
    return " ".join([typed("sweep"), *map(_for_shell, arguments)])


def as_often(spec: TrialSpec, hardware: Sequence[str], repeats: int) -> str:
    """As `command`, with so many repeats as what it is to be compared with."""
    return command(spec, hardware) + (f" sweep.repeats={repeats}" if repeats > 1 else "")


def again(
    spec: TrialSpec, hardware: Sequence[str], *, repeats: int = 1, shares_host: bool = False
) -> str:
    """As `command`, also where it is done: as often."""
    shared = " launcher.share_host=true" if shares_host else ""
    return f"{command(spec, hardware)}{shared} sweep.repeats={max(1, repeats)} sweep.rerun=true"


def _strategy(spec: TrialSpec) -> list[str]:
    values = (spec.variable_update, spec.local_parameter_device, spec.all_reduce)
    if named := STRATEGY_NAMES.get(values):
        return [f"strategy={named}"]
    return [f"{axis}={_value(value)}" for axis, value in zip(STRATEGY_AXES, values, strict=True)]


def _planted(spec: TrialSpec) -> Iterator[str]:
    """Left out, simulated trials have some noise."""
    usual = dict.fromkeys(NOISE, 0.0) if spec.device_kind == DeviceKind.SIMULATED_GPU else {}
    return (f"planted.{name}={amount:g}" for name, amount in (usual | spec.planted_values).items())


def _others(spec: TrialSpec) -> Iterator[str]:
    for name, axis in AXES.items():
        value = getattr(spec, name)
        if name in (*_NO_AXES, "engine", "model", "num_gpus", "planted"):
            continue
        if value == axis.default and name not in _ALWAYS:
            continue
        if name == "batch_size" and spec.scaling == "strong":
            value *= spec.num_gpus  # there the batch of all replicas is asked for
        yield f"{axis.definition.set_by if name == 'data_dir' else name}={_value(value)}"
    yield from (f"+{PREFIX}{name}={_free_value(value)}" for name, value in spec.free)


_PLAIN = re.compile(r"[\w./:+-]+", re.ASCII)
_LIKE_AN_ELEMENT = re.compile(r"(?i)null|true|false|[+-]?(?:[\d_.]+(?:e[+-]?\d+)?|inf|nan)")


def _free_value(value: object) -> str:
    """Return it in Hydra's syntax: in quotes where Hydra would take the text for another type."""
    if isinstance(value, str) and _LIKE_AN_ELEMENT.fullmatch(value):
        return f"'{value}'"
    return _value(value)


def _value(value: object) -> str:
    """In Hydra's syntax."""
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str) or _PLAIN.fullmatch(value):
        return str(value)
    # no interpolation is meant
    escaped = re.sub(r"(\\*)\$\{", lambda found: found[1] * 2 + r"\${", value)
    escaped = re.sub(
        r"(\\*)('|$)", lambda found: found[1] * 2 + (r"\'" if found[2] else ""), escaped
    )
    return f"'{escaped}'"


def _for_shell(argument: str) -> str:
    """Quoted; with what no terminal shows written out, so that what is pasted is what is read."""
    if argument.isprintable():
        return shlex.quote(argument)
    told = argument.replace("\\", r"\\").replace("'", r"\'")
    return f"$'{''.join(one if one.isprintable() else _escaped(one) for one in told)}'"


def _escaped(one: str) -> str:
    return f"\\U{ord(one):08x}" if ord(one) > 0x7F else f"\\x{ord(one):02x}"
