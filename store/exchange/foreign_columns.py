"""Reads the rows of a foreign table as figures, by what a person says of its columns."""

from __future__ import annotations

import fnmatch
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

from scalemark.host.own_code import typed
from scalemark.records.free_axes import PREFIX, free_axes
from scalemark.records.measurement import IMAGES
from scalemark.records.references import Origin, Reference, Rejected
from scalemark.records.trial import AXES
from scalemark.records.validation import canonical
from store.errors import StoreError
from store.filters.selection import nearest
from store.formats.foreign_table import ForeignTable, Row, shown

_WHOLE = ("num_gpus", "hosts", "batch_size")
_AXES = (
    *("model", "data", "variable_update", "all_reduce", "local_parameter_device", "precision"),
    *_WHOLE,
)
_ABOUT = ("source", "citation", "hardware", "item", "evidence", "note")
FIELDS = ("throughput", *_AXES, *_ABOUT)
"""What a column may be mapped to."""

_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?", re.ASCII)
_PLAIN_NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,15})(?:\.\d+)?", re.ASCII)  # an axis: 007 is a text
_MOST_NAMED = 12  # columns in a message
_OF_OUR_EXPORT = frozenset({"sweep_uid", "trial_id"})  # columns of its tables
_NEEDED = {
    "throughput": "items per second",
    "num_gpus": "the GPUs of a row",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnMeanings:
    """What a person says of the columns of a table, as options of a command line."""

    maps: Sequence[str] = ()  # COLUMN=NAME
    axes: Sequence[str] = ()  # COLUMN, or COLUMN=NAME
    constants: Mapping[str, str] = field(default_factory=dict)  # name -> value of all rows
    ignored: Sequence[str] = ()  # names with * and ?
    compare: str = ""  # the axis that plays the part of the strategy; empty: all of `axes` do
    decimal_comma: bool = False
    per_gpu: bool = False  # throughput is that of one GPU


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
                axes[name] = self.axis_value(_place(column), cell)
        if self.per_gpu:
            values["throughput"] *= values["num_gpus"]
        return Reference(axes=axes, compare=self.compare, **values)

    def value(self, name: str, where: str, cell: object) -> object:
        """Return the value of a field; messages say `where` the cell is."""
        if name in _NEEDED and cell in (None, ""):
            raise ValueError(f"{where} is empty; wanted {name}")
        if name == "throughput":
            return self._positive(where, cell)
        if _is_missing(cell):
            return _DEFAULTS[name]
        if name not in _WHOLE:
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

    def axis_value(self, where: str, cell: object) -> object:
        """Return a number where a text is one as people write it, else the text."""
        if isinstance(cell, Decimal):
            return float(cell)
        if isinstance(cell, int | float):
            return cell
        cell = text = _text(where, cell)
        if self.decimal_comma and "." not in text:
            text = text.replace(",", ".")
        if not _PLAIN_NUMBER.fullmatch(text):
            return cell
        return float(text) if "." in text else int(text)


def understood(path: str, columns: Sequence[str], said: ColumnMeanings) -> ForeignColumns:
    """Return the meaning of every column of the table at `path`. Raises StoreError for columns that
    are not there, not said, or said twice, and where a number of GPUs or a throughput is missing.
    """
    try:
        if _OF_OUR_EXPORT.issubset(columns):
            raise ValueError(
                "a table, which is written for other programs; wanted a database, or what "
                f"`{typed('store')} export --format jsonl` wrote"
            )
        return _Understanding(path, columns, said).found()
    except ValueError as error:
        raise StoreError(f"{path}: {error}") from None


class _Understanding:
    """Finds the meaning of each column. All methods raise ValueError."""

    def __init__(self, path: str, columns: Sequence[str], said: ColumnMeanings) -> None:
        self._path = path
        self._columns = columns
        self._said = said
        self._fields: dict[str, str] = {}
        self._axes: dict[str, str] = {}
        self._used: dict[str, str] = {}  # column -> the option that uses it

    def found(self) -> ForeignColumns:
        for text in self._said.maps:
            self._map(text)
        for text in self._said.axes:
            self._add_axis(text)
        constants, constant_axes = self._constants()
        ignored = self._ignored()
        # a column that is called as a field is that field
        for column in self._columns:
            is_free = column in FIELDS and column not in self._used and column not in constants
            if is_free and column not in self._fields:
                self._used[column] = "its name"
                self._fields[column] = column
        self._check_all_are_said(ignored)
        self._check_needed(constants)
        return ForeignColumns(
            fields=self._fields,
            axes=self._axes,
            constants=self._with_defaults(constants),
            constant_axes=constant_axes,
            compare=self._compare(constant_axes),
            decimal_comma=self._said.decimal_comma,
            per_gpu=self._said.per_gpu,
        )

    def _map(self, text: str) -> None:
        column, sign, name = text.rpartition("=")
        option = f"--map {shown(text)}"
        if not sign or not column or not name:
            raise ValueError(f"{option}: wanted COLUMN=NAME, as img_s=throughput")
        self._check_column(column, option)
        if name not in FIELDS:
            if name.removeprefix(PREFIX) in AXES or name.startswith(PREFIX):
                own = name.removeprefix(PREFIX)
                raise ValueError(
                    f"{option}: figures have no {name}; make it an axis, with --axis "
                    f"{shown(column)}={own}"
                )
            raise ValueError(f"{option}: no name of a figure; {nearest(name[:100], FIELDS)}")
        self._add_field(column, name, option)

    def _add_field(self, column: str, name: str, option: str) -> None:
        if name in self._fields:
            raise ValueError(
                f"{option}: {name} is column {shown(self._fields[name])} already; wanted one column"
            )
        self._take(column, option)
        self._fields[name] = column

    def _add_axis(self, text: str) -> None:
        option = f"--axis {shown(text)}"
        column, name = text, text
        if text not in self._columns and "=" in text:
            column, _, name = text.rpartition("=")
        self._check_column(column, option)
        name = name.removeprefix(PREFIX)
        if name in _AXES:  # of figures already
            self._add_field(column, name, option)
            return
        if name in FIELDS:
            raise ValueError(f"{option}: {name} is no axis; --map {shown(column)}={name} takes it")
        try:
            free_axes({name: "x"})
        except ValueError as error:
            suggested = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")[:40] or "name"
            raise ValueError(
                f"{option}: {error}; name it, as --axis {shown(column)}={suggested}"
            ) from None
        if name in self._axes:
            raise ValueError(
                f"{option}: the axis {name} is column {shown(self._axes[name])} already; wanted "
                "one column"
            )
        self._take(column, option)
        self._axes[name] = column

    def _check_column(self, column: str, option: str) -> None:
        if column not in self._columns:
            raise ValueError(f"{option}: no such column; {nearest(column[:100], self._shown())}")

    def _take(self, column: str, option: str) -> None:
        if column in self._used:
            raise ValueError(
                f"{option}: the column is used by {self._used[column]} already; wanted one meaning"
            )
        self._used[column] = option

    def _shown(self) -> list[str]:
        names = [shown(column) for column in self._columns]
        if len(names) > _MOST_NAMED:
            names = [*names[:_MOST_NAMED], f"{len(names) - _MOST_NAMED} more"]
        return names

    def _constants(self) -> tuple[dict[str, Any], dict[str, Any]]:
        constants: dict[str, Any] = {}
        axes: dict[str, Any] = {}
        reader = ForeignColumns(
            fields={},
            axes={},
            constants={},
            constant_axes={},
            compare="",
            decimal_comma=self._said.decimal_comma,
            per_gpu=False,
        )
        for name, value in self._said.constants.items():
            option = f"--set {shown(name)}={shown(value)}"
            if name.startswith(PREFIX):
                own = name.removeprefix(PREFIX)
                if own in self._axes:
                    raise ValueError(f"{option}: column {shown(self._axes[own])} has it")
                axes[own] = reader.axis_value(option, value)
                continue
            if name not in FIELDS:
                names = [*FIELDS, f"{PREFIX}{name[:100]}"]
                raise ValueError(f"{option}: no name of a figure; {nearest(name[:100], names)}")
            if name in self._fields:
                raise ValueError(
                    f"{option}: column {shown(self._fields[name])} has it; leave one out"
                )
            constants[name] = reader.value(name, option, value)
        free_axes(axes)
        return constants, axes

    def _ignored(self) -> set[str]:
        ignored: set[str] = set()
        for pattern in self._said.ignored:
            option = f"--ignore {shown(pattern)}"
            if pattern in self._columns:
                self._take(pattern, option)
                ignored.add(pattern)
            elif "*" in pattern or "?" in pattern:
                # what has a meaning keeps it
                matching = set(fnmatch.filter(self._columns, pattern)) - self._used.keys()
                ignored |= matching - set(FIELDS)
            else:
                self._check_column(pattern, option)
        return ignored

    def _check_all_are_said(self, ignored: set[str]) -> None:
        left = [one for one in self._columns if one not in self._used and one not in ignored]
        if not left:
            return
        names = [shown(one) for one in left[:_MOST_NAMED]]
        if len(left) > _MOST_NAMED:
            names.append(f"{len(left) - _MOST_NAMED} more")
        is_are = "this column is" if len(left) == 1 else "these columns are"
        raise ValueError(
            f"{is_are} neither mapped nor an axis: {', '.join(names)}. Rows that agree in all axes "
            "count as repeats of one trial: add --axis COLUMN for what was varied, and --ignore "
            "COLUMN for the rest (--ignore '*' for all that is left)"
        )

    def _check_needed(self, constants: Mapping[str, Any]) -> None:
        for name, what in _NEEDED.items():
            if name not in self._fields and name not in constants:
                near = nearest(name, self._shown())
                also = " or --set num_gpus=1" if name == "num_gpus" else ""
                raise ValueError(
                    f"no column is {name} ({what}): say which, with --map COLUMN={name}{also}; "
                    f"{near}"
                )

    def _with_defaults(self, constants: Mapping[str, Any]) -> dict[str, Any]:
        known = {*constants, *self._fields}
        found = {name: value for name, value in _DEFAULTS.items() if name not in known}
        is_cited = "citation" in known
        if "source" not in known:
            found["source"] = Path(self._path).name
        found |= {"origin": Origin.ADDED.value if is_cited else Origin.TABLE.value}
        return {**found, **constants}

    def _compare(self, constant_axes: Mapping[str, Any]) -> str:
        """Return the axis that plays the part of the strategy; empty where all do."""
        wanted = self._said.compare.removeprefix(PREFIX)
        known = [*self._axes, *constant_axes]
        if wanted and wanted not in known:
            there = nearest(wanted[:100], known) if known else "there is no free axis"
            raise ValueError(f"--compare {shown(wanted)}: no free axis of this table; {there}")
        return wanted


_DEFAULTS: Mapping[str, Any] = {
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
    "item": IMAGES,
}


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
    content = blake2b(canonical(found.values).encode(), digest_size=8).digest()
    number = int.from_bytes(content, "big")
    repeats[number] += 1
    return found if repeats[number] == 1 else replace(found, repeat=repeats[number])


@lru_cache(maxsize=1024)  # the columns of a table, for each of its rows
def _place(column: str) -> str:
    return f"column {shown(column)}"


def _is_missing(cell: object) -> bool:
    """Return whether a row does not say it: other programs write NaN for what they lack."""
    return cell is None or cell == "" or (isinstance(cell, float) and math.isnan(cell))


def _text(where: str, cell: object) -> str:
    text = str(cell).lower() if isinstance(cell, bool) else str(cell)
    if not text.isascii() and any(
        "\ud800" <= character <= "\udfff" for character in text
    ):  # bytes that are no text
        raise ValueError(f"{where}: {shown(cell)}; not UTF-8: save the table as UTF-8")
    return text
