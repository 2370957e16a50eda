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
from store.exchange.foreign_table import ForeignTable, open_mark, read_number, shown
from store.filters.selection import nearest

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


@dataclass(slots=True, kw_only=True)
class ForeignColumns:
    """What each column of one table means. Methods raise ValueError, which names the column."""

    fields: dict[str, str] = field(default_factory=dict)  # name of ours -> column
    axes: dict[str, str] = field(default_factory=dict)  # free axis, without prefix -> column
    constants: dict[str, Any] = field(default_factory=dict)  # fields that all rows share
    constant_axes: dict[str, Any] = field(default_factory=dict)
    compare: str = ""
    decimal_comma: bool = False
    per_gpu: bool = False

    @property
    def known(self) -> set[str]:
        """Return the fields that a column or an option says."""
        return {*self.constants, *self.fields}

    def reference(self, row: Mapping[str, Any]) -> Reference:
        """Return the figure of a row."""
        values = dict(self.constants)
        for name, column in self.fields.items():
            values[name] = self.value(name, f"column {shown(column)}", row[column])
        axes = dict(self.constant_axes)
        for name, column in self.axes.items():
            if not _is_missing(row[column]):
                axes[name] = self.axis_value(name, f"column {shown(column)}", row[column])
        items_per_step = values.pop("items_per_step", 1.0)
        for name, unit_s in _TIMES.items():
            if name in values:
                values["throughput"] = items_per_step / (values.pop(name) * unit_s)
        num_gpus = values["num_gpus"]
        if self.per_gpu:
            values["throughput"] *= num_gpus
        batch_of_all = values.pop("global_batch_size", None)
        if batch_of_all is not None:
            if batch_of_all % num_gpus:
                raise ValueError(
                    f"global_batch_size={batch_of_all}: wanted a multiple of num_gpus={num_gpus}, "
                    "whose GPUs share it evenly"
                )
            values["batch_size"] = batch_of_all // num_gpus
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
        amount, unit, is_rounded = math.nan, "", False
        if isinstance(cell, str):
            written = read_number(cell, decimal_comma=self.decimal_comma)
            if written is not None:
                amount, unit, is_rounded = written.amount, written.unit, written.is_rounded
        elif isinstance(cell, int | float | Decimal) and not isinstance(cell, bool):
            amount = float(cell)
        wanted = ""
        if not math.isfinite(amount):
            wanted = "a finite number"
        elif name not in _WHOLE and amount <= 0:
            wanted = "a number greater than 0"
        elif name in _WHOLE and is_rounded:  # 64k may be 65,536
            wanted = "all its digits"
        elif name in _WHOLE and (unit or amount != int(amount)):
            wanted = "a whole number"
        if wanted:
            raise ValueError(f"{where}: {shown(cell)}; wanted {wanted}")
        if name in _WHOLE:
            return int(amount)
        if unit:
            self._check_unit(name, f"{where}: {shown(cell)}", unit)
        return amount

    def _check_unit(self, name: str, what: str, unit: str) -> None:
        """Refuse a unit that says something else than the column."""
        rate = _role("", unit)
        if name != "throughput" or rate is None or rate.name not in ("throughput", "steps_per_s"):
            raise ValueError(f"{what}; wanted a number of {name}")
        if rate.per_gpu and not self.per_gpu:
            raise ValueError(f"{what}: of one GPU, which --per-gpu says")
        known = self.constants.get("item", ITEMS)
        if "item" not in self.fields and _item(rate) != known:
            raise ValueError(
                f"{what} counts {_item(rate)}, and {known} are counted here; wanted --item "
                f"{_item(rate)}"
            )


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
        columns = _Understanding(table, said)
        columns.assign()
        _check_needed(columns)
        _check_decimals(table, said, columns.meanings)
        _check_repeats(table, columns)
        _add_defaults(path, said, columns.meanings)
        return columns.meanings
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
    """Gives each column its meaning. All methods raise ValueError."""

    def __init__(self, table: ForeignTable, said: ImportOptions) -> None:
        self.columns = table.columns
        self.said = said
        self.meanings = ForeignColumns(
            decimal_comma=bool(said.decimal_comma), per_gpu=bool(said.per_gpu)
        )
        self.by_pattern: set[str] = set()  # columns that a pattern ignores
        self._used: dict[str, str] = {}  # column -> the option that uses it

    def assign(self) -> None:
        """Go through the options, then take columns that are called as a field."""
        meanings = self.meanings
        for text in self.said.maps:
            self._map(text)
        for text in self.said.axes:
            self._add_axis(text)
        meanings.constants, meanings.constant_axes = constants_of(self.said)
        for name in (*meanings.constants, *meanings.constant_axes):
            column = meanings.fields.get(name) or meanings.axes.get(name)
            if column:
                raise ValueError(f"--set {name}=: column {shown(column)} has it; leave one out")
        self._ignore()
        for column in self.columns:
            name = _CALLED.get(column, column)
            if name in FIELDS and name not in meanings.known and column not in self._used:
                self._add_field(column, name, "its name")
        self.by_pattern -= self._used.keys()
        compare = name_in_records(self.said.compare)
        axes = [*meanings.axes, *meanings.constant_axes]
        if compare and compare not in axes:
            there = nearest(compare[:100], axes) if axes else "there is no free axis"
            raise ValueError(f"--compare {shown(compare)}: no free axis of this table; {there}")
        meanings.compare = compare

    def left(self) -> list[str]:
        """Return the columns without a meaning."""
        return [name for name in self.columns if name not in {*self._used, *self.by_pattern}]

    def nearest(self, name: str) -> str:
        """End a message with the nearest column, or with the first ones."""
        names = [shown(column) for column in self.columns]
        near = nearest(name[:100], names)
        return near if near.startswith("did") else nearest("", shortened(names, _MOST_NAMED))

    def _map(self, text: str) -> None:
        column, sign, name = text.rpartition("=")
        option = f"--map {shown(text)}"
        if not sign or not column or not name:
            raise ValueError(f"{option}: wanted COLUMN=NAME, as img_s=throughput")
        self._check_column(column, option)
        name = _CALLED.get(name, name)
        if name not in FIELDS and (bare_name(name) in AXES or is_free(name)):
            raise ValueError(
                f"{option}: figures have no {name}; make it an axis, with --axis "
                f"{shown(column)}={name_in_records(name)}"
            )
        if name not in FIELDS:
            raise ValueError(f"{option}: no name of a figure; {nearest(name[:100], FIELDS)}")
        self._add_field(column, name, option)

    def _add_field(self, column: str, name: str, option: str) -> None:
        fields = self.meanings.fields
        if name in fields:
            raise ValueError(
                f"{option}: {name} is column {shown(fields[name])} already; wanted one column"
            )
        self._take(column, option)
        fields[name] = column

    def _add_axis(self, text: str) -> None:
        option = f"--axis {shown(text)}"
        column, name = text, text
        if text not in self.columns and "=" in text:
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
        axes = self.meanings.axes
        if name in axes:
            raise ValueError(
                f"{option}: the axis {name} is column {shown(axes[name])} already; wanted one "
                "column"
            )
        self._take(column, option)
        axes[name] = column

    def _ignore(self) -> None:
        for pattern in self.said.ignored:
            if pattern in self.columns:
                self._take(pattern, f"--ignore {shown(pattern)}")
            elif "*" in pattern or "?" in pattern:
                self.by_pattern |= set(fnmatch.filter(self.columns, pattern))
            else:
                self._check_column(pattern, f"--ignore {shown(pattern)}")

    def _check_column(self, column: str, option: str) -> None:
        if column not in self.columns:
            raise ValueError(f"{option}: no such column; {self.nearest(column)}")

    def _take(self, column: str, option: str) -> None:
        if column in self._used:
            raise ValueError(
                f"{option}: the column is used by {self._used[column]} already; wanted one meaning"
            )
        self._used[column] = option


