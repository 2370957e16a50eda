"""Reads figures that others measured: published ones, and those of tables that were taken in."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

import sqlalchemy as sa

from scalemark.records.free_axes import PREFIX, is_free, name_in_records
from scalemark.records.references import Reference, ReferenceKind, published
from scalemark.stats.welch import typical
from store.database import own_command
from store.filters import filter_values
from store.filters.filter_values import Filter
from store.filters.selection import parsed_with
from store.reading.queries import Row, num_attempts, selected, streamed
from store.schema import ReferenceRow


def list_references(engine: sa.Engine, *, without: ReferenceKind | None = None) -> list[Row]:
    """Return the fields of every reference, or of all but those of one origin, in the order in
    which they were added.
    """
    columns = [getattr(ReferenceRow, field.name) for field in fields(Reference)]
    statement = sa.select(*columns).order_by(ReferenceRow.id)
    if without is not None:
        statement = statement.where(ReferenceRow.origin != without)
    return selected(engine, statement)


def known_references(engine: sa.Engine | None) -> list[Row]:
    """Return the references that can be looked up; without a database those that come with
    scalemark.
    """
    if engine is None:
        return [asdict(reference) for reference in published()]
    return list_references(engine, without=ReferenceKind.TABLE)


_OF_ITS_ROWS = ("axes", "throughput", "repeat", "evidence", "note")
_OF_A_TRIAL = tuple(field.name for field in fields(Reference) if field.name not in _OF_ITS_ROWS)


def measured_elsewhere(engine: sa.Engine) -> list[Row]:
    """Return the fields of each trial, in the order of their first rows, with its `repeats`: the
    throughputs of rows that agree in all axes. `throughput` is their geometric mean.

    What rows say beside their axes, as a note, is left out. In memory are the trials and their
    throughputs, and no more of a million rows.
    """
    columns = [getattr(ReferenceRow, name) for name in _OF_A_TRIAL]
    statement = (
        sa.select(ReferenceRow.throughput, ReferenceRow.axes, *columns)
        .where(ReferenceRow.origin == ReferenceKind.TABLE)
        .order_by(ReferenceRow.id)
    )
    trials: dict[tuple[Any, ...], Row] = {}
    with streamed(engine, statement) as (_, rows):
        for throughput, axes, *own in rows:
            key = (*axes.items(), *own)
            if key not in trials:
                values = dict(zip(_OF_A_TRIAL, own, strict=True))
                trials[key] = {**values, "axes": axes, "repeats": []}
            trials[key]["repeats"].append(throughput)
    for trial in trials.values():
        trial["throughput"] = typical(trial["repeats"])
    return list(trials.values())


def has_any(engine: sa.Engine) -> bool:
    """Return whether any table was taken in."""
    statement = (
        sa.select(ReferenceRow.id).where(ReferenceRow.origin == ReferenceKind.TABLE).limit(1)
    )
    with streamed(engine, statement) as (_, rows):
        return next(rows, None) is not None


def is_all(engine: sa.Engine) -> bool:
    """Return whether tables were taken in, and no attempt of our own counts."""
    return has_any(engine) and not num_attempts(engine)


def instead(engine: sa.Engine) -> str:
    """Say how to see numbers that were measured elsewhere; empty where attempts of our own count,
    or where there are no such numbers.
    """
    if not is_all(engine):
        return ""
    return f"{_ONLY}; show them with --origin elsewhere"


def shown_by(engine: sa.Engine) -> str:
    """Say the same to who asked a command that knows attempts alone: other commands show them."""
    if not is_all(engine):
        return ""
    tables = own_command(engine, "plots", "tables", "--origin", "elsewhere")
    rows = own_command(engine, "store", "reference", "list", "origin=table")
    return f"{_ONLY}; {tables} shows them, and {rows} their rows"


_ONLY = "only numbers that were measured elsewhere in it"


_Row = Mapping[str, Any]
_Holds = Callable[[_Row], bool]

_TEXTS = ("strategy", *(field.name for field in fields(Reference) if field.type == "str"))
_NUMBERS: Mapping[str, Callable[[Filter, str], float]] = {
    "batch_size": filter_values.whole,
    "hosts": filter_values.whole,
    "num_gpus": filter_values.whole,
    "throughput": filter_values.real,
}
FIELDS = (*_TEXTS, *_NUMBERS)

_ORDERS: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def chosen(references: Sequence[_Row], filters: Sequence[str]) -> list[int]:
    """Return the positions of the references for which all filters hold.

    Case does not matter, nor the `?` that marks what a source leaves in doubt. Raises StoreError
    for text that is no filter.
    """
    free = {name for reference in references for name in reference.get("axes", ())}
    named = [full_name(text) if _name(text) in free else text for text in filters]
    conditions = list(map(_condition, parsed(named)))
    positions = []
    for position, reference in enumerate(references):
        if all(holds(reference) for holds in conditions):
            positions.append(position)
    return positions


def full_name(text: str) -> str:
    """Return a filter whose name is no field as one of a free axis, which it may name without the
    prefix.
    """
    is_bare = _name(text) not in (*FIELDS, "")
    return f"{PREFIX}{text.lstrip()}" if is_bare else text


def _name(text: str) -> str:
    """Return the name that a filter begins with; empty where it has a prefix, or none."""
    name = re.match(r"\s*(\w+)(?!\.)\b", text)
    return name[1] if name else ""


def parsed(filters: Sequence[str]) -> list[Filter]:
    """Raises StoreError for text that is no filter, and for unknown names."""
    examples = dict.fromkeys(_TEXTS, "VALUE") | dict.fromkeys(_NUMBERS, "4")
    return parsed_with(filters, examples)


def _condition(asked: Filter) -> _Holds:
    """Compare numbers as numbers, and texts without case; a figure without a free axis is chosen by
    nothing but `!=`.
    """
    if asked.operator == "!=":
        equal = _condition(Filter(asked.name, "=", asked.value))
        return lambda reference: not equal(reference)
    read: Callable[[Filter, str], float] = filter_values.real
    comparable: Callable[[Any], Any] = _free_text
    if asked.name in _TEXTS:
        asked.check_operator(("=", "!=", "~"))
        comparable = _comparable
    elif asked.name in _NUMBERS:
        asked.check_operator(("=", "!=", *_ORDERS))
        read = _NUMBERS[asked.name]
    if asked.operator == "~":
        pattern = re.compile(filter_values.pattern(asked), re.IGNORECASE)
        return lambda reference: pattern.search(str(_value(reference, asked))) is not None
    if asked.operator == "=":
        texts = filter_values.several(asked)
        if asked.name in _NUMBERS:
            numbers = {read(asked, text) for text in texts}
            return lambda reference: _value(reference, asked) in numbers
        values = {comparable(text) for text in texts}
        return lambda reference: comparable(_value(reference, asked)) in values
    holds = _ORDERS[asked.operator]
    limit = read(asked, filter_values.single(asked))

    def condition(reference: _Row) -> bool:
        value = _value(reference, asked)
        return isinstance(value, int | float) and holds(value, limit)

    return condition


def _value(reference: _Row, asked: Filter) -> Any:
    if is_free(asked.name):
        return reference["axes"].get(name_in_records(asked.name), "")
    return reference[asked.name]


def _free_text(value: object) -> str | float:
    """Return 2.0 for 2, `2` and `2.0`, and text without case for all else."""
    text = str(value).casefold()
    try:
        number = float(text)
    except ValueError:
        return text
    return number if math.isfinite(number) else text


def _comparable(text: str) -> str:
    return text.casefold().rstrip("?")
