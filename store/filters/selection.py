"""Which attempts a command is about, as told by filters on its command line."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from scalemark.records.axes import Axis
from scalemark.records.free_axes import PREFIX
from scalemark.records.outcomes import Outcome, Verdict
from scalemark.records.trial import AXES
from store.errors import StoreError
from store.filters import filter_values, free_axis
from store.filters.glob import glob
from store.schema import (
    AttemptRow,
    EnvironmentRow,
    MachineRow,
    MeasurementRow,
    SweepRow,
    TagRow,
    TrialRow,
)

_MOST_FILTERS = 100  # SQLite refuses expressions a thousand deep
_MOST_VALUES = 10_000  # and 32,767 values in one statement

_Condition = sa.ColumnElement[bool]
_Values = Callable[[str], Any]


@dataclass(frozen=True, slots=True)
class Filter:
    """One condition, as `num_gpus>=4`: a name, an operator, and what stands behind it."""

    name: str
    operator: str
    value: str

    def __str__(self) -> str:
        return filter_values.shortened(f"{self.name}{self.operator}{self.value}")


def attempt_ids(filters: Sequence[str], *, deleted: bool = False) -> sa.Select[int]:
    """Of the attempts for which every filter holds, as `model=resnet50`, `num_gpus>=4`; `deleted`:
    of the deleted ones instead.

    A comma stands between values of which any will do (`\\,` is a comma within one, `\\=` an equals
    sign at its beginning), `~` compares with a pattern of `*` and `?`, and `!=` holds also where
    there is nothing to compare. Raises StoreError for a filter that is none, with what can be
    filtered by.
    """
    found = parsed(filters)
    statement = sa.select(AttemptRow.id)
    for table in dict.fromkeys(_field(one.name).table for one in found):
        statement = _joined(statement, table)
    return statement.where(
        deleted_at(deleted), *(_field(one.name).condition(one) for one in found)
    ).correlate(None)


def deleted_at(deleted: bool) -> sa.ColumnElement[bool]:
    """Of attempts: whether they are deleted, or whether they count."""
    return AttemptRow.deleted_at.is_not(None) if deleted else AttemptRow.deleted_at.is_(None)


def parsed(filters: Sequence[str]) -> list[Filter]:
    """Raises StoreError for text that is no filter, and for names that nothing has."""
    return parsed_with(filters, {name: field.example for name, field in _FIELDS.items()})


def parsed_with(filters: Sequence[str], examples: Mapping[str, str]) -> list[Filter]:
    """As `parsed`, of things that have these names, each with an example of its values."""
    if len(filters) > _MOST_FILTERS:
        raise StoreError(f"{len(filters)} filters: wanted {_MOST_FILTERS} or fewer")
    return [_parsed(text, examples) for text in filters]


def looks_like_filter(text: str) -> bool:
    """Whether it has the form of one, whatever its name."""
    return _FORM.fullmatch(text) is not None


def is_of_trials(one: Filter) -> bool:
    """Whether it asks for something that all attempts of a trial have alike."""
    return _field(one.name).table is TrialRow


def nearest(name: str, names: Sequence[str]) -> str:
    """What somebody may have meant, as the end of a message; all there is when nothing is near."""
    near = difflib.get_close_matches(name, names, 1)
    return f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}"


_FORM = re.compile(r"\s*((?:axes\.)?\w+)\s*(>=|<=|!=|==|=|>|<|~)(.*)", re.DOTALL)


def _parsed(text: str, examples: Mapping[str, str]) -> Filter:
    form = _FORM.fullmatch(text)
    if form is None:
        name = text.strip()
        example = (
            f"{name}={examples[name]}" if name in examples else "model=resnet50 or num_gpus>=4"
        )
        wanted = f"NAME, one of {' '.join(_OPERATORS)}, and a value, as {example}"
        raise StoreError(f"{filter_values.shortened(text)}: no operator found; wanted {wanted}")
    name, operator, value = form.groups()
    if name.startswith(PREFIX) and name.removeprefix(PREFIX) in examples:
        own = name.removeprefix(PREFIX)
        raise StoreError(f"{filter_values.shortened(name)}: no axis of a sweep's own; write {own}")
    if name not in examples and not name.startswith(PREFIX):
        raise StoreError(
            f"{filter_values.shortened(name)}: nothing to filter by; "
            f"{nearest(name[:100], list(examples))}"
        )
    return Filter(
        name,
        "=" if operator == "==" else operator,
        filter_values.checked(value, f"{name}{operator}"),
    )


_OPERATORS = ("=", "!=", "<", "<=", ">", ">=", "~")
_EQUAL = ("=", "!=")
_ORDERED = ("=", "!=", "<", "<=", ">", ">=")
_TEXTUAL = ("=", "!=", "~")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Field:
    """What a filter's name stands for."""

    table: type[Any]  # that attempts are joined with for it
    operators: tuple[str, ...]
    # `=` with any of the values, or what the operator says of the only one
    condition_of: Callable[[Filter], _Condition]
    example: str
    # of what some attempts lack: `!=` does not hold there, or a misspelt name would hold for all
    is_there: _Condition | None = None

    def condition(self, one: Filter) -> _Condition:
        if one.operator not in self.operators:
            raise StoreError(
                f"{one}: {one.operator} does not suit {one.name}; wanted one of "
                f"{' '.join(self.operators)}"
            )
        if one.operator == "!=":
            equal = self.condition_of(Filter(one.name, "=", one.value))
            differs = sa.not_(sa.func.coalesce(equal, sa.false()))
            return differs if self.is_there is None else sa.and_(self.is_there, differs)
        return self.condition_of(one)


