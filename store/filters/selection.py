"""Filters of attempts on command lines, as `model=resnet50` and `num_gpus>=4`.

Free axes, as `axes.zero>=2`, read the spec of a trial, so that a database without such an axis
answers that no trial has it.
"""

from __future__ import annotations

import difflib
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from scalemark.records.axes import Axis
from scalemark.records.free_axes import (
    WORDS_FOR_INHERITED,
    bare_name,
    full_name,
    is_env_variable,
    is_free,
    name_in_records,
)
from scalemark.records.outcomes import Outcome, Verdict
from scalemark.records.trial import AXES
from store.errors import StoreError
from store.filters import filter_values
from store.filters.filter_values import Filter, shortened
from store.schema import (
    AttemptRow,
    EnvironmentRow,
    MachineRow,
    MeasurementRow,
    SweepRow,
    TagRow,
    TrialRow,
)
from store.trial_rows import free_columns

_MOST_FILTERS = 100  # SQLite refuses expressions a thousand deep

_Condition = sa.ColumnElement[bool]


def attempt_ids(filters: Sequence[str], *, deleted: bool = False) -> sa.Select[int]:
    r"""Select the ids of the attempts for which every filter holds; `deleted`: of deleted ones.

    `=` and `!=` take several values between commas (`\,` is a comma within one, `\=` an equals sign
    at its beginning), `~` takes a pattern of `*` and `?`, and `!=` holds also where there is
    nothing to compare. `env.NAME=inherited` holds where a trial inherits a variable. Raises
    StoreError for text that is no filter.
    """
    asked_for = parsed(filters)
    statement = sa.select(AttemptRow.id)
    for table in dict.fromkeys(_field(asked.name).table for asked in asked_for):
        if table is not AttemptRow:
            on, optional = _JOINS[table]
            statement = statement.join(table, on, isouter=optional)
    conditions = (_field(asked.name).condition(asked) for asked in asked_for)
    return statement.where(deleted_at(deleted), *conditions).correlate(None)


def repeat_conditions(filters: Sequence[str]) -> list[_Condition] | None:
    """Return the conditions of these filters on repeats joined with their sweeps and trials; None
    where one asks for what a repeat has only once it has run.
    """
    asked_for = parsed(filters)
    fields = [_field(asked.name) for asked in asked_for]
    if any(field.table not in (TrialRow, SweepRow) for field in fields):
        return None
    return [field.condition(asked) for field, asked in zip(fields, asked_for, strict=True)]


def deleted_at(deleted: bool) -> _Condition:
    """Return the condition that an attempt is deleted, or that it counts."""
    return AttemptRow.deleted_at.is_not(None) if deleted else AttemptRow.deleted_at.is_(None)


def parsed(filters: Sequence[str]) -> list[Filter]:
    """Raises StoreError for text that is no filter, and for unknown names."""
    return parsed_with(filters, {name: field.example for name, field in _FIELDS.items()})


def parsed_with(filters: Sequence[str], examples: Mapping[str, str]) -> list[Filter]:
    """Parse filters over other names, each with an example of its values."""
    if len(filters) > _MOST_FILTERS:
        raise StoreError(f"{len(filters)} filters: wanted {_MOST_FILTERS} or fewer")
    return [_parsed(text, examples) for text in filters]


def looks_like_filter(text: str) -> bool:
    """Return whether it has the form of a filter, whatever its name."""
    return _FORM.fullmatch(text) is not None


def unknown_name(text: str) -> str | None:
    """Return the name of a filter where it is none of ours, and has not the prefix of free axes."""
    form = _FORM.fullmatch(text)
    if form is None or form[1] in _FIELDS or is_free(form[1]):
        return None
    return form[1]


def is_of_trials(asked: Filter) -> bool:
    """Return whether all attempts of a trial have alike what it asks for."""
    return _field(asked.name).table is TrialRow


def nearest(name: str, names: Sequence[str]) -> str:
    """End a message with the nearest known name, or with all where none is near. A free axis is
    known with and without its prefix.
    """
    bare = [bare_name(known) for known in names]
    near = difflib.get_close_matches(name, [*bare, *names], 1)
    return f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}"


_ORIGINS = ("measured", "simulated", "published", "elsewhere")
_FORM = re.compile(r"\s*((?:axes\.|env\.)?\w+)\s*(>=|<=|!=|==|=|>|<|~)(.*)", re.DOTALL)


