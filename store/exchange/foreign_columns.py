"""Says what the columns of a foreign table mean, by options of a person, and reads its rows, with
numbers as people write them: `5,762`, `29 911`, `2.84M`.
"""

from __future__ import annotations

import fnmatch
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

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
    name_of_record,
)
from scalemark.records.measurement import ITEMS, STEPS
from scalemark.records.references import Reference, ReferenceKind, Rejected
from scalemark.records.trial import AXES
from scalemark.text.untrusted import quoted
from scalemark.text.wording import listed, shortened
from store.errors import StoreError
from store.filters import nearest

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
_IGNORED = ""  # the meaning of a column that says nothing


_MOST_SHOWN = 80  # characters of a cell in a message


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignTable:
    """A table: texts of CSV and Markdown, typed values of Parquet, None for nothing."""

    columns: tuple[str, ...]
    rows: list[tuple[str, Sequence[Any]]] = field(default_factory=list)  # each with its place
    rejected: list[Rejected] = field(default_factory=list)
    # 1.234 is a number with decimals where commas part the cells, and may be 1234 elsewhere
    knows_decimals: bool = True


def shown(cell: object) -> str:
    """Return a cell for a message."""
    return quoted(str(cell), _MOST_SHOWN)


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


def understood(path: str, table: ForeignTable, said: ImportOptions) -> Meanings:
    """Return the meaning of every column of the table at `path`. Raises StoreError for columns that
    are not there, not said, or said twice, and where what is needed is missing or in doubt.
    """
    try:
        if {"attempt_id", "trial_id"}.issubset(table.columns):  # of our own export
            raise ValueError(
                "a table, which is written for other programs; wanted a database, which "
                f"`{typed('store')} merge` adds"
            )
        meanings = Meanings(table, said)
        meanings.check()
    except ValueError as error:
        raise StoreError(f"{path}: {error}") from None
    meanings.constants = {**DEFAULTS, "source": Path(path).name, **meanings.constants}
    return meanings


