"""Says what the columns of a foreign table mean, by options of a person, and reads its rows."""

from __future__ import annotations

import fnmatch
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from scalemark.host.own_code import typed
from scalemark.readers.words import Role, item_of, role_of
from scalemark.records.free_axes import (
    PREFIX,
    WHEN,
    bare_name,
    day_of,
    free_axes,
    is_free,
    name_in_records,
)
from scalemark.records.measurement import ITEMS, STEPS
from scalemark.records.references import Reference, ReferenceKind, Rejected
from scalemark.records.trial import AXES
from scalemark.text.wording import listed, shortened
from store.errors import StoreError
from store.exchange.foreign_table import ForeignTable, shown
from store.exchange.written_numbers import Written, open_mark, read_number
from store.filters.selection import nearest

Row = Mapping[str, Any]

_WHOLE = ("num_gpus", "hosts", "batch_size", "global_batch_size")
_TIMES = {"step_s": 1.0, "step_ms": 1e-3}
_NUMBERS = ("throughput", *_TIMES, "items_per_step", *_WHOLE)
_AXES = ("model", "data", "variable_update", "all_reduce", "local_parameter_device", "precision")
_ABOUT = ("source", "citation", "hardware", "item", "evidence", "note")
FIELDS = (*_NUMBERS, *_AXES, *_ABOUT)
"""What a column may be mapped to."""