def _parsed(text: str, examples: Mapping[str, str]) -> Filter:
    form = _FORM.fullmatch(text)
    if form is None:
        name = text.strip()
        example = "model=resnet50 or num_gpus>=4"
        if "sweep" in examples:
            example = f"model=resnet50, num_gpus>=4 or sweep={filter_values.shortened(name)}"
        if name in examples:
            example = f"{name}={examples[name]}"
        raise StoreError(
            f"{filter_values.shortened(text)}: no operator found; wanted NAME, one of "
            f"{' '.join(_ALL)}, and a value, as {example}"
        )
    name, sign, value = form.groups()
    if name not in examples and not is_free(name):
        raise StoreError(
            f"{filter_values.shortened(name)}: nothing to filter by; "
            f"{nearest(name[:100], list(examples))}"
        )
    if name == "origin" and value.strip() in _ORIGINS:
        raise StoreError(
            f"{text.strip()}: wanted the option --origin {value.strip()}; this filter is about the "
            "file that a sweep was imported from, as origin=other.db"
        )
    value = filter_values.checked(value, f"{name}{sign}")
    return Filter(name, "=" if sign == "==" else sign, value)


_EQUAL = ("=", "!=")
_TEXTUAL = ("=", "!=", "~")
_ORDERED = ("=", "!=", "<", "<=", ">", ">=")
_ALL = (*_ORDERED, "~")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Field:
    """The meaning of a filter's name."""

    table: type[Any]  # to join attempts with
    operators: tuple[str, ...]
    # for every operator but `!=`, which is the opposite of `=`
    condition_of: Callable[[Filter], _Condition]
    example: str
    # where this is false, `!=` does not hold, either: it would for every misspelt free axis
    is_there: _Condition | None = None

    def condition(self, asked: Filter) -> _Condition:
        asked.check_operator(self.operators)
        if asked.operator != "!=":
            return self.condition_of(asked)
        equal = self.condition_of(Filter(asked.name, "=", asked.value))
        differs = sa.not_(sa.func.coalesce(equal, sa.false()))
        return differs if self.is_there is None else sa.and_(self.is_there, differs)


# table -> how to join it with attempts, and whether some attempts have none of it
_JOINS: Mapping[type[Any], tuple[_Condition, bool]] = {
    TrialRow: (TrialRow.id == AttemptRow.trial_id, False),
    SweepRow: (SweepRow.id == AttemptRow.sweep_id, False),
    MachineRow: (MachineRow.id == AttemptRow.machine_id, False),
    EnvironmentRow: (EnvironmentRow.id == AttemptRow.environment_id, True),
    MeasurementRow: (MeasurementRow.attempt_id == AttemptRow.id, True),
}


def _text(table: type[Any], column: Any, example: str, choices: Sequence[str] = ()) -> _Field:
    if _JOINS.get(table, (None, False))[1]:
        column = sa.func.coalesce(column, "")

    def condition(asked: Filter) -> _Condition:
        if asked.operator == "~":
            return _matches(column, asked)
        values = filter_values.several(asked)
        for value in values:
            if choices and value and value not in choices:
                raise StoreError(f"{asked}: no such {asked.name}; {nearest(value[:100], choices)}")
        return _any_of(column, values)

    return _Field(table=table, operators=_TEXTUAL, condition_of=condition, example=example)


def _whole(table: type[Any], column: Any, example: str) -> _Field:
    return _number(table, column, filter_values.whole, sa.BigInteger, example)


def _real(table: type[Any], column: Any, example: str) -> _Field:
    return _number(table, column, filter_values.real, sa.Double, example)


def _number(
    table: type[Any],
    column: Any,
    read: Callable[[Filter, str], float],
    kind: type[sa.types.TypeEngine[Any]],
    example: str,
) -> _Field:
    def condition(asked: Filter) -> _Condition:
        if asked.operator == "=":
            values = filter_values.several(asked)
            return _any_of(column, [sa.literal(read(asked, value), kind) for value in values])
        limit = sa.literal(read(asked, filter_values.single(asked)), kind)
        return _compare(column, asked.operator, limit)

    return _Field(table=table, operators=_ORDERED, condition_of=condition, example=example)


def _boolean(table: type[Any], column: Any) -> _Field:
    def condition(asked: Filter) -> _Condition:
        values = {filter_values.boolean(asked, value) for value in filter_values.several(asked)}
        return sa.or_(*(column.is_(value) for value in sorted(values)))

    return _Field(table=table, operators=_EQUAL, condition_of=condition, example="yes")


def _time(table: type[Any], column: Any) -> _Field:
    def condition(asked: Filter) -> _Condition:
        if asked.operator == "=":
            spans = [filter_values.time_span(asked, value) for value in _few(asked)]
            return sa.or_(*(sa.and_(column >= begin, column < end) for begin, end in spans))
        # before a day is before its beginning, and up to a day is before its end
        begin, end = filter_values.time_span(asked, filter_values.single(asked))
        if asked.operator in ("<", ">="):
            return _compare(column, asked.operator, begin)
        return _compare(column, "<" if asked.operator == "<=" else ">=", end)

    return _Field(
        table=table, operators=_ORDERED, condition_of=condition, example="2026-11-21T12:00"
    )