class Meanings:
    """The meaning of each column of one table. All methods raise ValueError."""

    def __init__(self, table: ForeignTable, said: ImportOptions) -> None:
        self._table, self._said = table, said
        self.columns: dict[str, str] = {}  # column -> field, full name of a free axis, or _IGNORED
        self._options: dict[str, str] = {}  # column -> the option that gave it its meaning
        for text in said.maps:
            self._map(text)
        for text in said.axes:
            self._add_axis(text)
        patterns = [pattern for pattern in said.ignored if self._is_pattern(pattern)]
        for column in said.ignored:
            if column not in patterns:
                self._add(column, _IGNORED, f"--ignore {shown(column)}")
        self.constants = constants_of(said)
        for column in table.columns:
            name = _CALLED.get(column, column)
            if name in FIELDS and name not in self.names and column not in self.columns:
                self._add(column, name, "its name")
        self.left: list[str] = [name for name in table.columns if name not in self.columns]
        self._by_pattern: set[str] = set()
        for pattern in patterns:
            self._by_pattern.update(fnmatch.filter(self.left, pattern))
        self.left = [name for name in self.left if name not in self._by_pattern]

    @property
    def names(self) -> set[str]:
        """Return the fields and axes that a column or an option says."""
        return {*self.constants_said, *self.columns.values()} - {_IGNORED}

    @property
    def constants_said(self) -> set[str]:
        return {_full_name(name) for name in self._said.constants}

    def column_of(self, name: str) -> str:
        """Return the column of a field or an axis; empty where none is."""
        for column, meaning in self.columns.items():
            if meaning == name:
                return column
        return ""

    def _is_pattern(self, text: str) -> bool:
        return text not in self._table.columns and ("*" in text or "?" in text)

    def _add(self, column: str, name: str, option: str) -> None:
        if column not in self._table.columns:
            raise ValueError(f"{option}: no such column; {self._nearest(column)}")
        if column in self.columns:
            used_by = self._options[column]
            raise ValueError(
                f"{option}: the column is used by {used_by} already; wanted one meaning"
            )
        other = self.column_of(name) if name != _IGNORED else ""
        if other:
            raise ValueError(
                f"{option}: {name} is column {shown(other)} already; wanted one column"
            )
        if name in self.constants_said and name != _IGNORED:
            raise ValueError(f"--set {name}=: column {shown(column)} has it; leave one out")
        self.columns[column] = name
        self._options[column] = option

    def _map(self, text: str) -> None:
        column, sign, name = text.rpartition("=")
        option = f"--map {shown(text)}"
        if not sign or not column or not name:
            raise ValueError(f"{option}: wanted COLUMN=NAME, as img_s=throughput")
        name = _CALLED.get(name, name)
        if name not in FIELDS and (bare_name(name) in AXES or is_free(name)):
            raise ValueError(
                f"{option}: figures have no {name}; make it an axis, with --axis "
                f"{shown(column)}={name_in_records(name)}"
            )
        if name not in FIELDS:
            raise ValueError(f"{option}: no name of a figure; {nearest(name[:100], FIELDS)}")
        self._add(column, name, option)

    def _add_axis(self, text: str) -> None:
        option = f"--axis {shown(text)}"
        column, name = text, text
        if text not in self._table.columns and "=" in text:
            column, _, name = text.rpartition("=")
        own = name_in_records(name)
        if own in (*_AXES, *_WHOLE):  # of figures already
            self._add(column, own, option)
            return
        if own in FIELDS:
            raise ValueError(f"{option}: {own} is no axis; --map {shown(column)}={own} takes it")
        try:
            free_axes({own: "x"})
        except ValueError as error:
            raise ValueError(f"{option}: {error}; name it, as --axis COLUMN=NAME") from None
        self._add(column, name_of_record(own), option)

    def _nearest(self, name: str) -> str:
        """End a message with the nearest column, or with the first ones."""
        names = [shown(column) for column in self._table.columns]
        near = nearest(name[:100], names)
        return near if near.startswith("did") else nearest("", shortened(names, _MOST_NAMED))

    def check(self) -> None:
        """Refuse columns without a meaning, fields that are missing or said twice, and doubts."""
        names = self.names
        self._check_needed(names)
        for same in (("throughput", *_TIMES), ("batch_size", "global_batch_size")):
            if len(names.intersection(same)) > 1:
                raise ValueError(f"{listed(sorted(names.intersection(same)))}: wanted one of them")
        is_timed = bool(names & _TIMES.keys())
        if "items_per_step" in names and not is_timed:
            raise ValueError(f"items_per_step: no column is {' or '.join(_TIMES)}")
        item = self.constants.get("item")
        if is_timed and "items_per_step" not in names and item:
            raise ValueError(
                f"times of steps, and no {item} of a step: say them with --set "
                "items_per_step=NUMBER or a column, or leave --set item=... out for steps/s"
            )
        compare = name_in_records(self._said.compare)
        axes = sorted(name_in_records(name) for name in names if is_free(name))
        if compare and compare not in axes:
            there = nearest(compare[:100], axes) if axes else "there is no free axis"
            raise ValueError(
                f"--compare {shown(self._said.compare)}: no free axis of this table; {there}"
            )
        rate = self._rate()
        kind = ReferenceKind.ADDED if "citation" in names else ReferenceKind.TABLE
        self.constants["origin"] = kind.value
        self.constants["compare"] = compare
        if "item" not in names:
            self.constants["item"] = _item(rate) if rate else ITEMS
            if is_timed and "items_per_step" not in names:
                self.constants["item"] = STEPS
        self._check_decimals()
        self._check_repeats()

    def _check_needed(self, names: set[str]) -> None:
        missing: dict[str, str] = {}
        if not names & {"throughput", *_TIMES}:
            missing["throughput"] = "items per second"
        if "num_gpus" not in names:
            missing["num_gpus"] = "the GPUs of a row"
        if self.left:
            is_are = "this column is" if len(self.left) == 1 else "these columns are"
            left = ", ".join(shortened([shown(name) for name in self.left], _MOST_NAMED))
            maps = [f"--map COLUMN={name} ({what}), " for name, what in missing.items()]
            dates = "" if f"{PREFIX}{WHEN}" in names else f", --axis COLUMN={WHEN} for dates"
            raise ValueError(
                f"{is_are} neither mapped nor an axis: {left}. Rows that agree in all axes count "
                f"as repeats of one trial: add {''.join(maps)}--axis COLUMN for what was varied"
                f"{dates}, and --ignore COLUMN for the rest (--ignore '*' for all that is left)"
            )
        for name, what in missing.items():
            also = " or --set num_gpus=1" if name == "num_gpus" else f", or {listed([*_TIMES])}"
            raise ValueError(
                f"no column is {name} ({what}): say which, with --map COLUMN={name}{also}; "
                f"{self._nearest(name)}"
            )

    def _rate(self) -> Role | None:
        """Return what the name of the column of throughput says; refuse it where that is no rate of
        all GPUs.
        """
        batch = self.column_of("batch_size")
        if re.search("global|total", batch, re.IGNORECASE):
            raise ValueError(
                f"column {shown(batch)}: batch_size is that of one GPU; wanted --map "
                f"{shown(batch)}=global_batch_size"
            )
        column = self.column_of("throughput")
        rate = _role(column) if column != "throughput" else None
        if rate is not None and rate.name in _TIMES:
            raise ValueError(
                f"column {shown(column)}: a time per step, and no throughput; wanted --map "
                f"{shown(column)}={rate.name}"
            )
        if rate is not None and rate.per_gpu and self._said.per_gpu is None:
            raise ValueError(
                f"column {shown(column)}: of one GPU or of all: say it with --per-gpu or --all-gpus"
            )
        return rate

    def _check_decimals(self) -> None:
        """Refuse numbers as 1,234 where nothing says which mark is the decimal one."""
        if self._said.decimal_comma is not None or _has_decimal_points(self._table):
            return
        for column, name in self.columns.items():
            if name not in _NUMBERS:
                continue
            place = self._table.columns.index(column)
            for _, cells in self._table.rows:
                cell = cells[place]
                if isinstance(cell, str) and _is_doubtful(cell, self._table):
                    raise ValueError(
                        f"column {shown(column)}: {shown(cell)}: is its mark that of decimals or "
                        "of thousands? say it with --decimal-comma or --decimal-point"
                    )

    def _check_repeats(self) -> None:
        """Refuse rows that would be repeats of one trial, and differ in what a pattern ignores."""
        of_trial, ignored = [], []
        for place, column in enumerate(self._table.columns):
            if column in self._by_pattern:
                ignored.append(place)
            elif self.columns[column] not in (*_BESIDE_TRIAL, _IGNORED):
                of_trial.append(place)
        first: dict[tuple[str, ...], Sequence[Any]] = {}
        differing: set[int] = set()
        for _, cells in self._table.rows:
            trial = tuple(str(cells[place]) for place in of_trial)
            before = first.setdefault(trial, cells)
            differing.update(place for place in ignored if cells[place] != before[place])
        if differing:
            names = [shown(self._table.columns[place]) for place in sorted(differing)]
            by_name = " ".join(f"--ignore '{name}'" for name in shortened(names, _MOST_NAMED))
            raise ValueError(
                f"rows that agree in all axes differ in {listed(names)}, which a pattern ignores: "
                f"add --axis COLUMN for what was varied, and name the rest: {by_name}"
            )

    def reference(self, row: Mapping[str, Any]) -> Reference:
        """Return the figure of a row."""
        reader = CellReader(said=self._said)
        values = dict(self.constants)
        for column, name in self.columns.items():
            is_axis = is_free(name)
            if name != _IGNORED and not (is_axis and _is_missing(row[column])):
                values[name] = reader.value(name, f"column {shown(column)}", row[column])
        axes = {name_in_records(name): values.pop(name) for name in [*values] if is_free(name)}
        items_per_step = values.pop("items_per_step", 1.0)
        for name, unit_s in _TIMES.items():
            if name in values:
                values["throughput"] = items_per_step / (values.pop(name) * unit_s)
        num_gpus = values["num_gpus"]
        if self._said.per_gpu:
            values["throughput"] *= num_gpus
        batch_of_all = values.pop("global_batch_size", None)
        if batch_of_all is not None:
            if batch_of_all % num_gpus:
                raise ValueError(
                    f"global_batch_size={batch_of_all}: wanted a multiple of num_gpus={num_gpus}, "
                    "whose GPUs share it evenly"
                )
            values["batch_size"] = batch_of_all // num_gpus
        return Reference(axes=axes, **values)