def _joined(statement: sa.Select[int], table: type[Any]) -> sa.Select[int]:
    if table is AttemptRow:
        return statement
    on, optional = _JOINS[table]
    return statement.join(table, on, isouter=optional)


_JOINS: Mapping[type[Any], tuple[_Condition, bool]] = {
    TrialRow: (TrialRow.id == AttemptRow.trial_id, False),
    SweepRow: (SweepRow.id == AttemptRow.sweep_id, False),
    MachineRow: (MachineRow.id == AttemptRow.machine_id, False),
    EnvironmentRow: (EnvironmentRow.id == AttemptRow.environment_id, True),
    MeasurementRow: (MeasurementRow.attempt_id == AttemptRow.id, True),
}


def _text(table: type[Any], column: Any, example: str, choices: Sequence[str] = ()) -> _Field:
    told = sa.func.coalesce(column, "") if _JOINS.get(table, (None, False))[1] else column

    def condition(one: Filter) -> _Condition:
        if one.operator == "~":
            return glob(told, filter_values.pattern(one))
        values = filter_values.several(one, _MOST_VALUES)
        for value in values:
            if choices and value and value not in choices:
                raise StoreError(f"{one}: no such {one.name}; {nearest(value[:100], choices)}")
        return _any_of(told, values)

    return _Field(table=table, operators=_TEXTUAL, condition_of=condition, example=example)


def _number(
    table: type[Any],
    column: Any,
    read: Callable[[Filter, str], sa.ColumnElement[Any]],
    example: str,
) -> _Field:
    def condition(one: Filter) -> _Condition:
        if one.operator == "=":
            return _any_of(
                column, [read(one, value) for value in filter_values.several(one, _MOST_VALUES)]
            )
        return _compare(column, one.operator, read(one, filter_values.single(one)))

    return _Field(table=table, operators=_ORDERED, condition_of=condition, example=example)


def _boolean(table: type[Any], column: Any) -> _Field:
    def condition(one: Filter) -> _Condition:
        wanted = {
            filter_values.boolean(one, value) for value in filter_values.several(one, _MOST_VALUES)
        }
        return sa.or_(*(column.is_(value) for value in sorted(wanted)))

    return _Field(table=table, operators=_EQUAL, condition_of=condition, example="yes")


def _time(table: type[Any], column: Any) -> _Field:
    def condition(one: Filter) -> _Condition:
        if one.operator == "=":
            spans = [
                filter_values.time_span(one, value)
                for value in filter_values.several(one, _MOST_FILTERS)
            ]
            return sa.or_(*(sa.and_(column >= begin, column < end) for begin, end in spans))
        begin, end = filter_values.time_span(one, filter_values.single(one))
        edge = begin if one.operator in ("<", ">=") else end
        return _compare(column, "<" if one.operator in ("<", "<=") else ">=", edge)

    return _Field(
        table=table, operators=_ORDERED, condition_of=condition, example="2026-11-21T12:00"
    )


def _trial_id() -> _Field:
    def condition(one: Filter) -> _Condition:
        begins = [
            filter_values.beginning_of_id(one, value)
            for value in filter_values.several(one, _MOST_FILTERS)
        ]
        return sa.or_(*(id_begins_with(begin) for begin in begins))

    return _Field(table=TrialRow, operators=_EQUAL, condition_of=condition, example="3f2a")


