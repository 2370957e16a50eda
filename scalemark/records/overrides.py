"""Commands that run a trial again, and an earlier trial as a sweep takes it: `from=TRIAL`."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from scalemark.host.own_code import typed
from scalemark.models import ModelError, published_sizes
from scalemark.records import trial
from scalemark.records.axes import Engine, is_env_variable, is_free
from scalemark.records.machine import DeviceKind
from scalemark.records.measurement import NOISE
from scalemark.text.wording import joined

HARDWARE = {DeviceKind.GPU: "hardware=gpu", DeviceKind.CPU_DEVICE: "hardware=cpu"}
CPU_DEVICES = 16  # CPU devices unless more are asked for
# set by hardware, model and strategy
_NO_AXES = ("device_kind", "num_classes", "model_digest", *trial.STRATEGY_AXES)
_INDEPENDENT = ("independent", "gpu", "none")  # conf/strategy/ has a name for it, too
# their defaults on the command line differ from those of a spec
_ALWAYS = ("loss_scale", "data_format", "cache", "min_window_s")


def overrides(spec: trial.TrialSpec, hardware: Sequence[str]) -> list[str]:
    """Return the overrides of a trial, with all that depends on model, machine or version.

    `hardware` are the overrides of a simulated trial's hardware, see
    `simulator.costs.box.overrides_of`.
    Raises ValueError where they are missing.
    """
    if spec.engine == Engine.command:
        return _of_program(spec)
    words = [f"model={hydra_value(spec.model)}", f"num_gpus={spec.num_gpus}"]
    values = (spec.variable_update, spec.local_parameter_device, spec.all_reduce)
    named = "independent" if values == _INDEPENDENT else trial.STRATEGY_NAMES.get(values)
    words += [f"strategy={named}"] if named else _axes_of_strategy(values)
    kind = DeviceKind(spec.device_kind)
    injected = spec.injected_values
    if kind is DeviceKind.SIMULATED_GPU:
        if not hardware:
            raise ValueError("a simulated trial has a hardware profile, and it is not given")
        words += hardware
        injected = dict.fromkeys(NOISE, 0.0) | injected  # by default it has some
    else:
        words.append(HARDWARE[kind])
    if kind is DeviceKind.CPU_DEVICE and spec.num_gpus > CPU_DEVICES:
        words.append(f"hardware.num_cpu_devices={spec.num_gpus}")
    for name, amount in injected.items():
        words.append(f"injected.{name}={amount:g}")
    return [*words, *_others(spec)]


def of_axes(axes: Mapping[str, object]) -> list[str]:
    """Return the overrides of a few axes."""
    words = []
    for axis, value in axes.items():
        words.append(_added(axis, value) if is_free(axis) else f"{axis}={hydra_value(value)}")
    return words


def sweep(arguments: Sequence[str]) -> str:
    """Return a shell command that can be pasted."""
    return f"{typed('sweep')} {joined(arguments)}"


def _of_program(spec: trial.TrialSpec) -> list[str]:
    run = spec.command
    # the command line drops one pair of quotes around one quoted word
    if re.fullmatch(r"""(['"])(?:(?!\1).)*\1""", run, re.DOTALL):
        quote = '"' if run.startswith("'") else "'"
        run = f"{quote}{run}{quote}"
    words = [f"command.run={run}", f"command.name={spec.model}", f"read={spec.read}"]
    for name in trial.PROGRAM_AXES:
        axis = trial.AXES[name]
        if name not in ("command", "read") and spec.value(axis) != axis.default:
            words.append(f"{axis.set_by}={hydra_value(spec.value(axis))}")
    words.append(HARDWARE[DeviceKind(spec.device_kind)])
    for name in ("num_gpus", "hosts", "min_warm_up_steps", "seed", *trial.USED_BY_PROGRAMS):
        axis = trial.AXES[name]
        if not spec.lacks(axis) and spec.value(axis) != axis.default:
            words.append(f"{name}={hydra_value(spec.value(axis))}")
    for name, value in spec.free:
        words.append(_added(name, value))
    return words


def _axes_of_strategy(values: tuple[str, str, str]) -> list[str]:
    return [
        f"{axis}={hydra_value(value)}"
        for axis, value in zip(trial.STRATEGY_AXES, values, strict=True)
    ]


def _others(spec: trial.TrialSpec) -> Iterator[str]:
    always = list(_ALWAYS)
    if spec.device_kind == DeviceKind.GPU:  # there auto is another number
        always.append("min_warm_up_s")
    for name, axis in trial.AXES.items():
        value = getattr(spec, name)
        if name in (*_NO_AXES, "engine", "model", "num_gpus", "injected"):
            continue
        if value == axis.default and name not in always:
            continue
        if name == "image_px" and not value:  # the model takes none, or is the user's own
            continue
        if name == "batch_size" and spec.scaling == "strong":
            value = spec.examples_per_step  # there the batch of all of them is asked for
        yield f"{axis.set_by if name == 'data_dir' else name}={hydra_value(value)}"
    for name, value in spec.free:
        yield _added(name, value)


def _added(name: str, value: object) -> str:
    """Return the override that adds a free axis. A whole number needs no quotes in a variable."""
    if is_env_variable(name):
        if value is None:
            return f"+{name}=null"
        if _WHOLE.fullmatch(str(value)):
            return f"+{name}={value}"
    return f"+{name}={exact_value(value)}"


_WHOLE = re.compile(r"0|-?[1-9][0-9]*", re.ASCII)
_PLAIN = re.compile(r"[\w./:+-]+", re.ASCII)
_LIKE_AN_ELEMENT = re.compile(
    r"(?i)null|true|false|max|best|[+-]?(?:[\d_.]+(?:e[+-]?\d+)?|inf|nan)"
)


def exact_value(value: object) -> str:
    """Return it in Hydra's syntax: in quotes where Hydra would take the text for another type."""
    if isinstance(value, str) and _LIKE_AN_ELEMENT.fullmatch(value):
        return f"'{value}'"
    return hydra_value(value)


def hydra_value(value: object) -> str:
    """Return a value in the syntax of Hydra's overrides, in which nothing is interpolated."""
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str) or _PLAIN.fullmatch(value):
        return str(value)
    # no interpolation is meant; backslashes before what is escaped are doubled
    escaped = re.sub(r"(\\*)\$\{", r"\1\1\\${", value)
    escaped = re.sub(r"(\\*)'", r"\1\1\\'", escaped)
    escaped = re.sub(r"(\\+)$", r"\1\1", escaped)
    return f"'{escaped}'"


SETTING = "from"
ID_DIGITS = 8  # of a trial's id in commands, as tables show it

OF_PRECISION = ("loss_scale", "data_format")  # what a precision decides, unless it is given

_STRATEGY = ("strategy", *trial.STRATEGY_AXES)
# what is given anew -> what an earlier trial had beside it, and another choice decides again
_DECIDED_BY = {
    "strategy": (*_STRATEGY, "staged_vars"),
    "variable_update": (*_STRATEGY, "staged_vars"),
    "precision": OF_PRECISION,
    "optimizer": ("learning_rate", "momentum", "weight_decay"),
    "model": ("learning_rate", "data_format"),
    "data": ("data.dir", "distortions", "cache"),
    "engine": ("engine", "hardware"),
    "hardware": ("hardware",),
    "command": ("command.run", "command.name", "read"),
    "command.run": ("command.name",),
    "command.read": ("read",),
}
_ON_CPU_DEVICES = "hardware=cpu"


def with_changes(earlier: Sequence[str], changes: Iterable[str]) -> list[str]:
    """Return the overrides of a trial with the changes in their places, new ones last.

    A change also takes the place of what depends on it: another precision has a loss scale of its
    own, another optimizer a learning rate, and a strategy is another name for three axes.
    """
    changed = {key_of(change): change for change in changes}
    gone: set[str] = set()
    for name in changed:
        gone.update(_DECIDED_BY.get(name, ()))
    if _ON_CPU_DEVICES in earlier:
        gone.discard("data_format")  # it is the same for all
    if "model" in changed:
        taken = {"image_px", "seq_len"}  # sizes that all of the models take
        for model in changed["model"].partition("=")[2].split(","):
            try:
                taken.intersection_update(published_sizes(model))
            except ModelError:  # of a user's own; composing refuses one that is not known
                taken.clear()
        gone.update({"image_px", "seq_len"} - taken)
    made: dict[str, str] = {}
    for override in earlier:
        for part in _apart(override, changed):
            key = key_of(part)
            if key not in gone and key.split(".")[0] not in gone:
                made[key] = part
    for key, change in changed.items():
        if made.get(key, "").startswith("+") and not change.startswith(("+", "~")):
            change = f"+{change}"  # a free axis that the trial has is changed, and not added again
        made[key] = change
    return list(made.values())


def key_of(override: str) -> str:
    """Return what an override sets."""
    return override.partition("=")[0].lstrip("+~")


def _apart(override: str, changed: Iterable[str]) -> list[str]:
    """Return a strategy as its axes, where one of these is changed."""
    key, _, name = override.partition("=")
    if key == "strategy" and {"local_parameter_device", "all_reduce"}.intersection(changed):
        for values, named in trial.STRATEGY_NAMES.items():
            if named == name:
                return _axes_of_strategy(values)
    return [override]


def changes_to(wanted: Sequence[str], earlier: Sequence[str]) -> list[str] | None:
    """Return the changes that make one trial's overrides of another's; None where there are none.

    `with_changes` inverts it, but for axes at their defaults.
    """
    changes = [override for override in wanted if override not in earlier]
    keys = set(map(key_of, wanted))
    for key in map(key_of, earlier):
        if key in keys or key in _STRATEGY:
            continue
        if key not in trial.AXES or trial.AXES[key].default is None:
            return None
        changes.append(f"{key}={hydra_value(trial.AXES[key].default)}")
    usual = set(changes).difference(wanted)
    made = with_changes(earlier, changes)
    changes += [override for override in wanted if override not in made]
    made = with_changes(earlier, changes)
    is_made = set(made).difference(usual) == set(wanted)
    return changes if is_made else None