def _trial_id(asked: Filter) -> _Condition:
    begins = [filter_values.beginning_of_id(asked, value) for value in _few(asked)]
    return sa.or_(*(id_begins_with(begin) for begin in begins))


def id_begins_with(begin: str) -> _Condition:
    """Compare the id of a trial with two bounds, so that its index is used."""
    return sa.and_(TrialRow.id >= begin, TrialRow.id < begin + "g")


def _few(asked: Filter) -> list[str]:
    """Return values that become an expression each."""
    values = filter_values.several(asked)
    if len(values) > _MOST_FILTERS:
        raise StoreError(f"{asked}: {len(values)} values; wanted {_MOST_FILTERS} or fewer")
    return values


def _tagged(asked: Filter) -> _Condition:
    tagged: _Condition = TagRow.tag.in_(filter_values.several(asked))
    if asked.operator == "~":
        tagged = _matches(TagRow.tag, asked)
    subjects = (
        (AttemptRow.id, TagRow.attempt_id),
        (AttemptRow.trial_id, TagRow.trial_id),
        (AttemptRow.sweep_id, TagRow.sweep_id),
    )
    return sa.or_(*(own.in_(sa.select(of).where(of.is_not(None), tagged)) for own, of in subjects))


def _matches(column: Any, asked: Filter) -> _Condition:
    matches: _Condition = column.regexp_match(filter_values.pattern(asked))
    return matches


def _any_of(column: Any, values: Sequence[Any]) -> _Condition:
    # a comparison uses an index where a list of one might not
    if len(values) == 1:
        equals: _Condition = column == values[0]
        return equals
    is_in: _Condition = column.in_(values)
    return is_in


def _compare(column: Any, sign: str, value: Any) -> _Condition:
    compared: _Condition = _ORDERS[sign](column, value)
    return compared


_ORDERS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


def _axis(axis: Axis) -> _Field:
    column = TrialRow.__table__.columns[axis.name]
    if axis.type is bool:
        return _boolean(TrialRow, column)
    if axis.type is int:
        return _whole(TrialRow, column, "4")
    if axis.type is float:
        return _real(TrialRow, column, "0.1")
    example = "resnet50" if axis.name == "model" else "VALUE"
    return _text(TrialRow, column, example, axis.choices)


def _field(name: str) -> _Field:
    return _free_axis(name_in_records(name)) if is_free(name) else _FIELDS[name]


def _free_axis(name: str) -> _Field:
    text = _FreeAxis(TrialRow.spec, sa.literal(name))
    text_or_empty = sa.func.coalesce(text, "")

    def condition(asked: Filter) -> _Condition:
        if asked.operator == "~":
            return _matches(text_or_empty, asked)
        if asked.operator == "=":
            return sa.or_(*(equals(value) for value in _few(asked)))
        limit = filter_values.real(asked, filter_values.single(asked))
        return _compare(_as_number(name), asked.operator, limit)

    def equals(value: str) -> _Condition:
        if is_env_variable(name):  # its characters, and no number
            is_inherited = text.is_(None) if value in WORDS_FOR_INHERITED else sa.false()
            return sa.or_(text_or_empty == value, is_inherited)
        try:
            number = float(value)
        except ValueError:
            return text_or_empty == value
        return sa.or_(text_or_empty == value, _as_number(name) == number)

    # a trial without a variable inherits it, which is another value
    is_there: _Condition = text.is_not(None)
    if is_env_variable(name):
        trials = TrialRow.__table__.alias()
        in_spec = _FreeAxis(trials.c.spec, sa.literal(name))
        is_there = sa.exists().where(in_spec.is_not(None))
    return _Field(
        table=TrialRow,
        operators=_ALL,
        condition_of=condition,
        example="2",
        is_there=is_there,
    )


NOT_AXES = ("id", "curve", "spec")
"""Columns of the table of trials that are no axes."""