def id_begins_with(begin: str) -> _Condition:
    """Of a trial. Between bounds, so that its index is used."""
    return sa.and_(TrialRow.id >= begin, TrialRow.id < begin + "g")


def _tag() -> _Field:
    def condition(one: Filter) -> _Condition:
        if one.operator == "~":
            tagged = glob(TagRow.tag, filter_values.pattern(one))
        else:
            tagged = TagRow.tag.in_(filter_values.several(one, _MOST_VALUES))
        subjects = (
            (AttemptRow.id, TagRow.attempt_id),
            (AttemptRow.trial_id, TagRow.trial_id),
            (AttemptRow.sweep_id, TagRow.sweep_id),
        )
        return sa.or_(
            *(own.in_(sa.select(of).where(of.is_not(None), tagged)) for own, of in subjects)
        )

    return _Field(table=AttemptRow, operators=_TEXTUAL, condition_of=condition, example="keep")


def _any_of(column: Any, values: Sequence[Any]) -> _Condition:
    found: _Condition = column == values[0] if len(values) == 1 else column.in_(values)
    return found


def _compare(column: Any, operator: str, value: Any) -> _Condition:
    found: _Condition = _COMPARED[operator](column, value)
    return found


_COMPARED: Mapping[str, Callable[[Any, Any], Any]] = {
    "<": lambda column, value: column < value,
    "<=": lambda column, value: column <= value,
    ">": lambda column, value: column > value,
    ">=": lambda column, value: column >= value,
}


def _axis(axis: Axis) -> _Field:
    column = TrialRow.__table__.columns[axis.name]
    if axis.type is bool:
        return _boolean(TrialRow, column)
    if axis.type is int:
        return _number(TrialRow, column, filter_values.whole_number, "4")
    if axis.type is float:
        return _number(TrialRow, column, filter_values.number, "0.1")
    example = "resnet50" if axis.name == "model" else "VALUE"
    return _text(TrialRow, column, example, axis.definition.choices)


def _field(name: str) -> _Field:
    return _free_axis(name) if name.startswith(PREFIX) else _FIELDS[name]


def _free_axis(name: str) -> _Field:
    own = name.removeprefix(PREFIX)

    def condition(one: Filter) -> _Condition:
        if one.operator == "~":
            return free_axis.matches(own, filter_values.pattern(one))
        if one.operator == "=":
            values = filter_values.several(one, _MOST_VALUES)
            return sa.or_(*(free_axis.equals(own, value) for value in values))
        number = filter_values.real(one, filter_values.single(one))
        return free_axis.compares(own, one.operator, number)

    return _Field(
        table=TrialRow,
        operators=_OPERATORS,
        condition_of=condition,
        example="2",
        is_there=free_axis.is_there(own),
    )


NOT_AXES = ("id", "curve", "spec")
"""Columns of trials that are none."""

_FIELDS: Mapping[str, _Field] = {
    "strategy": _text(TrialRow, TrialRow.strategy, "ps_cpu"),
    **{axis.name: _axis(axis) for axis in AXES.values()},
    "trial": _trial_id(),
    "attempt": _number(AttemptRow, AttemptRow.id, filter_values.whole_number, "7"),
    "repeat": _number(AttemptRow, AttemptRow.repeat, filter_values.whole_number, "1"),
    "outcome": _text(
        AttemptRow, AttemptRow.outcome, "completed", [str(outcome) for outcome in Outcome]
    ),
    "verdict": _text(
        MeasurementRow, MeasurementRow.verdict, "valid", [str(verdict) for verdict in Verdict]
    ),
    "throughput": _number(MeasurementRow, MeasurementRow.throughput, filter_values.number, "100"),
    "started_at": _time(AttemptRow, AttemptRow.started_at),
    "shares_host": _boolean(AttemptRow, AttemptRow.shares_host),
    "sweep": _text(SweepRow, SweepRow.name, "NAME"),
    "origin": _text(SweepRow, SweepRow.origin, "other.db"),
    "host": _text(MachineRow, MachineRow.host, "NAME"),
    "gpu": _text(MachineRow, MachineRow.gpu, "NAME"),
    "software_key": _text(EnvironmentRow, EnvironmentRow.software_key, "3f2a"),
    "tensorflow": _text(EnvironmentRow, EnvironmentRow.tensorflow, "2.21.0"),
    "tag": _tag(),
}
