"""What an axis of a trial is. Each is defined once: as a field of `scalemark.records.trial.TrialSpec`.

Derived from that definition: Hydra's schema and its help, the checks of a record, the column of the
database, filters, the columns of tables, what an engine refuses, and which axes analysis compares.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass
from enum import StrEnum
from typing import Any

AxisValue = str | int | float | bool

AUTO = "auto"
"""What the command line accepts for an axis that is resolved while planning."""


class Engine(StrEnum):
    """What runs a trial. Names are as on the command line, which goes by them."""

    tensorflow = "tensorflow"
    simulated = "simulated"


ENGINES = tuple(Engine)

TYPES: Mapping[str, type[AxisValue]] = {"str": str, "int": int, "float": float, "bool": bool}

_LARGEST_INTEGER = 2**31 - 1  # as databases have it, see `scalemark.records.validation`


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """The part of an axis that its field cannot say. `axis` makes one."""

    help: str
    choices: tuple[str, ...]
    folder: str
    auto: bool
    given: AxisValue | None
    set_by: str
    least: float | None
    most: float | None
    below: float | None
    engines: tuple[Engine, ...]
    in_curve: bool
    sets_step_time: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """A named property of a trial that a grid may vary."""

    name: str
    type: type[AxisValue]
    default: AxisValue | None  # left out of an identity; None: every trial says its value
    definition: Definition

    @property
    def help(self) -> str:
        return self.definition.help

    @property
    def engines(self) -> tuple[Engine, ...]:
        return self.definition.engines

    @property
    def given(self) -> AxisValue | None:
        """The default on the command line; None where that has no default of its own."""
        if self.definition.auto:
            return AUTO
        return self.default if self.definition.given is None else self.definition.given

    @property
    def is_bounded(self) -> bool:
        """Whether any value of its type can be wrong."""
        definition = self.definition
        return self.type is int or bool(definition.choices) or definition.least is not None

    def problem(self, value: AxisValue) -> str | None:
        """Say what is wrong with a value of the right type; None when nothing is."""
        wanted = self._wanted(value)
        return f"{self.name}={value}: wanted {wanted}" if wanted else None

    def _wanted(self, value: Any) -> str | None:
        definition = self.definition
        if definition.choices and value not in definition.choices:
            return f"one of {', '.join(definition.choices)}"
        if self.type is float:
            return self._wanted_of_real(value)
        if definition.least is not None and value < definition.least:
            return f"{definition.least} or more"
        most = _LARGEST_INTEGER if definition.most is None else definition.most
        if self.type is int and value > most:
            return f"{most} or less"
        return None

    def _wanted_of_real(self, value: float) -> str | None:
        least = self.definition.least
        below = self.definition.below
        if least is None or least <= value < (float("inf") if below is None else below):
            return None
        if below is None:
            return f"a finite number, {least} or more"
        return f"{least} or more, and less than {below}"


def axis(
    text: str,
    *,
    choices: tuple[str, ...] = (),
    folder: str = "",
    auto: bool = False,
    given: AxisValue | None = None,
    set_by: str = "",
    least: float | None = None,
    most: float | None = None,
    below: float | None = None,
    engines: tuple[Engine, ...] = (Engine.tensorflow,),
    in_curve: bool = True,
    sets_step_time: bool = True,
) -> dict[str, Definition]:
    """Define the axis of a dataclass field: `xla: str = field(default="off", metadata=axis(...))`.

    - `text`: one line of help, with the unit.
    - `choices`: all values it may have. `folder`: they are the files of this folder of trainer/;
      records of other versions may name other files, so that only the command line checks these.
    - `auto`: the command line accepts `auto`, and has it as its default.
    - `given`: the command line's default, where that is not the field's.
    - `set_by`: the group or setting that says it on the command line, where that is not its name.
    - `least`, `most`, `below`: bounds of a number.
    - `engines`: those that know it. The others refuse every value but the default.
    - `in_curve`: trials that differ in it are of different scaling curves.
    - `sets_step_time`: the time of a step can depend on it.
    """
    definition = Definition(
        help=text,
        choices=choices,
        folder=folder,
        auto=auto,
        given=given,
        set_by=set_by,
        least=least,
        most=most,
        below=below,
        engines=engines,
        in_curve=in_curve,
        sets_step_time=sets_step_time,
    )
    return {"axis": definition}


def axis_of(field: Field[Any]) -> Axis:
    """Return the axis that a dataclass field defines. Raises TypeError for one that the command
    line has no default for.
    """
    found = Axis(
        name=field.name,
        type=TYPES[str(field.type)],
        default=None if field.default is MISSING else field.default,
        definition=field.metadata["axis"],
    )
    if found.given is None and not found.definition.set_by:
        raise TypeError(f"{found.name}: wanted a default, given=, auto=True or set_by=")
    return found
