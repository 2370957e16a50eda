"""Axes of trials. Each is defined once, in `scalemark.records.trial_axes`.

Derived from that definition: Hydra's schema and its help, the checks of a record, the column of the
database, filters, the columns of tables, what an engine refuses, and which axes analysis compares.
"""

import math
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, field
from enum import StrEnum
from typing import Any, TypeVar, dataclass_transform

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
        return self.type() if self.default is None else self.default

    @property
    def is_bounded(self) -> bool:
        """Return whether any value of its type can be wrong."""
        return self.type is int or bool(self.choices) or self.least is not None

    def problem(self, value: Any) -> str | None:
        """Say what is wrong with a value of the right type; None when nothing is."""
        wanted = self._wanted(value)
        return f"{self.name}={value}: wanted {wanted}" if wanted else None

    def _wanted(self, value: Any) -> str | None:
        if self.choices and value not in self.choices:
            return f"one of {', '.join(self.choices)}"
        if self.type is float:
            return self._wanted_of_real(value)
        if self.least is not None and value < self.least:
            return f"{self.least} or more"
        most = _LARGEST_INTEGER if self.most is None else self.most
        if self.type is int and value > most:
            return f"{most} or less"
        return None

    def _wanted_of_real(self, value: float) -> str | None:
        below = math.inf if self.below is None else self.below
        if self.least is None or self.least <= value < below:  # false for NaN, too
            return None
        if self.below is None:
            return f"a finite number, {self.least} or more"
        return f"{self.least} or more, and less than {below}"


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
    return dataclass(frozen=True, slots=True, kw_only=True)(cls)


def axis_of(field: Field[Any]) -> Axis:
    """Return the axis that a dataclass field defines. Raises TypeError for one that the command
    line has no default for.
    """
    default = None if field.default is MISSING else field.default
    kind = TYPES[str(field.type)]
    made = Axis(name=field.name, type=kind, default=default, **field.metadata)
    if default is not None and type(default) is not kind:
        raise TypeError(f"{made.name}: default {default!r}: wanted {kind.__name__}")
    if made.given is None and not made.set_by:
        raise TypeError(f"{made.name}: wanted a default, given=, auto=True or set_by=")
    return made
