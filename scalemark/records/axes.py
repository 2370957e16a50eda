"""Axes of trials, and those that a sweep brings itself: `+axes.zero=0,1` and `+env.NCCL_ALGO=Ring`.

Ours are defined once, in `scalemark.records.trial_axes`. Derived from that definition: Hydra's
schema and its help, the checks of a record, the column of the database, filters, the columns of
tables, what an engine refuses, and which axes analysis compares.

A program or trainer gets `env.NAME` as an environment variable; without the axis it inherits what
the sweep was started with.
"""

import math
import re
from collections.abc import Container, Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, field
from datetime import date, datetime
from enum import StrEnum
from typing import Any, TypeVar, dataclass_transform

from scalemark.text.untrusted import without_secrets

AxisValue = str | int | float | bool

AUTO = "auto"
"""What the command line accepts for an axis that is resolved while planning."""

_Record = TypeVar("_Record")


class Engine(StrEnum):
    """The programs that run trials. The command line goes by these names."""

    tensorflow = "tensorflow"
    simulated = "simulated"
    command = "command"  # a program of the user's own


OWN_MODELS = (Engine.tensorflow, Engine.simulated)
"""Engines that run models which are defined here; the axes of these say how."""


ENGINES = tuple(Engine)

TYPES: Mapping[str, type[AxisValue]] = {"str": str, "int": int, "float": float, "bool": bool}

_LARGEST_INTEGER = 2**31 - 1  # as databases have it, see `scalemark.records.validation`


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """A named property of a trial that a grid may vary."""

    name: str
    type: type[AxisValue]
    default: AxisValue | None  # left out of an identity; None: every trial says its value
    help: str  # one line, with the unit
    # all values it may have; empty: others, too
    choices: tuple[str, ...] = ()
    # its values are the files of this folder of trainer/; records of other versions may name other
    # files, so that only the command line checks them
    folder: str = ""
    auto: bool = False  # the command line accepts `auto`, and has it as its default
    given: AxisValue | None  # the command line's default; None where it has none of its own
    # the group or setting that says it on the command line, where that is not its name
    set_by: str = ""
    least: float | None = None
    most: float | None = None
    below: float | None = None
    # those that read it; the others refuse every value but the default
    engines: tuple[Engine, ...] = (Engine.tensorflow,)
    in_curve: bool = True  # trials that differ in it are of different scaling curves
    sets_step_time: bool = True  # the time of a step can depend on it

    @property
    def lacking(self) -> AxisValue:
        """Return the value of a trial that lacks this axis, as its engine does not know it."""
        if self.default is None:
            return self.type()
        return self.default

    @property
    def is_bounded(self) -> bool:
        """Return whether any value of its type can be wrong."""
        return self.type is int or bool(self.choices) or self.least is not None

    def problem(self, value: Any) -> str | None:
        """Say what is wrong with a value of the right type; None when nothing is."""
        wanted = self._wanted(value)
        if wanted:
            return f"{self.name}={value}: wanted {wanted}"
        return None

    def _wanted(self, value: Any) -> str | None:
        if self.choices and value not in self.choices:
            return f"one of {', '.join(self.choices)}"
        if self.type is float:
            below = math.inf if self.below is None else self.below
            if self.least is None or self.least <= value < below:  # false for NaN, too
                return None
            if self.below is None:
                return f"a finite number, {self.least} or more"
            return f"{self.least} or more, and less than {below}"
        if self.least is not None and value < self.least:
            return f"{self.least} or more"
        most = _LARGEST_INTEGER if self.most is None else self.most
        if self.type is int and value > most:
            return f"{most} or less"
        return None


def axis(
    text: str,
    *,
    default: AxisValue | None = None,
    auto: bool = False,
    given: AxisValue | None = None,
    **options: Any,
) -> Any:
    """Define an axis, as a field of a class under `@record_of_axes`.

    `text` is its help, `default` that of the record, where it has one; `given` is the command
    line's, where that is not `default` or `auto`. `options` are other fields of `Axis`.
    """
    if given is None:
        given = default
    metadata = {"help": text, "auto": auto, "given": AUTO if auto else given, **options}
    return field(default=MISSING if default is None else default, metadata=metadata)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(axis,))
def record_of_axes(cls: type[_Record]) -> type[_Record]:
    """Make a frozen dataclass whose fields `axis` defines."""
    return dataclass(frozen=True, kw_only=True)(cls)