def constants_of(said: ImportOptions) -> dict[str, Any]:
    """Return the fields and the free axes, by their full names, that all rows share. Raises
    ValueError.
    """
    reader = CellReader(said=said)
    constants: dict[str, Any] = {}
    for given, value in said.constants.items():
        name = _full_name(given)
        option = f"--set {shown(given)}={shown(value)}"
        if name not in FIELDS and not is_free(name):
            raise ValueError(
                f"{option}: no name of a figure (an axis of your own is {PREFIX}{shown(name)}); "
                f"{nearest(name[:100], FIELDS)}"
            )
        constants[name] = reader.value(name, option, value)
    free_axes({name: value for name, value in constants.items() if is_free(name)})
    return constants


def _full_name(name: str) -> str:
    return _CALLED.get(name, name)


@dataclass(frozen=True, slots=True, kw_only=True)
class CellReader:
    """Reads cells. Methods raise ValueError, which says `where` the cell is."""

    said: ImportOptions

    def value(self, name: str, where: str, cell: object) -> Any:
        """Return the value of a field or a free axis."""
        if is_free(name):
            return self._axis(name, where, cell)
        if name in _NUMBERS:
            return self._number(name, where, cell)
        return DEFAULTS.get(name) if _is_missing(cell) else _text(where, cell)

    def _axis(self, name: str, where: str, cell: object) -> object:
        """Return the value of an axis; what text is a number, `free_axes` says."""
        if name == f"{PREFIX}{WHEN}":
            try:
                day_of(cell)
            except ValueError as error:
                raise ValueError(
                    f"{where}: {error}; write it so, or call the axis otherwise"
                ) from None
        if isinstance(cell, int | float):
            return cell
        text = _text(where, cell)
        is_number = self.said.decimal_comma and re.fullmatch(r"-?\d+,\d+", text)
        return text.replace(",", ".") if is_number else text

    def _number(self, name: str, where: str, cell: object) -> float | int | None:
        if _is_missing(cell) and name in DEFAULTS:
            return None
        if cell in (None, ""):
            raise ValueError(f"{where} is empty; wanted {name}")
        amount, is_rounded = math.nan, False
        if isinstance(cell, str):
            written = read_number(cell, decimal_comma=bool(self.said.decimal_comma))
            if written is not None:
                amount, is_rounded = written
        elif isinstance(cell, int | float) and not isinstance(cell, bool):
            amount = float(cell)
        wanted = ""
        if not math.isfinite(amount):
            wanted = "a finite number"
        elif name not in _WHOLE and amount <= 0:
            wanted = "a number greater than 0"
        elif name in _WHOLE and is_rounded:  # 64k may be 65,536
            wanted = "all its digits"
        elif name in _WHOLE and amount != int(amount):
            wanted = "a whole number"
        if wanted:
            raise ValueError(f"{where}: {shown(cell)}; wanted {wanted}")
        return int(amount) if name in _WHOLE else amount