def _check_needed(columns: _Understanding) -> None:
    """Refuse columns without a meaning, and fields that are missing or are said twice."""
    meanings = columns.meanings
    known = meanings.known
    missing: dict[str, str] = {}
    if not known & {"throughput", *_TIMES}:
        missing["throughput"] = "items per second"
    if "num_gpus" not in known:
        missing["num_gpus"] = "the GPUs of a row"
    if left := columns.left():
        is_are = "this column is" if len(left) == 1 else "these columns are"
        names = ", ".join(shortened([shown(name) for name in left], _MOST_NAMED))
        maps = [f"--map COLUMN={name} ({what}), " for name, what in missing.items()]
        dates = "" if WHEN in meanings.axes else f", --axis COLUMN={WHEN} for dates"
        raise ValueError(
            f"{is_are} neither mapped nor an axis: {names}. Rows that agree in all axes count as "
            f"repeats of one trial: add {''.join(maps)}--axis COLUMN for what was varied"
            f"{dates}, and --ignore COLUMN for the rest (--ignore '*' for all that is left)"
        )
    for name, what in missing.items():
        also = " or --set num_gpus=1" if name == "num_gpus" else f", or {listed([*_TIMES])}"
        raise ValueError(
            f"no column is {name} ({what}): say which, with --map COLUMN={name}{also}; "
            f"{columns.nearest(name)}"
        )
    for same in (("throughput", *_TIMES), ("batch_size", "global_batch_size")):
        if len(known.intersection(same)) > 1:
            raise ValueError(f"{listed(sorted(known.intersection(same)))}: wanted one of them")
    item = meanings.constants.get("item")
    if "items_per_step" in known and not known & _TIMES.keys():
        raise ValueError(f"items_per_step: no column is {' or '.join(_TIMES)}")
    if _TIMES.keys() & known and "items_per_step" not in known and item:
        raise ValueError(
            f"times of steps, and no {item} of a step: say them with --set items_per_step=NUMBER "
            "or a column, or leave --item out for steps/s"
        )