def axis_of(field: Field[Any]) -> Axis:
    """Return the axis of a dataclass field. Raises TypeError for one without a default."""
    default = None if field.default is MISSING else field.default
    kind = TYPES[str(field.type)]
    options = dict(field.metadata)
    if options.get("engines") == (Engine.command,):
        options.setdefault("set_by", f"command.{field.name}")
    made = Axis(name=field.name, type=kind, default=default, **options)
    if default is not None and type(default) is not kind:
        raise TypeError(f"{made.name}: default {default!r}: wanted {kind.__name__}")
    if made.given is None and not made.set_by:
        raise TypeError(f"{made.name}: wanted a default, given=, auto=True or set_by=")
    return made


ENV_PREFIX = "env."
INHERITED = "inherited"
"""What texts say of a trial that lacks the variable which others have."""
WORDS_FOR_INHERITED = (INHERITED, "null")
"""What a user may write for that."""

# capitals alone, because SQLite's columns do not tell them from small letters; 63 characters with
# the prefix are the longest name of a column in PostgreSQL
_NAME = re.compile(r"[A-Z_][A-Z0-9_]{0,58}", re.ASCII)
_LONGEST_VALUE = 1000  # XLA_FLAGS may be long

_PINNING = (
    "it is how a trial is pinned to its GPUs; choose how many by num_gpus=, and export a mask to "
    "choose which"
)
_RANK = (
    "it makes a process a rank; choose hosts by hosts=, and let the command start the ranks, as "
    "torchrun does"
)
_SOFTWARE = (
    "it chooses which software runs, which is recorded of a whole sweep; export it, and run a "
    "sweep for each value"
)
_REFUSED = {
    **dict.fromkeys(("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"), _PINNING),
    **dict.fromkeys(("NVIDIA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"), _PINNING),
    **dict.fromkeys(("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"), _PINNING),
    **dict.fromkeys(("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK"), _RANK),
    **dict.fromkeys(("GROUP_RANK", "MASTER_ADDR", "MASTER_PORT"), _RANK),
    "TF_CONFIG": "it makes a process one of several hosts; choose these by hosts=",
    **dict.fromkeys(("PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONHOME"), _SOFTWARE),
    **dict.fromkeys(("VIRTUAL_ENV", "CONDA_PREFIX", "UV_PROJECT_ENVIRONMENT"), _SOFTWARE),
}
_OURS = ("SCALEMARK_", "HYDRA_")


def checked_variable(name: str, value: object) -> str:
    """Return the value of an environment variable, by its bare name. Raises ValueError, with what
    to do, for a name or value that cannot be one, is not the user's to set, or may be a secret.
    """
    axis = f"{ENV_PREFIX}{name}"
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"{axis}: wanted the name of an environment variable in capital letters, digits and "
            "_, with no digit first and 59 characters at most"
        )
    if name in _REFUSED:
        raise ValueError(f"{axis}: {_REFUSED[name]}")
    if name.startswith(_OURS):
        raise ValueError(f"{axis}: it controls scalemark itself; leave it out")
    text = _text(axis, value)
    if without_secrets(f"{name}={text}") != f"{name}={text}":
        raise ValueError(
            f"{axis} seems to hold a password or a token, and values of axes are stored; export it "
            "instead, and it is inherited"
        )
    return text


def _text(axis: str, value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, str):
        if 0 < len(value) <= _LONGEST_VALUE and value.isprintable():
            return value
        raise ValueError(
            f"{axis}={value[:60]!r}: wanted a line of 1 to {_LONGEST_VALUE} printable characters, "
            f"or {INHERITED}"
        )
    # 1.50 and TRUE were read as a number and as true: how they were written is lost
    shown = str(value).lower()[:60] if isinstance(value, bool) else str(value)[:60]
    raise ValueError(
        f"{axis}={shown}: wanted text, as a variable holds its very characters; put what you "
        f"wrote in quotes, as \"+{axis}='{shown}'\""
    )


def is_env_variable(axis: str) -> bool:
    """Return whether an axis is an environment variable."""
    return axis.startswith(ENV_PREFIX)


def env_variables(free: Iterable[tuple[str, object]]) -> dict[str, str]:
    """Return the environment variables among free axes, by their bare names."""
    return {
        name.removeprefix(ENV_PREFIX): str(value) for name, value in free if is_env_variable(name)
    }


def env_axes(values: Mapping[str, object]) -> dict[str, object]:
    """Return variables by the names of their axes, without those that are `null` or `inherited`:
    they are left as they are.
    """
    axes = {}
    for name, value in values.items():
        if value is not None and value != INHERITED:
            axes[f"{ENV_PREFIX}{name}"] = value
    return axes


