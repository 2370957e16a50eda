"""Reads sweep.exclude: conditions on a trial's axes, as in "model=vgg16,alexnet num_gpus>=4".

A free axis of the grid may be named without its prefix: "parallel=fsdp num_gpus=1".
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import get_type_hints

from conf.schema import Config
from scalemark.records.axes import AxisValue
from scalemark.records.free_axes import (
    INHERITED,
    PREFIX,
    WORDS_FOR_INHERITED,
    full_name,
    is_env_variable,
    is_free,
)
from scalemark.records.trial import AXES, TrialSpec
from sweeper.errors import SweepRefusedError
from sweeper.grid.explain import among, nearest

Value = str | float  # a bool counts as true or false
_CONDITION = re.compile(r"(?P<axis>[^=!<>]+)(?P<sign>!=|<=|>=|=|<|>)(?P<values>[^=!<>]+)")
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_ORDER: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_TYPES = {axis.name: axis.type.__name__ for axis in AXES.values()} | {"strategy": "str"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One axis compared with values."""

    axis: str  # of a resolved trial, or strategy
    sign: str  # =, !=, <, <=, >, >=
    values: tuple[Value, ...]  # one for <, <=, >, >=

    def holds(self, spec: TrialSpec) -> bool:
        if is_free(self.axis):
            return self._holds_of_free(_value_of_free(spec, self.axis))
        value = _value_of(spec, self.axis)
        if self.sign in _ORDER:
            return _ORDER[self.sign](float(value), float(self.values[0]))
        return (value in self.values) == (self.sign == "=")

    def _holds_of_free(self, value: AxisValue | None) -> bool:
        """Compare a number with numbers, and anything else by its text."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            shown = str(value).lower() if isinstance(value, bool) else value
            return self.sign not in _ORDER and (shown in self.values) == (self.sign == "=")
        numbers = [float(text) for text in self.values if _NUMBER.fullmatch(str(text))]
        if self.sign in _ORDER:
            return bool(numbers) and _ORDER[self.sign](float(value), numbers[0])
        return (float(value) in numbers) == (self.sign == "=")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """An item of sweep.exclude: trials are left out for which all of its conditions hold."""

    text: str
    conditions: tuple[Condition, ...]

    @property
    def reason(self) -> str:
        return reason_of(self.text)

    def holds(self, spec: TrialSpec) -> bool:
        return all(condition.holds(spec) for condition in self.conditions)


def reason_of(text: str) -> str:
    """Return why a trial is left out for which a rule of this text holds."""
    return f"sweep.exclude: {' '.join(text.split())}"


def read_rules(texts: Sequence[str], free: Collection[str] = ()) -> list[Rule]:
    """Read rules of a grid with these free axes. Raises SweepRefusedError for what is no rule,
    naming the nearest axis or value.
    """
    return [Rule(text=text, conditions=_conditions(text, free)) for text in texts]


def _conditions(text: str, free: Collection[str]) -> tuple[Condition, ...]:
    if not text.split():
        raise SweepRefusedError(
            "sweep.exclude: an empty rule would leave out every trial; wanted conditions, "
            "as num_gpus>=4"
        )
    return tuple(_condition(part, free) for part in text.split())


def _condition(text: str, free: Collection[str]) -> Condition:
    matched = _CONDITION.fullmatch(text)
    if not matched:
        raise SweepRefusedError(
            f"sweep.exclude: {text}: no condition; wanted AXIS=VALUE,VALUE or AXIS!=, <, <=, "
            ">, >= VALUE, without spaces in it"
        )
    axis, sign = matched["axis"].removeprefix("+"), matched["sign"]
    if axis not in _TYPES:
        axis = full_name(axis, free)
    if is_free(axis):
        values: tuple[Value, ...] = tuple(matched["values"].split(","))
        if is_env_variable(axis):
            values = tuple(INHERITED if value in WORDS_FOR_INHERITED else value for value in values)
        return Condition(axis=axis, sign=sign, values=values)
    if axis not in _TYPES:
        raise SweepRefusedError(
            f"sweep.exclude: {axis}: no axis of a trial; {nearest(axis, _TYPES)}An axis of your "
            f"own is called {PREFIX}{axis}; all others: {', '.join(sorted(_TYPES))}"
        )
    values = tuple(_read(text, axis, value) for value in matched["values"].split(","))
    if sign in _ORDER and (_TYPES[axis] not in ("int", "float") or len(values) > 1):
        raise SweepRefusedError(
            f"sweep.exclude: {text}: {sign} compares a number with one number; for others "
            "there are = and !="
        )
    return Condition(axis=axis, sign=sign, values=values)


def _read(condition: str, axis: str, text: str) -> Value:
    kind = _TYPES[axis]
    if kind in ("int", "float"):
        try:
            return float(text)
        except ValueError:
            raise SweepRefusedError(
                f"sweep.exclude: {condition}: {axis} is a number, {text or 'nothing'} is none"
            ) from None
    value, choices = text, _choices(axis)
    if kind == "bool":
        value, choices = text.lower(), ["true", "false"]
    if not value:
        raise SweepRefusedError(
            f"sweep.exclude: {condition}: no value after a comma; conditions are parted by spaces"
        )
    if choices and value not in choices:
        raise SweepRefusedError(
            f"sweep.exclude: {condition}: {axis} is never {text}; {among(text, choices)}"
        )
    return value


def _choices(axis: str) -> list[str]:
    """Return the values that the schema lists; empty where it lists none."""
    hint = get_type_hints(Config).get(axis)
    if not (isinstance(hint, type) and issubclass(hint, Enum)):
        return []
    return [choice.name for choice in hint]


def _value_of_free(spec: TrialSpec, axis: str) -> AxisValue | None:
    """Return a variable as a number where its text is one, and say where it is inherited."""
    value = dict(spec.free).get(axis)
    if not is_env_variable(axis):
        return value
    if value is None:
        return INHERITED
    return float(value) if _NUMBER.fullmatch(str(value)) else value


def _value_of(spec: TrialSpec, axis: str) -> Value:
    if axis == "strategy":
        return spec.strategy
    value = getattr(spec, axis)
    if isinstance(value, bool):
        return str(value).lower()
    return float(value) if isinstance(value, int | float) else str(value)