_FIELDS: Mapping[str, _Field] = {
    "strategy": _text(TrialRow, TrialRow.strategy, "ps_cpu"),
    **{axis.name: _axis(axis) for axis in AXES.values()},
    "trial": _Field(table=TrialRow, operators=_EQUAL, condition_of=_trial_id, example="3f2a"),
    "attempt": _whole(AttemptRow, AttemptRow.id, "7"),
    "repeat": _whole(AttemptRow, AttemptRow.repeat, "1"),
    "outcome": _text(AttemptRow, AttemptRow.outcome, "completed", list(Outcome)),
    "verdict": _text(MeasurementRow, MeasurementRow.verdict, "valid", list(Verdict)),
    "throughput": _real(MeasurementRow, MeasurementRow.throughput, "100"),
    "started_at": _time(AttemptRow, AttemptRow.started_at),
    "shares_host": _boolean(AttemptRow, AttemptRow.shares_host),
    "sweep": _text(SweepRow, SweepRow.name, "NAME"),
    "origin": _text(SweepRow, SweepRow.origin, "other.db"),
    "host": _text(MachineRow, MachineRow.host, "NAME"),
    "gpu": _text(MachineRow, MachineRow.gpu, "NAME"),
    "software_key": _text(EnvironmentRow, EnvironmentRow.software_key, "3f2a"),
    "tensorflow": _text(EnvironmentRow, EnvironmentRow.tensorflow, "2.21.0"),
    "tag": _Field(table=AttemptRow, operators=_TEXTUAL, condition_of=_tagged, example="keep"),
}

KNOWN = tuple(_FIELDS)
"""Names of ours that a filter may have."""


# what both databases can cast, which a text of 400 digits is not
_LIKE_A_NUMBER = r"\A[+-]?([0-9]{1,40}[.]?[0-9]{0,40}|[.][0-9]{1,40})([eE][+-]?[0-9]{1,2})?\Z"


class _FreeAxis(FunctionElement[str]):
    """Reads a free axis out of a spec, as text; null without such an axis."""

    name = "free_axis"
    type = sa.Text()
    inherit_cache = True


class _KindOfFreeAxis(FunctionElement[str]):
    """Reads the JSON type of a free axis, in the words of the database."""

    name = "kind_of_free_axis"
    type = sa.Text()
    inherit_cache = True


# the name is in quotes in SQLite's path, for the dot in `env.NAME`
_PATH = """'$.free."' || {name} || '"'"""
_OF_DATABASES = {
    ("sqlite", _FreeAxis): f"CAST(json_extract({{spec}}, {_PATH}) AS TEXT)",
    ("sqlite", _KindOfFreeAxis): f"json_type({{spec}}, {_PATH})",
    ("postgresql", _FreeAxis): "(CAST({spec} AS json) -> 'free' ->> CAST({name} AS text))",
    ("postgresql", _KindOfFreeAxis): (
        "json_typeof(CAST({spec} AS json) -> 'free' -> CAST({name} AS text))"
    ),
}


def _register(dialect: str, element_class: type[FunctionElement[str]], sql: str) -> None:
    @compiles(element_class, dialect)
    def compiled(element: FunctionElement[str], compiler: SQLCompiler, **options: Any) -> str:
        spec, name = (compiler.process(clause, **options) for clause in element.clauses)
        return sql.format(spec=spec, name=name)


for (_dialect, _class), _sql in _OF_DATABASES.items():
    _register(_dialect, _class, _sql)

# what both databases can cast, which a text of 400 digits is not
_LIKE_A_NUMBER = r"\A[+-]?([0-9]{1,40}[.]?[0-9]{0,40}|[.][0-9]{1,40})([eE][+-]?[0-9]{1,2})?\Z"


def _as_number(name: str) -> sa.ColumnElement[float | None]:
    """Read a free axis as a number; null where it is none, also where it is text like one.

    Of variables, which hold nothing but text, text like a number is one.
    """
    text = _FreeAxis(TrialRow.spec, sa.literal(name))
    if is_env_variable(name):
        is_number: sa.ColumnElement[bool] = text.regexp_match(_LIKE_A_NUMBER)
    else:
        kind = _KindOfFreeAxis(TrialRow.spec, sa.literal(name))
        is_number = kind.in_(("integer", "real", "number"))  # of SQLite, and of PostgreSQL
    return sa.case((is_number, sa.cast(text, sa.Double)))


def with_prefixes(connection: sa.Connection, filters: Sequence[str]) -> list[str]:
    """Return the filters with the full names of the database's free axes.

    A name of ours is never a free axis. Raises StoreError for a name that is neither, with the
    nearest one; what is no filter at all is left as it is.
    """
    unknown = {name for text in filters if (name := unknown_name(text))}
    if not unknown:
        return list(filters)
    columns = free_columns(connection)
    free = set(map(bare_name, columns))
    for name in sorted(unknown - free):
        choices = [*KNOWN, *sorted(free)]
        raise StoreError(f"{shortened(name)}: nothing to filter by; {nearest(name[:100], choices)}")
    names = []
    for text in filters:
        name = unknown_name(text)
        if name is not None:
            text = full_name(name, columns) + text.lstrip().removeprefix(name)
        names.append(text)
    return names