def figures(path: str, table: ForeignTable, meanings: Meanings) -> Iterator[Reference | Rejected]:
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
        yield reference
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


_MULTIPLES = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "B": 1e9}
_SPACES = " \u00a0\u2009\u202f'\u2019"  # spaces, narrow ones, and apostrophes group digits too
_FORM = re.compile(rf"([+-]?)([\d.,{_SPACES}]*[\d.,])([eE][+-]?\d{{1,3}})?\s*([kKMGB]?)", re.ASCII)
_DIGITS = re.compile(r"\d*", re.ASCII)
_OF_THREE = re.compile(r"[1-9]\d{0,2}[.]\d{3}", re.ASCII)  # 1.234


class Written(NamedTuple):
    """A number of a cell."""

    amount: float
    is_rounded: bool  # by a multiple, as 64k, which may be 64,000 or 65,536


def read_number(text: str, *, decimal_comma: bool = False) -> Written | None:
    """Return the number of a cell; None where it is none. The other mark groups digits."""
    form = _FORM.fullmatch(text.strip())
    if form is None:
        return None
    sign, digits, exponent, multiple = form.groups()
    decimal, group = ",." if decimal_comma else ".,"
    whole, _, fraction = digits.partition(decimal)
    if not _DIGITS.fullmatch(fraction) or not (whole or fraction):
        return None
    if not _DIGITS.fullmatch(whole):
        grouped = rf"[1-9]\d{{0,2}}(?:([{group}{_SPACES}])\d{{3}})(?:\1\d{{3}})*"
        if not re.fullmatch(grouped, whole, re.ASCII):
            return None
        whole = re.sub(r"\D", "", whole)
    amount = float(f"{sign}{whole or '0'}.{fraction or '0'}{exponent or ''}")
    return Written(amount * _MULTIPLES[multiple], bool(multiple))


def _has_decimal_points(table: ForeignTable) -> bool:
    """Return whether a cell is a number with a point alone, as 82.4."""
    for _, cells in table.rows:
        for cell in cells:
            if not isinstance(cell, str) or "." not in cell or read_number(cell) is None:
                continue
            if read_number(cell, decimal_comma=True) is None:
                return True
    return False


def _is_doubtful(text: str, table: ForeignTable) -> bool:
    """Return whether a number means another one where a comma is the decimal mark."""
    other = read_number(text, decimal_comma=True)
    if other is None or other == read_number(text):
        return False
    return "," in text or (not table.knows_decimals and bool(_OF_THREE.fullmatch(text.strip())))