FreeAxes = tuple[tuple[str, AxisValue], ...]
"""Name, with the prefix, and value of each, in the order of the names."""

PREFIX = "axes."
PREFIXES = (PREFIX, ENV_PREFIX)

REF = f"{PREFIX}ref"
"""The free axis whose values are commits of the program's checkout, as main@1a2b3c4d."""

_FREE_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}", re.ASCII)
_LONGEST_TEXT = 200
_LARGEST_WHOLE = 2**53  # beyond it a float stands for several whole numbers


def free_axes(values: Mapping[str, object]) -> FreeAxes:
    """Return free axes in canonical form, whether their names have the prefix or not. Raises
    ValueError for an impossible name or value, and for a name that is given twice.
    """
    axes: dict[str, AxisValue] = {}
    for name, value in values.items():
        own = str(name).removeprefix(PREFIX)
        if is_env_variable(own):
            axes[own] = checked_variable(bare_name(own), value)
            continue
        if not _FREE_NAME.fullmatch(own):
            raise ValueError(
                f"{PREFIX}{own}: wanted a name of lower-case letters, digits and _, with a "
                "letter first and 40 characters at most"
            )
        if f"{PREFIX}{own}" in axes:
            raise ValueError(f"{PREFIX}{own} is named twice")
        axes[f"{PREFIX}{own}"] = _canonical(own, value)
    return tuple(sorted(axes.items()))


def is_free(name: str) -> bool:
    """Return whether it is the full name of a free axis."""
    return name.startswith(PREFIXES)


def bare_name(name: str) -> str:
    """Return a name without the prefix of free axes, if it has one."""
    return name.removeprefix(PREFIX).removeprefix(ENV_PREFIX)


def full_name(name: str, known: Container[str]) -> str:
    """Return a name with the prefix that it has among the known names; else as it is."""
    if name not in known:
        for prefix in PREFIXES:
            if f"{prefix}{name}" in known:
                return f"{prefix}{name}"
    return name


def name_in_records(name: str) -> str:
    """Return the name by which records hold a free axis: the bare one, but of variables."""
    return name.removeprefix(PREFIX)


def name_of_record(name: str) -> str:
    """Invert `name_in_records`."""
    if is_free(name):
        return name
    return f"{PREFIX}{name}"


def _canonical(name: str, value: object) -> AxisValue:
    """Return 1 for 1.0 and "1", and "true" for true, so that equal values are one trial and 1 and
    true, which are equal in Python, are two. Text that is written otherwise than the number stays
    text: "2.10" is another version than 2.1, and only text brings a program these characters.
    """
    if isinstance(value, bool):
        return str(value).lower()
    wanted = "text, a number, true or false"
    if isinstance(value, str):
        if 0 < len(value) <= _LONGEST_TEXT and value.isprintable():
            return number_written_as(value)
        wanted = f"a line of 1 to {_LONGEST_TEXT} printable characters"
    elif isinstance(value, int):
        if abs(value) < _LARGEST_WHOLE:
            return value
        wanted = "a whole number below 2**53"
    elif isinstance(value, float):
        if math.isfinite(value):
            return whole_if_equal(value)
        wanted = f"a finite number; text stands in quotes, as \"+{PREFIX}{name}='{value}'\""
    raise ValueError(f"{PREFIX}{name}={str(value)[:60]}: wanted {wanted}")


def number_written_as(text: str) -> AxisValue:
    """Return the number that is shown as this very text; the text where it is of none."""
    number = number_of(text)
    if number is None or str(whole_if_equal(number)) != text:
        return text
    return whole_if_equal(number)


_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def number_of(text: str) -> float | None:
    """Return the finite number that a user typed; None for any other text, as `1_0`, `inf` and
    digits of other scripts, which Python takes for numbers, too.
    """
    if _NUMBER.fullmatch(text) and math.isfinite(float(text)):
        return float(text)
    return None


def whole_if_equal(number: float) -> int | float:
    if number.is_integer() and abs(number) < _LARGEST_WHOLE:
        return int(number)
    return number


WHEN = "when"


def day_of(value: object) -> date:
    """Return the day of a date, or of a date with a time. Raises ValueError."""
    text = str(value)
    try:
        return datetime.fromisoformat(text).date()
    except ValueError:
        raise ValueError(
            f"{WHEN}={text[:40]}: no date; wanted one as 2026-03-14, or 2026-03-14T23:10:00"
        ) from None
