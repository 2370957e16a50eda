"""Reads the rows of a foreign table as figures, once it is known what its columns mean."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache
from typing import Any

from scalemark.records.measurement import ITEMS
from scalemark.records.references import Origin, Reference, Rejected
from scalemark.records.when import WHEN, day_of
from store.formats.foreign_table import ForeignTable, Row, shown

WHOLE = ("num_gpus", "hosts", "batch_size")
"""Fields that are whole numbers."""

NEEDED = {"throughput": "items per second", "num_gpus": "the GPUs of a row"}
"""Fields that every row must have, and what they are."""

DEFAULTS: Mapping[str, Any] = {
    "citation": "",
    "hardware": "?",
    "model": "?",
    "batch_size": None,
    "data": "",
    "variable_update": "",
    "all_reduce": "",
    "local_parameter_device": "",
    "precision": "",
    "hosts": None,
    "evidence": "",
    "note": "",
    "item": ITEMS,
}
"""What stands in a field that no column is."""

_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignColumns:
    """What each column of one table means."""

    fields: Mapping[str, str]  # name of ours -> column
    axes: Mapping[str, str]  # free axis, without prefix -> column
    constants: Mapping[str, Any]  # fields that all rows share
    constant_axes: Mapping[str, Any]
    compare: str
    decimal_comma: bool
    per_gpu: bool

    def reference(self, row: Row) -> Reference:
        """Raises ValueError, which names the column."""
        values = dict(self.constants)
        for name, column in self.fields.items():
            values[name] = self.value(name, _place(column), row.get(column))
        axes = dict(self.constant_axes)
        for name, column in self.axes.items():
            cell = row.get(column)
            if not _is_missing(cell):
                axes[name] = self.axis_value(name, _place(column), cell)
        if self.per_gpu:
            values["throughput"] *= values["num_gpus"]
        return Reference(axes=axes, compare=self.compare, **values)

    def value(self, name: str, where: str, cell: object) -> object:
        """Return the value of a field; messages say `where` the cell is."""
        if name in NEEDED and cell in (None, ""):
            raise ValueError(f"{where} is empty; wanted {name}")
        if name == "throughput":
            return self._positive(where, cell)
        if _is_missing(cell):
            return DEFAULTS[name]
        if name not in WHOLE:
            return _text(where, cell)
        number = self._number(where, cell)
        if number != int(number):
            raise ValueError(f"{where}: {shown(cell)}; wanted a whole number")
        return int(number)

    def _positive(self, where: str, cell: object) -> float:
        number = self._number(where, cell)
        if number <= 0:
            raise ValueError(f"{where}: {shown(cell)}; wanted a number greater than 0")
        return number

    def _number(self, where: str, cell: object) -> float:
        found = None
        if isinstance(cell, str):
            found = self._read(cell)
        elif isinstance(cell, int | float | Decimal) and not isinstance(cell, bool):
            found = float(cell)
        if found is None or not math.isfinite(found):
            how = self._how_of_comma() if isinstance(cell, str) and "," in cell else ""
            raise ValueError(f"{where}: {shown(cell)}; wanted a finite number{how}")
        return found

    def _how_of_comma(self) -> str:
        if self.decimal_comma:
            return " with a comma for the decimals, and digits that are not grouped"
        return ", digits not grouped; --decimal-comma reads 1234,5"

    def _read(self, text: str) -> float | None:
        if self.decimal_comma:
            if "." in text:
                return None
            text = text.replace(",", ".")
        return float(text) if _NUMBER.fullmatch(text) else None

    def axis_value(self, name: str, where: str, cell: object) -> object:
        """Return the value of an axis; what text is a number, `free_axes` says."""
        if name == WHEN:
            _check_date(where, cell)
        if isinstance(cell, Decimal):
            return float(cell)
        if isinstance(cell, int | float):
            return cell
        text = _text(where, cell)
        if self.decimal_comma and self._read(text) is not None:
            return text.replace(",", ".")
        return text


def figures(
    path: str, table: ForeignTable, meanings: ForeignColumns
) -> Iterator[tuple[str, Reference] | Rejected]:
    """Yield a figure per row, or why there is none.

    Rows that say the same are numbered: they are repeats. A cited figure counts once.
    """
    repeats: Counter[int] = Counter()
    is_empty = True
    for one in table.rows:
        is_empty = False
        if isinstance(one, Rejected):
            yield one
            continue
        where, row = one
        try:
            found = meanings.reference(row)
            if found.origin == Origin.TABLE:
                found = _numbered(found, repeats)
        except ValueError as error:
            yield Rejected(where=where, reason=str(error))
            continue
        yield where, found
    if is_empty:
        yield Rejected(where=path, reason="a line of column names, and no row below it")


def _numbered(found: Reference, repeats: Counter[int]) -> Reference:
    """Number a row among those of equal content, so that a longer table of the same rows brings
    only what is new.
    """
    content = int(found.key, 16)  # half the size of its text, for a million rows
    repeats[content] += 1
    return found if repeats[content] == 1 else replace(found, repeat=repeats[content])


@lru_cache(maxsize=1024)  # the columns of a table, for each of its rows
def _place(column: str) -> str:
    return f"column {shown(column)}"


def _is_missing(cell: object) -> bool:
    """Return whether a row does not say it: other programs write NaN for what they lack."""
    return cell is None or cell == "" or (isinstance(cell, float) and math.isnan(cell))


def _check_date(where: str, cell: object) -> None:
    try:
        day_of(cell)
    except ValueError as error:
        raise ValueError(f"{where}: {error}; write it so, or call the axis otherwise") from None


def _text(where: str, cell: object) -> str:
    text = str(cell).lower() if isinstance(cell, bool) else str(cell)
    if not text.isascii() and any(
        "\ud800" <= character <= "\udfff" for character in text
    ):  # bytes that are no text
        raise ValueError(f"{where}: {shown(cell)}; not UTF-8: save the table as UTF-8")
    return text
