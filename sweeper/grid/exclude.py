"""Reads sweep.exclude: conditions on a trial's axes, as in "model=vgg16,alexnet num_gpus>=4".

A free axis of the grid may be named without its prefix: "parallel=fsdp num_gpus=1". A rule that
compares axes with each other is an expression: "tp*pp > num_gpus"; "global_batch % num_gpus"
leaves out what is not 0.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from scalemark.abilities import choices_of
from scalemark.program.expression import (
    ExpressionError,
    bare,
    is_computed,
    names,
    substituted,
    value_of,
)
from scalemark.records import axes as free_axes
from scalemark.records.axes import AxisValue
from scalemark.records.trial import AXES, TrialSpec
from scalemark.text.wording import as_typed, did_you_mean
from store.filters import ORDERS
from sweeper import SweepRefusedError
from sweeper.grid.explain import among

_CONDITION = re.compile(r"(?P<axis>\+?[\w.]+)(?P<sign>!=|<=|>=|=|<|>)(?P<values>[^=!<>]+)")
_TYPES = {axis.name: axis.type.__name__ for axis in AXES.values()} | {"strategy": "str"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One axis compared with values."""

    axis: str  # of a resolved trial, or strategy
    sign: str  # =, !=, <, <=, >, >=
    values: tuple[str, ...]  # one for <, <=, >, >=

    def holds(self, axes: Mapping[str, AxisValue | None]) -> bool:
        """Compare a number with numbers, and anything else by its text."""
        value = axes.get(self.axis)
        if value is None and free_axes.is_env_variable(self.axis):
            value = free_axes.INHERITED
        number = free_axes.number_of(as_typed(value))
        if self.sign in ORDERS:
            bound = free_axes.number_of(self.values[0])
            if number is None or bound is None:
                return False
            return bool(ORDERS[self.sign](number, bound))
        is_among = as_typed(value) in self.values
        if number is not None:
            is_among = number in map(free_axes.number_of, self.values)
        return is_among == (self.sign == "=")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """An item of sweep.exclude: trials are left out for which all of its conditions hold."""

    text: str
    conditions: tuple[Condition, ...] = ()  # none: the text is an expression

    def holds(self, spec: TrialSpec, derived: Mapping[str, str] = MappingProxyType({})) -> bool:
        """Raises SweepRefusedError for an expression that has no value for this trial, its own or
        that of a derived axis.
        """
        axes = {**spec.axes, "strategy": spec.strategy}
        try:
            for name, text in derived.items():
                if name not in self.text:
                    continue
                value = value_of(substituted(text, derived), bare(spec.axes))
                axes[f"{free_axes.PREFIX}{name}"] = value
            if self.conditions:
                return all(condition.holds(axes) for condition in self.conditions)
            named = bare(axes)
            if any(name in AXES and name not in named for name in names(self.text)):
                return False  # as programs and models lack some axes
            return bool(value_of(self.text, named))
        except ExpressionError as error:
            raise _refused(str(error)) from error


def reason_of(text: str) -> str:
    """Return why a trial is left out for which a rule of this text holds."""
    return f"sweep.exclude: {' '.join(text.split())}"


def read_rules(texts: Sequence[str], free: Collection[str] = ()) -> list[Rule]:
    """Read rules of a grid with these free axes. Raises SweepRefusedError, with near names."""
    rules = []
    known = {*_TYPES, *map(free_axes.bare_name, free)}
    for text in texts:
        has_condition = any(map(_CONDITION.fullmatch, text.split()))
        # it computes with axes, or compares them, rather than with values
        is_expression = is_computed(text) and (
            not has_condition or len(known.intersection(names(text))) > 1
        )
        if is_expression or text.split()[:1] == ["not"]:
            rules.append(Rule(text=text))
            continue
        conditions = tuple(_condition(part, free) for part in text.split())
        if not conditions:
            raise _refused(
                "an empty rule would leave out every trial; wanted conditions, as num_gpus>=4"
            )
        rules.append(Rule(text=text, conditions=conditions))
    return rules


def _condition(text: str, free: Collection[str]) -> Condition:
    matched = _CONDITION.fullmatch(text)
    if not matched:
        raise _refused(
            f"{text}: no condition; wanted AXIS=VALUE,VALUE or AXIS!=, <, <=, >, >= VALUE, "
            "without spaces in it, or an expression of axes, as tp*pp > num_gpus"
        )
    axis, sign = matched["axis"].removeprefix("+"), matched["sign"]
    values = matched["values"].split(",")
    if axis not in _TYPES:
        axis = free_axes.full_name(axis, free)
    if free_axes.is_env_variable(axis):
        values = [
            free_axes.INHERITED if value in free_axes.WORDS_FOR_INHERITED else value
            for value in values
        ]
    if free_axes.is_free(axis):
        if sign in ORDERS and free_axes.number_of(values[0]) is None:
            raise _refused(
                f"{text}: {sign} compares with a number; an expression has spaces, as tp < 2*dp"
            )
        return Condition(axis=axis, sign=sign, values=tuple(values))
    if axis not in _TYPES:
        raise _refused(
            f"{axis}: no axis of a trial; "
            + did_you_mean(axis, _TYPES, f"there are {', '.join(sorted(_TYPES))}.")
            + f" An axis of your own is called {free_axes.PREFIX}{axis}"
        )
    kind = _TYPES[axis]
    if sign in ORDERS and (kind not in ("int", "float") or len(values) > 1):
        raise _refused(
            f"{text}: {sign} compares a number with one number; for others there are = and !="
        )
    if kind == "bool":
        values = [value.lower() for value in values]
    for value in values:
        _check(text, axis, kind, value)
    return Condition(axis=axis, sign=sign, values=tuple(values))


def _check(condition: str, axis: str, kind: str, value: str) -> None:
    """Refuse a value that the axis never has."""
    if not value:
        raise _refused(f"{condition}: no value after a comma; conditions are parted by spaces")
    if kind in ("int", "float") and free_axes.number_of(value) is None:
        raise _refused(f"{condition}: {axis} is a number, {value} is none")
    choices = ["true", "false"] if kind == "bool" else []
    if axis in AXES and kind == "str":
        choices = choices_of(AXES[axis])
    if choices and value not in choices:
        raise _refused(f"{condition}: {axis} is never {value}; {among(value, choices)}")


def _refused(what: str) -> SweepRefusedError:
    return SweepRefusedError(f"sweep.exclude: {what}")