DEFAULTS: Mapping[str, Any] = {
    **dict.fromkeys(("hardware", "model"), "?"),
    **dict.fromkeys(("batch_size", "hosts")),
    **dict.fromkeys(("citation", "evidence", "note", *_AXES[1:]), ""),
}
_CALLED = {"strategy": "variable_update"}  # a strategy of others is no name of ours
_BESIDE_TRIAL = ("note", "evidence", "throughput", *_TIMES)  # do not tell trials apart
_MOST_NAMED = 12  # columns in a message
_OF_OUR_EXPORT = frozenset({"attempt_id", "trial_id"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """What a person says of the files of an import."""

    maps: Sequence[str] = ()  # COLUMN=NAME
    axes: Sequence[str] = ()  # COLUMN, or COLUMN=NAME
    constants: Mapping[str, str] = field(default_factory=dict)  # name -> value of all rows
    ignored: Sequence[str] = ()  # columns, or patterns with * and ?
    compare: str = ""  # the axis that plays the part of the strategy; empty: all of `axes` do
    decimal_comma: bool | None = None  # None: not said
    per_gpu: bool | None = None  # whether throughput is that of one GPU; None: not said
    read: str = ""  # the reader of logs, as of a sweep; empty: the best one

    @property
    def has_columns(self) -> bool:
        """Return whether something is said that only a table has."""
        return bool(self.maps or self.axes or self.ignored or self.compare)


NOTHING_SAID = ImportOptions()


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignColumns:
    """What each column of one table means. Methods raise ValueError, which names the column."""

    fields: Mapping[str, str] = field(default_factory=dict)  # name of ours -> column
    axes: Mapping[str, str] = field(default_factory=dict)  # free axis, without prefix -> column
    constants: Mapping[str, Any] = field(default_factory=dict)  # fields that all rows share
    constant_axes: Mapping[str, Any] = field(default_factory=dict)
    compare: str = ""
    decimal_comma: bool = False
    per_gpu: bool = False

    def reference(self, row: Row) -> Reference:
        """Return the figure of a row."""
        values = dict(self.constants)
        for name, column in self.fields.items():
            values[name] = self.value(name, f"column {shown(column)}", row[column])
        axes = dict(self.constant_axes)
        for name, column in self.axes.items():
            if not _is_missing(row[column]):
                axes[name] = self.axis_value(name, f"column {shown(column)}", row[column])
        self._set_throughput(values, row)
        self._set_batch_size(values)
        return Reference(axes=axes, compare=self.compare, **values)

    def value(self, name: str, where: str, cell: object) -> Any:
        """Return the value of a field; messages say `where` the cell is."""
        if name in _NUMBERS:
            return self._number(name, where, cell)
        return DEFAULTS.get(name) if _is_missing(cell) else _text(where, cell)

    def axis_value(self, name: str, where: str, cell: object) -> object:
        """Return the value of an axis; what text is a number, `free_axes` says."""
        if name == WHEN:
            try:
                day_of(cell)
            except ValueError as error:
                raise ValueError(
                    f"{where}: {error}; write it so, or call the axis otherwise"
                ) from None
        if isinstance(cell, Decimal):
            return float(cell)
        if isinstance(cell, int | float):
            return cell
        text = _text(where, cell)
        is_number = self.decimal_comma and re.fullmatch(r"-?\d+,\d+", text)
        return text.replace(",", ".") if is_number else text

    def _number(self, name: str, where: str, cell: object) -> float | int | None:
        if _is_missing(cell) and name in DEFAULTS:
            return None
        if cell in (None, ""):
            raise ValueError(f"{where} is empty; wanted {name}")
        written = self._written(cell)
        if written is None or not math.isfinite(written.amount):
            raise ValueError(f"{where}: {shown(cell)}; wanted a finite number")
        if name not in _WHOLE:
            if written.amount <= 0:
                raise ValueError(f"{where}: {shown(cell)}; wanted a number greater than 0")
            self._check_unit(name, where, cell, written)
            return written.amount
        if written.is_rounded:  # 64k may be 65,536
            raise ValueError(f"{where}: {shown(cell)}; wanted all its digits")
        if written.unit or written.amount != int(written.amount):
            raise ValueError(f"{where}: {shown(cell)}; wanted a whole number")
        return int(written.amount)

    def _written(self, cell: object) -> Written | None:
        if isinstance(cell, str):
            return read_number(cell, decimal_comma=self.decimal_comma)
        if isinstance(cell, int | float | Decimal) and not isinstance(cell, bool):
            return Written(amount=float(cell), is_rounded=False, unit="")
        return None

    def _check_unit(self, name: str, where: str, cell: object, written: Written) -> None:
        """Refuse a unit that says something else than the column."""
        if not written.unit:
            return
        rate = _role("", written.unit)
        if name != "throughput" or rate is None or rate.name not in ("throughput", "steps_per_s"):
            raise ValueError(f"{where}: {shown(cell)}; wanted a number of {name}")
        if rate.per_gpu and not self.per_gpu:
            raise ValueError(f"{where}: {shown(cell)}: of one GPU, which --per-gpu says")
        known = self.constants.get("item", ITEMS)
        if "item" not in self.fields and _item(rate) != known:
            raise ValueError(
                f"{where}: {shown(cell)} counts {_item(rate)}, and {known} are counted here; "
                f"wanted --item {_item(rate)}"
            )

    def _set_throughput(self, values: dict[str, Any], row: Row) -> None:
        """Make items per second of a time per step, and the rate of all GPUs of that of one."""
        items_per_step = values.pop("items_per_step", 1.0)
        for name, unit_s in _TIMES.items():
            if name in values:
                values["throughput"] = items_per_step / (values.pop(name) * unit_s)
        if self.per_gpu:
            values["throughput"] *= values["num_gpus"]

    def _set_batch_size(self, values: dict[str, Any]) -> None:
        whole = values.pop("global_batch_size", None)
        if whole is None:
            return
        num_gpus = values["num_gpus"]
        if whole % num_gpus:
            raise ValueError(
                f"global_batch_size={whole}: wanted a multiple of num_gpus={num_gpus}, whose GPUs "
                "share it evenly"
            )
        values["batch_size"] = whole // num_gpus


def understood(path: str, table: ForeignTable, said: ImportOptions) -> ForeignColumns:
    """Return the meaning of every column of the table at `path`. Raises StoreError for columns that
    are not there, not said, or said twice, and where what is needed is missing or in doubt.
    """
    try:
        if _OF_OUR_EXPORT.issubset(table.columns):
            raise ValueError(
                "a table, which is written for other programs; wanted a database, which "
                f"`{typed('store')} merge` adds"
            )
        meanings = _Understanding(path, table, said)
        return meanings.found()
    except ValueError as error:
        raise StoreError(f"{path}: {error}") from None


def constants_of(said: ImportOptions) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the fields and the free axes that all rows share. Raises ValueError."""
    constants: dict[str, Any] = {}
    axes: dict[str, Any] = {}
    item = said.constants.get("item", ITEMS)
    reader = ForeignColumns(decimal_comma=bool(said.decimal_comma), constants={"item": item})
    for given, value in said.constants.items():
        name = _CALLED.get(given, given)
        option = f"--set {shown(given)}={shown(value)}"
        if is_free(name):
            own = name_in_records(name)
            axes[own] = reader.axis_value(own, option, value)
        elif name in FIELDS:
            constants[name] = reader.value(name, option, value)
        else:
            raise ValueError(
                f"{option}: no name of a figure (an axis of your own is {PREFIX}{shown(name)}); "
                f"{nearest(name[:100], FIELDS)}"
            )
    free_axes(axes)
    return constants, axes


class _Understanding:
    """Finds the meaning of each column. All methods raise ValueError."""

    def __init__(self, path: str, table: ForeignTable, said: ImportOptions) -> None:
        self._path = path
        self._table = table
        self._columns = table.columns
        self._said = said
        self._fields: dict[str, str] = {}
        self._axes: dict[str, str] = {}
        self._used: dict[str, str] = {}  # column -> the option that uses it

    def found(self) -> ForeignColumns:
        for text in self._said.maps:
            self._map(text)
        for text in self._said.axes:
            self._add_axis(text)
        constants, constant_axes = constants_of(self._said)
        for name in (*constants, *constant_axes):
            column = self._fields.get(name) or self._axes.get(name)
            if column:
                raise ValueError(f"--set {name}=: column {shown(column)} has it; leave one out")
        by_pattern = self._ignore()
        # a column that is called as a field is that field
        for column in self._columns:
            name = _CALLED.get(column, column)
            is_field = name in FIELDS and name not in self._fields and name not in constants
            if is_field and column not in self._used:
                self._add_field(column, name, "its name")
        by_pattern -= self._used.keys()
        self._check_all_are_said(by_pattern, constants)
        self._check_needed(constants)
        self._check_decimals()
        self._check_repeats(by_pattern)
        rate = self._rate(constants)
        known = {*constants, *self._fields}
        defaults = {name: value for name, value in DEFAULTS.items() if name not in known}
        defaults["origin"] = (
            ReferenceKind.ADDED if "citation" in known else ReferenceKind.TABLE
        ).value
        if "source" not in known:
            defaults["source"] = Path(self._path).name
        if "item" not in known:
            defaults["item"] = (rate and _item(rate)) or ITEMS
            if _TIMES.keys() & known:
                defaults["item"] = ITEMS if "items_per_step" in known else STEPS
        return ForeignColumns(
            fields=self._fields,
            axes=self._axes,
            constants={**defaults, **constants},
            constant_axes=constant_axes,
            compare=self._compare(constant_axes),
            decimal_comma=bool(self._said.decimal_comma),
            per_gpu=bool(self._said.per_gpu),
        )

    def _map(self, text: str) -> None:
        column, sign, name = text.rpartition("=")
        option = f"--map {shown(text)}"
        if not sign or not column or not name:
            raise ValueError(f"{option}: wanted COLUMN=NAME, as img_s=throughput")
        self._check_column(column, option)
        name = _CALLED.get(name, name)
        if name not in FIELDS and (bare_name(name) in AXES or is_free(name)):
            own = name_in_records(name)
            raise ValueError(
                f"{option}: figures have no {name}; make it an axis, with --axis "
                f"{shown(column)}={own}"
            )
        if name not in FIELDS:
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
        if name in (*_AXES, *_WHOLE):  # of figures already
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
        near = nearest(name[:100], names)
        return near if near.startswith("did") else nearest("", shortened(names, _MOST_NAMED))

    def _ignore(self) -> set[str]:
        """Take the columns that are ignored by name; return those that a pattern ignores."""
        by_pattern: set[str] = set()
        for pattern in self._said.ignored:
            if pattern in self._columns:
                self._take(pattern, f"--ignore {shown(pattern)}")
            elif "*" in pattern or "?" in pattern:
                by_pattern |= set(fnmatch.filter(self._columns, pattern))
            else:
                self._check_column(pattern, f"--ignore {shown(pattern)}")
        return by_pattern

    def _check_all_are_said(self, by_pattern: set[str], constants: Mapping[str, Any]) -> None:
        left = [name for name in self._columns if name not in {*self._used, *by_pattern}]
        if not left:
            return
        is_are = "this column is" if len(left) == 1 else "these columns are"
        names = ", ".join(shortened([shown(name) for name in left], _MOST_NAMED))
        missing = [f"--map COLUMN={name} ({what}), " for name, what in self._missing(constants)]
        dates = "" if WHEN in self._axes else f", --axis COLUMN={WHEN} for dates"
        raise ValueError(
            f"{is_are} neither mapped nor an axis: {names}. Rows that agree in all axes count as "
            f"repeats of one trial: add {''.join(missing)}--axis COLUMN for what was varied"
            f"{dates}, and --ignore COLUMN for the rest (--ignore '*' for all that is left)"
        )

    def _missing(self, constants: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        known = {*constants, *self._fields}
        if not known & {"throughput", *_TIMES}:
            yield "throughput", "items per second"
        if "num_gpus" not in known:
            yield "num_gpus", "the GPUs of a row"

    def _check_needed(self, constants: Mapping[str, Any]) -> None:
        for name, what in self._missing(constants):
            also = " or --set num_gpus=1" if name == "num_gpus" else f", or {listed([*_TIMES])}"
            raise ValueError(
                f"no column is {name} ({what}): say which, with --map COLUMN={name}{also}; "
                f"{self._nearest(name)}"
            )
        known = {*constants, *self._fields}
        for pair in (("throughput", *_TIMES), ("batch_size", "global_batch_size")):
            if len(known.intersection(pair)) > 1:
                raise ValueError(f"{listed(sorted(known.intersection(pair)))}: wanted one of them")
        if "items_per_step" in known and not known & _TIMES.keys():
            raise ValueError(f"items_per_step: no column is {' or '.join(_TIMES)}")
        if _TIMES.keys() & known and "items_per_step" not in known and constants.get("item"):
            raise ValueError(
                f"times of steps, and no {constants['item']} of a step: say them with --set "
                "items_per_step=NUMBER or a column, or leave --item out for steps/s"
            )

    def _rate(self, constants: Mapping[str, Any]) -> Role | None:
        """Return what the name of the column of throughput says; refuse it where that is no rate
        of all GPUs.
        """
        column = self._fields.get("throughput", "")
        rate = _role(column) if column != "throughput" else None
        batch = self._fields.get("batch_size", "")
        if re.search("global|total", batch, re.IGNORECASE):
            raise ValueError(
                f"column {shown(batch)}: batch_size is that of one GPU; wanted --map "
                f"{shown(batch)}=global_batch_size"
            )
        if rate is None:
            return None
        if rate.name in _TIMES:
            raise ValueError(
                f"column {shown(column)}: a time per step, and no throughput; wanted --map "
                f"{shown(column)}={rate.name}"
            )
        if rate.per_gpu and self._said.per_gpu is None:
            raise ValueError(
                f"column {shown(column)}: of one GPU or of all: say it with --per-gpu or --all-gpus"
            )
        return rate

    def _check_decimals(self) -> None:
        """Refuse numbers as 1,234 where nothing says which mark is the decimal one."""
        if self._said.decimal_comma is not None:
            return
        for name in _NUMBERS:
            if name not in self._fields:
                continue
            place = self._columns.index(self._fields[name])
            texts = [cells[place] for _, cells in self._table.rows if isinstance(cells[place], str)]
            with_comma = [text for text in texts if "," in text]
            doubtful = "" if self._table.knows_decimals else open_mark(texts)
            for text in with_comma:
                if not read_number(text) and read_number(text, decimal_comma=True):
                    doubtful = doubtful or text
            if doubtful:
                raise ValueError(
                    f"column {shown(self._fields[name])}: {shown(doubtful)}: is its mark that of "
                    "decimals or of thousands? say it with --decimal-comma or --decimal-point"
                )

    def _check_repeats(self, by_pattern: set[str]) -> None:
        """Refuse rows that would be repeats of one trial, and differ in what a pattern ignores."""
        told = [*self._axes.values()]
        told += [column for name, column in self._fields.items() if name not in _BESIDE_TRIAL]
        of_trial = [self._columns.index(column) for column in told]
        ignored = [place for place, name in enumerate(self._columns) if name in by_pattern]
        first: dict[tuple[str, ...], Sequence[Any]] = {}
        differing: set[int] = set()
        for _, cells in self._table.rows:
            trial = tuple(str(cells[place]) for place in of_trial)
            before = first.setdefault(trial, cells)
            differing.update(place for place in ignored if cells[place] != before[place])
        if differing:
            names = [shown(self._columns[place]) for place in sorted(differing)]
            by_name = " ".join(f"--ignore '{name}'" for name in shortened(names, _MOST_NAMED))
            raise ValueError(
                f"rows that agree in all axes differ in {listed(names)}, which a pattern ignores: "
                f"add --axis COLUMN for what was varied, and name the rest: {by_name}"
            )

    def _compare(self, constant_axes: Mapping[str, Any]) -> str:
        """Return the axis that plays the part of the strategy; empty where all do."""
        wanted = name_in_records(self._said.compare)
        known = [*self._axes, *constant_axes]
        if wanted and wanted not in known:
            there = nearest(wanted[:100], known) if known else "there is no free axis"
            raise ValueError(f"--compare {shown(wanted)}: no free axis of this table; {there}")
        return wanted


def figures(
    path: str, table: ForeignTable, meanings: ForeignColumns
) -> Iterator[tuple[str, Reference] | Rejected]:
    """Yield a figure per row, or why there is none.

    Rows that say the same are numbered: they are repeats. A cited figure counts once.
    """
    repeats: Counter[int] = Counter()
    yield from table.rejected
    for where, cells in table.rows:
        try:
            reference = meanings.reference(dict(zip(table.columns, cells, strict=True)))
        except ValueError as error:
            yield Rejected(where=where, reason=str(error))
            continue
        if reference.origin == ReferenceKind.TABLE:
            content = int(reference.key, 16)  # half the size of its text, for a million rows
            repeats[content] += 1
            if repeats[content] > 1:
                reference = replace(reference, repeat=repeats[content])
        yield where, reference
    if not table.rows and not table.rejected:
        yield Rejected(where=path, reason="a line of column names, and no row below it")


def _role(words: str, unit: str = "") -> Role | None:
    """Return what a number is by the words around it; None where it is no rate of training."""
    role = role_of(words, unit)
    if role is None or role.aside or role.name in ("item_s", "item_ms", "kitem_s"):
        return None
    return role


def _item(rate: Role) -> str:
    return STEPS if rate.name == "steps_per_s" else item_of(rate.item or ITEMS)


def _is_missing(cell: object) -> bool:
    """Return whether a row does not say it: other programs write NaN for what they lack."""
    return cell is None or cell == "" or (isinstance(cell, float) and math.isnan(cell))


def _text(where: str, cell: object) -> str:
    text = str(cell).lower() if isinstance(cell, bool) else str(cell)
    if any("\ud800" <= character <= "\udfff" for character in text):  # bytes that are no text
        raise ValueError(f"{where}: {shown(cell)}; not UTF-8: save the table as UTF-8")
    return text
