"""Reads the rows of a statement as columns, straight from the driver's cursor into arrays whose
types the schema knows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum, auto
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pandas as pd
import sqlalchemy as sa

from store.schema import UtcDateTime

# rows: few enough to stay in the processor's cache while they are turned into columns
_AT_A_TIME = 1_000

_TIME = "datetime64[us]"

Array = npt.NDArray[Any]


class Kind(Enum):
    """Types that columns are read as."""

    WORDS = auto()  # category; few that are different
    WHOLE = auto()  # int64
    MAYBE_WHOLE = auto()  # Int64
    NUMBERS = auto()  # float64, NaN where there is none
    FLAGS = auto()  # bool
    MAYBE_FLAGS = auto()  # boolean
    TIMES = auto()  # datetime64[us, UTC]


def kind_of(column: Any, *, optional: bool = False) -> Kind:
    """Return the kind of a column of the schema; `optional`: its table may have no row."""
    maybe = optional or column.nullable
    if isinstance(column.type, sa.Boolean):
        return Kind.MAYBE_FLAGS if maybe else Kind.FLAGS
    if isinstance(column.type, sa.Integer):
        return Kind.MAYBE_WHOLE if maybe else Kind.WHOLE
    if isinstance(column.type, sa.Float):
        return Kind.NUMBERS
    return Kind.TIMES if isinstance(column.type, UtcDateTime) else Kind.WORDS


def fetch(
    connection: sa.Connection, statement: sa.Select[Any], kinds: Mapping[str, Kind]
) -> dict[str, Any]:
    """Return name -> array, in the statement's order: numpy's, or pandas' where numpy has no such
    type.
    """
    result = connection.execute(statement)
    names = list(result.keys())
    readers = [_READERS[kinds[name]]() for name in names]
    cursor = result.cursor
    assert cursor is not None
    while rows := cursor.fetchmany(_AT_A_TIME):
        for reader, cells in zip(readers, zip(*rows, strict=True), strict=True):
            reader.add(cells)
    result.close()
    return {name: reader.all() for name, reader in zip(names, readers, strict=True)}


def take(array: Any, places: Array) -> Any:
    """Return the element at each place; of a category the codes alone are moved."""
    if isinstance(array, pd.Categorical):
        return pd.Categorical.from_codes(array.codes.take(places), dtype=array.dtype)
    return array.take(places)


class _Reader(Protocol):
    def add(self, cells: Sequence[Any]) -> None: ...
    def all(self) -> Any: ...


class _Codes(dict[Any, int]):
    """Gives each new word the next number."""

    def __missing__(self, word: Any) -> int:
        self[word] = code = len(self) - 1
        return code


class Words:
    """Collects a category, with its words in the order in which they came."""

    def __init__(self) -> None:
        self._codes = _Codes({None: -1})
        self._parts: list[Array] = []

    def add(self, cells: Sequence[Any]) -> None:
        self._parts.append(np.fromiter(map(self._codes.__getitem__, cells), np.int32, len(cells)))

    def all(self) -> pd.Categorical:
        words = pd.Index([word for word in self._codes if word is not None], dtype=object)
        return pd.Categorical.from_codes(_joined(self._parts, np.int32), categories=words)


class _Typed:
    """Collects a column of one of numpy's types; `finish` makes more of it."""

    def __init__(self, dtype: Any, finish: Callable[[Array], Any] = lambda array: array) -> None:
        self._dtype, self._finish = dtype, finish
        self._parts: list[Array] = []

    def add(self, cells: Sequence[Any]) -> None:
        if self._dtype is _TIME:  # of texts on SQLite, of datetimes on PostgreSQL
            self._parts.append(np.array(cells, _TIME))
        else:
            self._parts.append(np.fromiter(cells, self._dtype, len(cells)))  # None is NaN

    def all(self) -> Any:
        return self._finish(_joined(self._parts, self._dtype))


def _joined(parts: Sequence[Array], dtype: Any) -> Array:
    return np.concatenate(parts) if parts else np.empty(0, dtype)


def _maybe_whole(numbers: Array) -> pd.arrays.IntegerArray:
    """Convert floats, which hold whole numbers exactly up to 2**53: bytes of any memory."""
    missing = np.isnan(numbers)
    return pd.arrays.IntegerArray(np.where(missing, 0, numbers).astype(np.int64), missing)


def _maybe_flags(numbers: Array) -> pd.arrays.BooleanArray:
    missing = np.isnan(numbers)
    return pd.arrays.BooleanArray(np.where(missing, 0, numbers).astype(bool), missing)


def _in_utc(times: Array) -> Any:
    return pd.DatetimeIndex(times).tz_localize("UTC").array


_READERS: Mapping[Kind, Callable[[], _Reader]] = {
    Kind.WORDS: Words,
    Kind.WHOLE: lambda: _Typed(np.int64),
    Kind.MAYBE_WHOLE: lambda: _Typed(np.float64, _maybe_whole),
    Kind.NUMBERS: lambda: _Typed(np.float64),
    Kind.FLAGS: lambda: _Typed(np.bool_),
    Kind.MAYBE_FLAGS: lambda: _Typed(np.float64, _maybe_flags),
    Kind.TIMES: lambda: _Typed(_TIME, _in_utc),
}
