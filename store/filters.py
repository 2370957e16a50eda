"""Filters of attempts on command lines, as `model=resnet50` and `num_gpus>=4`: their text, the
values that they name, and the SQL that chooses attempts. All functions raise StoreError, which says
what was found and what was wanted.

Free axes, as `axes.zero>=2`, read the spec of a trial, so that a database without such an axis
answers that no trial has it.
"""

import difflib
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from scalemark.records import axes
from scalemark.records.measurement import Outcome, Verdict
from scalemark.records.trial import AXES
from store.errors import StoreError
from store.schema import (
    AttemptRow,
    EnvironmentRow,
    MachineRow,
    MeasurementRow,
    SweepRow,
    TagRow,
    TrialRow,
)
from store.tables import free_columns

_MOST_FILTERS = 100  # SQLite refuses expressions a thousand deep
_MOST_SHOWN = 80  # characters of a value, in a message
_MOST_VALUES = 10_000  # SQLite takes 32,767 in one statement
_LONGEST_PATTERN = 20_000  # PostgreSQL gives up on expressions of some 50,000
_LARGEST = 2**63 - 1
_YES_OR_NO = {"true": True, "yes": True, "false": False, "no": False}
_ORIGINS = ("measured", "simulated", "published", "elsewhere")
_FORM = re.compile(r"\s*((?:axes\.|env\.)?\w+)\s*(>=|<=|!=|==|=|>|<|~)(.*)", re.DOTALL)
_TEXTUAL = ("=", "!=", "~")
_ORDERED = ("=", "!=", "<", "<=", ">", ">=")
_ALL = (*_ORDERED, "~")
ORDERS: Mapping[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

_Condition = sa.ColumnElement[bool]


@dataclass(frozen=True, slots=True)
class Filter:
    """One condition, as `num_gpus>=4`: a name, an operator, and a value."""

    name: str
    operator: str
    value: str

    def __str__(self) -> str:
        return shortened(f"{self.name}{self.operator}{self.value}")

    def refuse(self, wanted: str, value: str) -> NoReturn:
        raise StoreError(f"{self}: {wanted}; found {shortened(value) or 'nothing'}")

    def check_operator(self, operators: Sequence[str]) -> None:
        if self.operator not in operators:
            raise StoreError(
                f"{self}: {self.operator} does not suit {self.name}; wanted one of "
                f"{' '.join(operators)}"
            )


def shortened(text: str) -> str:
    """Cut text to a line, without anything that a terminal would obey."""
    cut = text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."
    if cut.isprintable():
        return cut
    return repr(cut)[1:-1]


def checked(text: str, what: str) -> str:
    """Return text that every database can hold. Messages call it `what`."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise StoreError(f"{what}{shortened(text)}: not valid UTF-8") from None
    if "\0" in text:
        raise StoreError(
            f"{what}{shortened(text)}: has a zero byte, which no database takes for text"
        )
    return text


_MOST_LISTED, _FEW_OF_MANY = 24, 8  # names


def nearest(name: str, names: Sequence[str], likely: Sequence[str] = ()) -> str:
    """End a message with the nearest known name, or with all where none is near, of many with the
    likely ones, else with the nearest of them. A free axis is known with and without its prefix.
    """
    bare = [axes.bare_name(known) for known in names]
    near = difflib.get_close_matches(name, [*bare, *names], 1)
    if near:
        return f"did you mean {near[0]}?"
    if len(names) <= _MOST_LISTED:
        return f"there are {', '.join(names)}"
    if likely:
        listed = ", ".join(map(axes.bare_name, likely[:_MOST_LISTED]))
        return f"of {len(names)} names these vary: {listed}"
    nearest_names = difflib.get_close_matches(name, names, _FEW_OF_MANY, cutoff=0.0)
    return f"the nearest of {len(names)} names are {', '.join(nearest_names)}"


def looks_like_filter(text: str) -> bool:
    """Return whether it has the form of a filter, whatever its name."""
    return _FORM.fullmatch(text) is not None


def unknown_name(text: str) -> str | None:
    """Return the name of a filter where it is none of ours, and has not the prefix of free axes."""
    form = _FORM.fullmatch(text)
    if form is None or form[1] in _FIELDS or axes.is_free(form[1]):
        return None
    return form[1]


def with_prefixes(connection: sa.Connection, filters: Sequence[str]) -> list[str]:
    """Return the filters with the full names of the database's free axes.

    A name of ours is never a free axis. Raises StoreError for a name that is neither, with the
    nearest one; what is no filter at all is left as it is.
    """
    columns = free_columns(connection)
    free = sorted(map(axes.bare_name, columns))
    names = []
    for text in filters:
        name = unknown_name(text)
        if name is not None:
            if name not in free:
                near = nearest(name[:100], [*KNOWN, *free])
                raise StoreError(f"{shortened(name)}: no such filter; {near}")
            text = axes.full_name(name, columns) + text.lstrip().removeprefix(name)
        form = _FORM.fullmatch(text)
        if form and form[1] == axes.REF and axes.REF in columns and form[2] in ("=", "==", "!="):
            values = connection.scalars(sa.select(columns[axes.REF]).distinct())
            text = _with_commits(
                Filter(axes.REF, form[2], form[3]), [str(value) for value in values]
            )
        names.append(text)
    return names


def _with_commits(asked: Filter, stored: Sequence[str]) -> str:
    """Return the filter with commits behind the refs that were measured at a single one."""
    values = []
    for value in several(asked):
        at = [ref for ref in sorted(stored) if ref.startswith(f"{value}@")]
        if len(at) > 1 and value not in stored:
            raise StoreError(f"{asked}: measured at {len(at)} commits; name one of {', '.join(at)}")
        if at and value not in stored:
            value = at[0]
        values.append(escaped(value))
    return f"{asked.name}{asked.operator}{','.join(values)}"


def parsed(filters: Sequence[str]) -> list[Filter]:
    """Raises StoreError for text that is no filter, and for unknown names."""
    return parsed_with(filters, {name: field.example for name, field in _FIELDS.items()})


def parsed_with(filters: Sequence[str], examples: Mapping[str, str]) -> list[Filter]:
    """Parse filters over other names, each with an example of its values."""
    if len(filters) > _MOST_FILTERS:
        raise StoreError(f"{len(filters)} filters: wanted {_MOST_FILTERS} or fewer")
    return [_parsed(text, examples) for text in filters]


def _parsed(text: str, examples: Mapping[str, str]) -> Filter:
    form = _FORM.fullmatch(text)
    if form is None:
        name = text.strip()
        example = "model=resnet50 or num_gpus>=4"
        if "sweep" in examples:
            example = f"model=resnet50, num_gpus>=4 or sweep={shortened(name)}"
        if name in examples:
            example = f"{name}={examples[name]}"
        raise StoreError(
            f"{shortened(text)}: no operator found; wanted NAME, one of {' '.join(_ALL)}, and a "
            f"value, as {example}"
        )
    name, sign, value = form.groups()
    if name not in examples and not axes.is_free(name):
        near = nearest(name[:100], list(examples))
        raise StoreError(f"{shortened(name)}: no such filter; {near}")
    if name == "origin" and value.strip() in _ORIGINS:
        raise StoreError(
            f"{text.strip()}: wanted the option --origin {value.strip()}; this filter is about the "
            "file that a sweep was imported from, as origin=other.db"
        )
    return Filter(name, "=" if sign == "==" else sign, checked(value, f"{name}{sign}"))


def either(asked: Filter, other: Filter) -> str:
    """Say that nothing is both, of two filters of one name, and how to ask for either."""
    values = f"{asked.name}={asked.value},{other.value}"
    return f"nothing is both {asked} and {other}; {shortened(values)} asks for either"


def several(asked: Filter, most: int = _MOST_VALUES) -> list[str]:
    r"""Split values at commas. `\,` is a comma within a value, and `\=` an equals sign at its
    beginning.
    """
    values = re.split(r"(?<!\\),", asked.value)
    if len(values) > most:
        raise StoreError(f"{asked}: {len(values)} values; wanted {most} or fewer")
    return [re.sub(r"^\\=", "=", value.replace(r"\,", ",")) for value in values]


def escaped(value: str) -> str:
    """Write a value so that `several` reads it as one."""
    return re.sub("^=", r"\\=", value.replace(",", r"\,"))


def single(asked: Filter) -> str:
    if "," in asked.value:
        raise StoreError(
            f"{asked}: {asked.operator} compares with one value; several go with = and !="
        )
    return asked.value


def pattern(asked: Filter) -> str:
    """Return a regular expression for `*` and `?`, which all our databases read alike."""
    if len(asked.value) > _LONGEST_PATTERN:
        raise StoreError(f"{asked}: wanted a pattern of {_LONGEST_PATTERN} characters or fewer")
    literal = re.escape(asked.value).replace(r"\*", ".*").replace(r"\?", ".")
    return rf"(?s)\A{literal}\Z"


def whole(asked: Filter, value: str) -> int:
    if not re.fullmatch(r"\s*[+-]?[0-9]{1,40}\s*", value):
        asked.refuse(f"{asked.name} is a whole number", value)
    if abs(int(value)) > _LARGEST:
        raise StoreError(f"{asked}: wanted a whole number between -2**63 and 2**63")
    return int(value)


def real(asked: Filter, value: str) -> float:
    number = axes.number_of(value.strip())
    if number is None:
        asked.refuse(f"{asked.name} is a number", value)
    return number


ID_BEGINNING = "beginning of a trial's id (4 hexadecimal digits or more)"
"""What may name a trial on command lines: fewer characters than that name one by chance."""


def begins_id(text: str) -> bool:
    return re.fullmatch("[0-9a-f]{4,16}", text) is not None


def id_begins_with(begin: str) -> _Condition:
    """Compare the id of a trial with two bounds, so that its index is used."""
    return sa.and_(TrialRow.id >= begin, TrialRow.id < begin + "g")


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
    conditions = []
    for asked in parsed(filters):
        field = _field(asked.name)
        if field.table not in (TrialRow, SweepRow):
            return None
        conditions.append(field.condition(asked))
    return conditions


def deleted_at(deleted: bool) -> _Condition:
    """Return the condition that an attempt is deleted, or that it counts."""
    if deleted:
        return AttemptRow.deleted_at.is_not(None)
    return AttemptRow.deleted_at.is_(None)


def is_of_trials(asked: Filter) -> bool:
    """Return whether all attempts of a trial have alike what it asks for."""
    return _field(asked.name).table is TrialRow


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
        if self.is_there is None:
            return differs
        return sa.and_(self.is_there, differs)


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
        values = several(asked)
        for value in values:
            if choices and value and value not in choices:
                raise StoreError(f"{asked}: no such {asked.name}; {nearest(value[:100], choices)}")
        return _any_of(column, values)

    return _Field(table=table, operators=_TEXTUAL, condition_of=condition, example=example)


def _number(
    table: type[Any], column: Any, read: Callable[[Filter, str], float], example: str
) -> _Field:
    kind = sa.BigInteger if read is whole else sa.Double

    def condition(asked: Filter) -> _Condition:
        if asked.operator == "=":
            values = several(asked)
            return _any_of(column, [sa.literal(read(asked, value), kind) for value in values])
        return _compare(column, asked, sa.literal(read(asked, single(asked)), kind))

    return _Field(table=table, operators=_ORDERED, condition_of=condition, example=example)


def _boolean(table: type[Any], column: Any) -> _Field:
    def condition(asked: Filter) -> _Condition:
        values = set()
        for text in several(asked):
            value = _YES_OR_NO.get(text.strip().lower())
            if value is None:
                asked.refuse(f"{asked.name} is true or false, yes or no", text)
            values.add(value)
        return sa.or_(*(column.is_(value) for value in sorted(values)))

    return _Field(table=table, operators=("=", "!="), condition_of=condition, example="yes")


def _started_at(asked: Filter) -> _Condition:
    column = AttemptRow.started_at
    if asked.operator == "=":
        spans = [_time_span(asked, value) for value in several(asked, _MOST_FILTERS)]
        return sa.or_(*(sa.and_(column >= begin, column < end) for begin, end in spans))
    # before a day is before its beginning, and up to a day is before its end
    begin, end = _time_span(asked, single(asked))
    if asked.operator in ("<", ">="):
        return _compare(column, asked, begin)
    if asked.operator == "<=":
        return column < end
    return column >= end


_TIMES = {  # each with how long it lasts
    "%Y-%m-%d%z": timedelta(days=1),
    "%Y-%m-%dT%H:%M%z": timedelta(minutes=1),
    "%Y-%m-%dT%H:%M:%S%z": timedelta(seconds=1),
    "%Y-%m-%dT%H:%M:%S.%f%z": timedelta(microseconds=1),
}


def _time_span(asked: Filter, value: str) -> tuple[datetime, datetime]:
    """Return the first moment that a date or a time means, and the first moment after it."""
    text = value.strip().replace(" ", "T")
    for form, length in _TIMES.items():
        for zone in ("", "+00:00"):
            with suppress(ValueError, OverflowError):
                begin = datetime.strptime(text + zone, form).astimezone(UTC)
                return begin, begin + length
    asked.refuse(
        "wanted a date as 2026-11-21, or a time as 2026-11-21T12:30 (UTC) or "
        "2026-11-21T12:30+02:00",
        value,
    )


def _trial_id(asked: Filter) -> _Condition:
    conditions = []
    for value in several(asked, _MOST_FILTERS):
        if not begins_id(value):
            asked.refuse("wanted the beginning of a trial's id, 4 to 16 of 0-9 and a-f", value)
        conditions.append(id_begins_with(value))
    return sa.or_(*conditions)


def _tagged(asked: Filter) -> _Condition:
    tagged: _Condition = TagRow.tag.in_(several(asked))
    if asked.operator == "~":
        tagged = _matches(TagRow.tag, asked)
    subjects = (
        (AttemptRow.id, TagRow.attempt_id),
        (AttemptRow.trial_id, TagRow.trial_id),
        (AttemptRow.sweep_id, TagRow.sweep_id),
    )
    return sa.or_(*(own.in_(sa.select(of).where(of.is_not(None), tagged)) for own, of in subjects))


def _matches(column: Any, asked: Filter) -> _Condition:
    matches: _Condition = column.regexp_match(pattern(asked))
    return matches


def _any_of(column: Any, values: Sequence[Any]) -> _Condition:
    # a comparison uses an index where a list of one might not
    is_one: _Condition = column == values[0] if len(values) == 1 else column.in_(values)
    return is_one


def _compare(column: Any, asked: Filter, value: Any) -> _Condition:
    compared: _Condition = ORDERS[asked.operator](column, value)
    return compared


def _axis(axis: axes.Axis) -> _Field:
    column = TrialRow.__table__.columns[axis.name]
    if axis.type is bool:
        return _boolean(TrialRow, column)
    if axis.type is int:
        return _number(TrialRow, column, whole, "4")
    if axis.type is float:
        return _number(TrialRow, column, real, "0.1")
    example = "resnet50" if axis.name == "model" else "VALUE"
    return _text(TrialRow, column, example, axis.choices)


def _field(name: str) -> _Field:
    if axes.is_free(name):
        return _free_axis(axes.name_in_records(name))
    return _FIELDS[name]


def _free_axis(name: str) -> _Field:
    text = _FreeAxis(TrialRow.spec, sa.literal(name))
    text_or_empty = sa.func.coalesce(text, "")
    # text like a number is one of variables alone, which hold nothing but text
    if axes.is_env_variable(name):
        is_number: _Condition = text.regexp_match(_LIKE_A_NUMBER)
    else:
        kind = _KindOfFreeAxis(TrialRow.spec, sa.literal(name))
        is_number = kind.in_(("integer", "real", "number"))  # of SQLite, and of PostgreSQL
    number: sa.ColumnElement[float | None] = sa.case((is_number, sa.cast(text, sa.Double)))

    def condition(asked: Filter) -> _Condition:
        if asked.operator == "~":
            return _matches(text_or_empty, asked)
        if asked.operator == "=":
            return sa.or_(*(equals(value) for value in several(asked, _MOST_FILTERS)))
        return _compare(number, asked, real(asked, single(asked)))

    def equals(value: str) -> _Condition:
        if axes.is_env_variable(name):  # its characters, and no number
            is_inherited = text.is_(None) if value in axes.WORDS_FOR_INHERITED else sa.false()
            return sa.or_(text_or_empty == value, is_inherited)
        wanted = axes.number_of(value.strip())
        if wanted is None:
            return text_or_empty == value
        return sa.or_(text_or_empty == value, number == wanted)

    # a trial without a variable inherits it, which is another value
    is_there: _Condition = text.is_not(None)
    if axes.is_env_variable(name):
        trials = TrialRow.__table__.alias()
        is_there = sa.exists().where(_FreeAxis(trials.c.spec, sa.literal(name)).is_not(None))
    return _Field(
        table=TrialRow, operators=_ALL, condition_of=condition, example="2", is_there=is_there
    )


NOT_AXES = ("id", "curve", "spec")
"""Columns of the table of trials that are no axes."""

_FIELDS: Mapping[str, _Field] = {
    "strategy": _text(TrialRow, TrialRow.strategy, "ps_cpu"),
    **{axis.name: _axis(axis) for axis in AXES.values()},
    "trial": _Field(table=TrialRow, operators=("=", "!="), condition_of=_trial_id, example="3f2a"),
    "attempt": _number(AttemptRow, AttemptRow.id, whole, "7"),
    "repeat": _number(AttemptRow, AttemptRow.repeat, whole, "1"),
    "outcome": _text(AttemptRow, AttemptRow.outcome, "completed", list(Outcome)),
    "verdict": _text(MeasurementRow, MeasurementRow.verdict, "valid", list(Verdict)),
    "throughput": _number(MeasurementRow, MeasurementRow.throughput, real, "100"),
    "started_at": _Field(
        table=AttemptRow,
        operators=_ORDERED,
        condition_of=_started_at,
        example="2026-11-21T12:00",
    ),
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
