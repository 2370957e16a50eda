"""Which published figures a command is about, as told by the same filters as of attempts, over the
fields of references.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from store.errors import StoreError
from store.filters import filter_values
from store.filters.selection import Filter, parsed_with

_Row = Mapping[str, Any]

_TEXTS = (
    *(
        "model",
        "hardware",
        "source",
        "data",
        "precision",
        "strategy",
        "variable_update",
        "all_reduce",
    ),
    *("local_parameter_device", "origin", "evidence", "note"),
)
_NUMBERS: Mapping[str, Callable[[Filter, str], float]] = {
    "batch_size": filter_values.whole,
    "num_gpus": filter_values.whole,
    "throughput": filter_values.real,
}
FIELDS = (*_TEXTS, *_NUMBERS)
"""What references can be filtered by."""

_ORDERS: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def chosen(references: Sequence[_Row], filters: Sequence[str]) -> list[int]:
    """Places of those for which all filters hold. Case does not matter, nor the `?` of what a
    source leaves in doubt.

    Raises StoreError for a filter that is none.
    """
    conditions = [
        _condition(one)
        for one in parsed_with(
            filters, dict.fromkeys(_TEXTS, "VALUE") | dict.fromkeys(_NUMBERS, "4")
        )
    ]
    return [
        place
        for place, reference in enumerate(references)
        if all(holds(reference) for holds in conditions)
    ]


def _condition(one: Filter) -> Callable[[_Row], bool]:
    if one.operator == "!=":
        equal = _condition(Filter(one.name, "=", one.value))
        return lambda reference: not equal(reference)
    wanted = ("=", "!=", "~") if one.name in _TEXTS else ("=", "!=", *_ORDERS)
    if one.operator not in wanted:
        raise StoreError(
            f"{one}: {one.operator} does not suit {one.name}; wanted one of {' '.join(wanted)}"
        )
    return _of_text(one) if one.name in _TEXTS else _of_number(one)


def _of_text(one: Filter) -> Callable[[_Row], bool]:
    if one.operator == "~":
        told = (
            re.escape(filter_values.pattern(one).casefold())
            .replace(r"\*", ".*")
            .replace(r"\?", ".")
        )
        pattern = re.compile(told, re.DOTALL)
        return lambda reference: pattern.fullmatch(reference[one.name].casefold()) is not None
    values = {value.casefold().rstrip("?") for value in filter_values.several(one, _MOST_VALUES)}
    return lambda reference: reference[one.name].casefold().rstrip("?") in values


def _of_number(one: Filter) -> Callable[[_Row], bool]:
    read = _NUMBERS[one.name]
    if one.operator == "=":
        values = {read(one, value) for value in filter_values.several(one, _MOST_VALUES)}
        return lambda reference: reference[one.name] in values
    compared, limit = _ORDERS[one.operator], read(one, filter_values.single(one))
    return lambda reference: (
        reference[one.name] is not None and compared(reference[one.name], limit)
    )


_MOST_VALUES = 10_000
