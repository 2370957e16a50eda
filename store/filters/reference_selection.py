"""Filters of published figures: the same form as those of attempts, over the fields of
references."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from scalemark.records.free_axes import PREFIX, is_free, name_in_records
from scalemark.records.references import Reference
from store.filters import filter_values
from store.filters.filter_values import Filter
from store.filters.selection import parsed_with

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
    conditions = [_condition(one) for one in parsed(named)]
    return [
        position
        for position, reference in enumerate(references)
        if all(holds(reference) for holds in conditions)
    ]


def full_name(text: str) -> str:
    """Return a filter whose name is no field as one of a free axis, which it may name without the
    prefix.
    """
    is_bare = _name(text) not in (*FIELDS, "")
    return f"{PREFIX}{text.lstrip()}" if is_bare else text


def _name(text: str) -> str:
    """Return the name that a filter begins with; empty where it has a prefix, or none."""
    found = re.match(r"\s*(\w+)(?!\.)\b", text)
    return found[1] if found else ""


def parsed(filters: Sequence[str]) -> list[Filter]:
    """Raises StoreError for text that is no filter, and for unknown names."""
    examples = dict.fromkeys(_TEXTS, "VALUE") | dict.fromkeys(_NUMBERS, "4")
    return parsed_with(filters, examples)


def _condition(one: Filter) -> _Holds:
    if one.operator == "!=":
        equal = _condition(Filter(one.name, "=", one.value))
        return lambda reference: not equal(reference)
    if is_free(one.name):
        return _free_condition(one)
    if one.name in _TEXTS:
        one.check_operator(("=", "!=", "~"))
        return _text_condition(one)
    one.check_operator(("=", "!=", *_ORDERS))
    return _number_condition(one)


def _text_condition(one: Filter) -> _Holds:
    if one.operator == "~":
        pattern = re.compile(filter_values.pattern(one), re.IGNORECASE)
        return lambda reference: pattern.search(reference[one.name]) is not None
    values = {_comparable(value) for value in filter_values.several(one)}
    return lambda reference: _comparable(reference[one.name]) in values


def _free_condition(one: Filter) -> _Holds:
    """Compare numbers as numbers, and texts as texts; a figure without the axis is never chosen."""
    name = name_in_records(one.name)
    if one.operator == "=":
        values = {_free_text(value) for value in filter_values.several(one)}
        return lambda reference: _free_text(reference["axes"].get(name, "")) in values
    if one.operator == "~":
        pattern = re.compile(filter_values.pattern(one), re.IGNORECASE)
        return lambda reference: pattern.search(str(reference["axes"].get(name, ""))) is not None
    holds = _ORDERS[one.operator]
    limit = filter_values.real(one, filter_values.single(one))

    def condition(reference: _Row) -> bool:
        value = reference["axes"].get(name)
        return isinstance(value, int | float) and holds(value, limit)

    return condition


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


def _number_condition(one: Filter) -> _Holds:
    read = _NUMBERS[one.name]
    if one.operator == "=":
        values = {read(one, value) for value in filter_values.several(one)}
        return lambda reference: reference[one.name] in values
    holds = _ORDERS[one.operator]
    limit = read(one, filter_values.single(one))

    def condition(reference: _Row) -> bool:
        value = reference[one.name]
        return value is not None and holds(value, limit)

    return condition