def _add_defaults(path: str, said: ImportOptions, meanings: ForeignColumns) -> None:
    """Say what no column says; the name of the column of throughput may say the item."""
    known = meanings.known
    rate = _rate(said, meanings)
    kind = ReferenceKind.ADDED if "citation" in known else ReferenceKind.TABLE
    item = _item(rate) if rate else ITEMS
    if _TIMES.keys() & known:
        item = ITEMS if "items_per_step" in known else STEPS
    defaults = {**DEFAULTS, "source": Path(path).name, "item": item}
    for name, value in defaults.items():
        if name not in known:
            meanings.constants[name] = value
    meanings.constants["origin"] = kind.value


def _rate(said: ImportOptions, meanings: ForeignColumns) -> Role | None:
    """Return what the name of the column of throughput says; refuse it where that is no rate of all
    GPUs.
    """
    batch = meanings.fields.get("batch_size", "")
    if re.search("global|total", batch, re.IGNORECASE):
        raise ValueError(
            f"column {shown(batch)}: batch_size is that of one GPU; wanted --map "
            f"{shown(batch)}=global_batch_size"
        )
    column = meanings.fields.get("throughput", "")
    rate = _role(column) if column != "throughput" else None
    if rate is not None and rate.name in _TIMES:
        raise ValueError(
            f"column {shown(column)}: a time per step, and no throughput; wanted --map "
            f"{shown(column)}={rate.name}"
        )
    if rate is not None and rate.per_gpu and said.per_gpu is None:
        raise ValueError(
            f"column {shown(column)}: of one GPU or of all: say it with --per-gpu or --all-gpus"
        )
    return rate


def _check_decimals(table: ForeignTable, said: ImportOptions, meanings: ForeignColumns) -> None:
    """Refuse numbers as 1,234 where nothing says which mark is the decimal one."""
    if said.decimal_comma is not None:
        return
    for name in _NUMBERS:
        if name not in meanings.fields:
            continue
        place = table.columns.index(meanings.fields[name])
        texts = [cells[place] for _, cells in table.rows if isinstance(cells[place], str)]
        doubtful = "" if table.knows_decimals else open_mark(texts)
        for text in texts:
            has_decimal_comma = "," in text and not read_number(text)
            if not doubtful and has_decimal_comma and read_number(text, decimal_comma=True):
                doubtful = text
        if doubtful:
            raise ValueError(
                f"column {shown(meanings.fields[name])}: {shown(doubtful)}: is its mark that of "
                "decimals or of thousands? say it with --decimal-comma or --decimal-point"
            )


def _check_repeats(table: ForeignTable, columns: _Understanding) -> None:
    """Refuse rows that would be repeats of one trial, and differ in what a pattern ignores."""
    told = [*columns.meanings.axes.values()]
    told += [name for key, name in columns.meanings.fields.items() if key not in _BESIDE_TRIAL]
    of_trial = [table.columns.index(name) for name in told]
    ignored = [place for place, name in enumerate(table.columns) if name in columns.by_pattern]
    first: dict[tuple[str, ...], Sequence[Any]] = {}
    differing: set[int] = set()
    for _, cells in table.rows:
        trial = tuple(str(cells[place]) for place in of_trial)
        before = first.setdefault(trial, cells)
        differing.update(place for place in ignored if cells[place] != before[place])
    if differing:
        names = [shown(table.columns[place]) for place in sorted(differing)]
        by_name = " ".join(f"--ignore '{name}'" for name in shortened(names, _MOST_NAMED))
        raise ValueError(
            f"rows that agree in all axes differ in {listed(names)}, which a pattern ignores: "
            f"add --axis COLUMN for what was varied, and name the rest: {by_name}"
        )


def figures(
    path: str, table: ForeignTable, meanings: ForeignColumns
) -> Iterator[Reference | Rejected]:
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
