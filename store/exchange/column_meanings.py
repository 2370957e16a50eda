"""Finds the meaning of each column of a foreign table, by what a person says of them."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scalemark.host.own_code import typed
from scalemark.records.free_axes import PREFIX, bare_name, free_axes, is_free, name_in_records
from scalemark.records.references import Origin
from scalemark.records.trial import AXES
from scalemark.records.when import WHEN
from store.errors import StoreError
from store.exchange.foreign_columns import DEFAULTS, NEEDED, WHOLE, ForeignColumns
from store.filters.selection import nearest
from store.formats.foreign_table import shown

_AXES = (
    *("model", "data", "variable_update", "all_reduce", "local_parameter_device", "precision"),
    *WHOLE,
)
_ABOUT = ("source", "citation", "hardware", "item", "evidence", "note")
FIELDS = ("throughput", *_AXES, *_ABOUT)
"""What a column may be mapped to."""

_CALLED = {"strategy": "variable_update"}
"""Other names of a field: a strategy of others is no name of ours."""

_MOST_NAMED = 12  # columns in a message
_OF_OUR_EXPORT = frozenset({"sweep_uid", "trial_id"})  # columns of its tables


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
        for column, name in _CALLED.items():
            is_free = column in self._columns and column not in (*self._used, *ignored)
            if is_free and name not in self._fields and name not in constants:
                self._add_field(column, name, "its name")
        self._check_all_are_said(ignored, constants)
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
        name = _CALLED.get(name, name)
        if name not in FIELDS:
            if bare_name(name) in AXES or is_free(name):
                own = name_in_records(name)
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
        name = name_in_records(name)
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
            raise ValueError(f"{option}: no such column; {self._nearest(column)}")

    def _take(self, column: str, option: str) -> None:
        if column in self._used:
            raise ValueError(
                f"{option}: the column is used by {self._used[column]} already; wanted one meaning"
            )
        self._used[column] = option

    def _nearest(self, name: str) -> str:
        """End a message with the nearest column, or with the first ones."""
        names = [shown(column) for column in self._columns]
        found = nearest(name[:100], names)
        if found.startswith("there are") and len(names) > _MOST_NAMED:
            more = f"{len(names) - _MOST_NAMED} more"
            return f"there are {', '.join([*names[:_MOST_NAMED], more])}"
        return found

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
            if is_free(name):
                own = name_in_records(name)
                if own in self._axes:
                    raise ValueError(f"{option}: column {shown(self._axes[own])} has it")
                axes[own] = reader.axis_value(own, option, value)
                continue
            if name not in FIELDS:
                raise ValueError(
                    f"{option}: no name of a figure (an axis of your own is "
                    f"{PREFIX}{shown(name)}); {nearest(name[:100], FIELDS)}"
                )
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
                ignored |= matching - {*FIELDS, *_CALLED}
            else:
                self._check_column(pattern, option)
        return ignored

    def _check_all_are_said(self, ignored: set[str], constants: Mapping[str, Any]) -> None:
        left = [one for one in self._columns if one not in self._used and one not in ignored]
        if not left:
            return
        names = [shown(one) for one in left[:_MOST_NAMED]]
        if len(left) > _MOST_NAMED:
            names.append(f"{len(left) - _MOST_NAMED} more")
        is_are = "this column is" if len(left) == 1 else "these columns are"
        needed = [
            f"--map COLUMN={name} ({what}), "
            for name, what in NEEDED.items()
            if name not in self._fields and name not in constants
        ]
        dates = "" if WHEN in self._axes else f", --axis COLUMN={WHEN} for dates"
        raise ValueError(
            f"{is_are} neither mapped nor an axis: {', '.join(names)}. Rows that agree in all axes "
            f"count as repeats of one trial: add {''.join(needed)}--axis COLUMN for what was "
            f"varied{dates}, and --ignore COLUMN for the rest (--ignore '*' for all that is left)"
        )

    def _check_needed(self, constants: Mapping[str, Any]) -> None:
        for name, what in NEEDED.items():
            if name not in self._fields and name not in constants:
                near = self._nearest(name)
                also = " or --set num_gpus=1" if name == "num_gpus" else ""
                raise ValueError(
                    f"no column is {name} ({what}): say which, with --map COLUMN={name}{also}; "
                    f"{near}"
                )

    def _with_defaults(self, constants: Mapping[str, Any]) -> dict[str, Any]:
        known = {*constants, *self._fields}
        found = {name: value for name, value in DEFAULTS.items() if name not in known}
        is_cited = "citation" in known
        if "source" not in known:
            found["source"] = Path(self._path).name
        found |= {"origin": Origin.ADDED.value if is_cited else Origin.TABLE.value}
        return {**found, **constants}

    def _compare(self, constant_axes: Mapping[str, Any]) -> str:
        """Return the axis that plays the part of the strategy; empty where all do."""
        wanted = name_in_records(self._said.compare)
        known = [*self._axes, *constant_axes]
        if wanted and wanted not in known:
            there = nearest(wanted[:100], known) if known else "there is no free axis"
            raise ValueError(f"--compare {shown(wanted)}: no free axis of this table; {there}")
        return wanted
