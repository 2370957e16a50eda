"""Takes in tables of figures that others measured, as CSV, TSV or Markdown.

Options of a person say what columns mean; each row is added, known already, or rejected with its
line and the reason.
"""

import csv
import fnmatch
import io
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from scalemark.cli.terminal import Progress, silent
from scalemark.host.own_code import typed
from scalemark.readers.words import item_of, multiple_of, number, role_of
from scalemark.records.axes import (
    PREFIX,
    WHEN,
    day_of,
    free_axes,
    is_free,
    name_in_records,
    name_of_record,
)
from scalemark.records.measurement import ITEMS, STEPS
from scalemark.records.references import Reference, ReferenceKind, Rejected, published
from scalemark.run_folder import open_regular
from scalemark.text.untrusted import masked, quoted
from scalemark.text.wording import listed, shortened
from store.database import open_for_writing, reading, writing
from store.errors import StoreError
from store.filters import nearest
from store.reading.references import num_corrected
from store.rows import add_references
from store.schema import ReferenceRow

_WHOLE = ("num_gpus", "hosts", "batch_size", "global_batch_size")
_TIMES = {"step_s": 1.0, "step_ms": 1e-3}
_NUMBERS = ("throughput", *_TIMES, "items_per_step", *_WHOLE)
_OWN_AXES = ("data", "variable_update", "all_reduce", "local_parameter_device", "precision")
_ABOUT = ("source", "citation", "hardware", "item", "evidence", "note")
FIELDS = (*_NUMBERS, "model", *_OWN_AXES, *_ABOUT)
"""What a column may be mapped to."""

_DEFAULTS: Mapping[str, Any] = {
    **dict.fromkeys(("hardware", "model"), "?"),
    **dict.fromkeys(("batch_size", "hosts")),
    **dict.fromkeys(("citation", "evidence", "note", *_OWN_AXES), ""),
}
_CALLED = {"strategy": "variable_update"}  # a strategy of others is no name of ours
_BESIDE_TRIAL = ("note", "evidence", "throughput", *_TIMES)  # do not tell trials apart
_IGNORED = ""  # the meaning of a column that says nothing
_MOST_NAMED = 12  # columns in a message
_AT_ONCE = 5000  # figures in a transaction
_DELIMITERS = ",;\t|"
_OTHER_UNIT = re.compile(
    r"(?:/|\bper[ _]|_per_)\s?(?:ms|m|min|minutes?|h|hr|hours?|d|days?|epochs?)(?![a-z])"
    r"|\w*flops?(?![a-z])",
    re.IGNORECASE,
)
_NO_RATE = re.compile(
    r"\btime\b|\blatency\b|[(\[]\s*(?:ms|s|secs?|seconds|min|minutes|h|hours)\s*[)\]]"
    r"|speed[ _-]?up|efficiency|ratio\b|acceleration|\bscaling\b",
    re.IGNORECASE,
)
_OF_ONE_HOST = re.compile(r"(?:/|\bper[ _]|_per_)\s?(?:node|host|machine|server)", re.IGNORECASE)
_BEHIND_NUMBER = re.compile(  # a spread, a speed-up or the mark of a footnote
    r"(?<=\w)\s*(?:(?:±|\+/?-)\s*[\d.,]+[kMG]?%?|\(\d[\d.,]*\s*[x×%]?\)"
    r"|[*†‡§]+|<sup>\w+</sup>|\[[\da-f]\])$",
    re.IGNORECASE,
)
_UNIT_BEHIND = re.compile(  # as 1024 img/s
    r"(?<=[\dkMG ])[a-z]+ ?(?:/|per) ?s(?:ec(?:ond)?)?(?:/\w+)?$", re.IGNORECASE
)
_RULE = re.compile(r"[\s|:-]*-[\s|:-]*")  # of Markdown, below the names
_MARKDOWN = re.compile(r"\A\s*\||^[ \t]*\|.*\n[ \t]*\|(?=.*-)[ \t|:-]*$", re.MULTILINE)
_CELL_END = re.compile(r"(?<!\\)\|")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """What a person says of the tables of an import."""

    maps: Sequence[str] = ()  # COLUMN=NAME
    axes: Sequence[str] = ()  # COLUMN, or COLUMN=NAME
    constants: Mapping[str, str] = field(default_factory=dict)  # name -> value of all rows
    ignored: Sequence[str] = ()  # columns, or patterns with * and ?
    compare: str = ""  # the axis that plays the part of the strategy; empty: all of `axes` do
    decimal_comma: bool | None = None  # None: not said
    per_gpu: bool | None = None  # whether throughput is that of one GPU; None: not said


@dataclass(slots=True)
class Imported:
    """The figures that were added, known already, or rejected."""

    num_references: int = 0  # new ones
    num_elsewhere: int = 0  # new rows without a citation: measured elsewhere
    num_known: int = 0  # that were there already, or came twice
    # trials whose rows are new beside others that an earlier import of the same table brought
    num_corrected: int = 0
    rejected: list[Rejected] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignTable:
    """A table: texts, None for nothing."""

    path: str
    columns: tuple[str, ...]
    # each with its place
    rows: list[tuple[str, list[str | None]]] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)
    # where commas part the cells, 1.234 is a number with decimals; else it may be 1234
    is_comma_separated: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Meanings:
    """The meaning of the columns of a table."""

    columns: Mapping[str, str]  # column -> field, full name of a free axis, or _IGNORED
    multiple: float  # of throughput, as 1000 of `k images/s`
    constants: Mapping[str, Any]


def import_files(
    url: str,
    paths: Sequence[str],
    said: ImportOptions | None = None,
    progress: Progress = silent,
) -> Imported:
    """Add the figures of tables to the database at `url`.

    Raises StoreError for a file that is no table, or is not understood, before anything is added.
    """
    options = said or ImportOptions()
    added = Imported()
    of_tables = []
    for path in paths:
        table = read_table(path)
        of_tables.append(figures(table, understood(table, options), options, added.rejected))
    engine = open_for_writing(url)
    known = {reference.key for reference in published()}
    with reading(engine) as connection:
        known.update(connection.scalars(sa.select(ReferenceRow.key)))
        last_id = connection.scalar(sa.select(sa.func.max(ReferenceRow.id)))
    keys: set[str] = set()
    sources: set[str] = set()
    references = chain.from_iterable(of_tables)
    num = 0
    while piece := list(islice(references, _AT_ONCE)):
        num += len(piece)
        progress("records", num, 0)
        new: dict[str, Reference] = {}
        for reference in piece:
            key = reference.key  # a digest
            keys.add(key)
            sources.add(reference.source)
            if key not in known:
                new[key] = reference
        known.update(new)
        if new:
            with writing(engine) as connection:
                add_references(connection, new.values())
        num_cited = sum(figure.origin != ReferenceKind.TABLE for figure in new.values())
        added.num_references += num_cited
        added.num_elsewhere += len(new) - num_cited
        added.num_known += len(piece) - len(new)
    if added.num_elsewhere and last_id:
        with reading(engine) as connection:
            added.num_corrected = num_corrected(connection, sources, last_id, keys)
    engine.dispose()
    return added


def figures(
    table: ForeignTable, meanings: Meanings, said: ImportOptions, rejected: list[Rejected]
) -> Iterator[Reference]:
    """Yield a figure per row; add to `rejected` why there is none.

    Rows that say the same are numbered: they are repeats. A cited figure counts once.
    """
    repeats: Counter[int] = Counter()
    if said.decimal_comma is None and _has_decimal_points(table):
        said = replace(said, decimal_comma=False)
    rejected += table.rejected
    for where, cells in table.rows:
        try:
            row = dict(zip(table.columns, cells, strict=True))
            reference = _reference(row, meanings, said, table)
        except ValueError as error:
            rejected.append(Rejected(where=where, reason=str(error)))
            continue
        if reference.origin == ReferenceKind.TABLE:
            content = int(reference.key, 16)  # half the size of its text, for a million rows
            repeats[content] += 1
            if repeats[content] > 1:
                reference = replace(reference, repeat=repeats[content])
        yield reference
    if not table.rows and not table.rejected:
        reason = "a line of column names, and no row below it"
        rejected.append(Rejected(where=table.path, reason=reason))


def _reference(
    row: Mapping[str, Any], meanings: Meanings, said: ImportOptions, table: ForeignTable
) -> Reference:
    values = dict(meanings.constants)
    for column, name in meanings.columns.items():
        if name != _IGNORED and not (is_free(name) and not row[column]):
            where = f"column {shown(column)}"
            values[name] = _value(name, where, row[column], said, table.is_comma_separated)
    axes = {name_in_records(name): values.pop(name) for name in [*values] if is_free(name)}
    items_per_step = values.pop("items_per_step", 1.0)
    if "throughput" in values:
        values["throughput"] *= meanings.multiple
    for name, unit_s in _TIMES.items():
        if name in values:
            values["throughput"] = items_per_step / (values.pop(name) * unit_s)
    num_gpus = values["num_gpus"]
    if said.per_gpu:
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


def understood(table: ForeignTable, said: ImportOptions) -> Meanings:
    """Return the meaning of every column. Raises StoreError for columns that are not there, without
    a meaning, or with two, and where what is needed is missing or in doubt.
    """
    try:
        constants = _constants(said)
        columns, by_pattern = _columns(table, said, constants)
        names = {*constants, *columns.values()} - {_IGNORED}
        _check_needed(table, columns, names)
        _check_units(columns, said)
        rate_item, multiple = _unit_of_rate(_rated(table, columns), said)
        if "item" not in names:
            constants["item"] = rate_item or ITEMS
            if names & _TIMES.keys() and "items_per_step" not in names:
                constants["item"] = STEPS
        _check_repeats(table, columns, by_pattern)
        compare = name_in_records(said.compare)
        axes = sorted(name_in_records(name) for name in names if is_free(name))
        if compare and compare not in axes:
            there = "there is no free axis"
            if axes:
                there = nearest(compare[:100], axes)
            raise ValueError(
                f"--compare {shown(said.compare)}: no free axis of this table; {there}"
            )
    except ValueError as error:
        raise StoreError(f"{table.path}: {error}") from None
    kind = ReferenceKind.TABLE
    if "citation" in names:
        kind = ReferenceKind.ADDED
    source = {"source": Path(table.path).name, "origin": kind.value, "compare": compare}
    return Meanings(
        columns=columns, multiple=multiple, constants={**_DEFAULTS, **source, **constants}
    )


def _constants(said: ImportOptions) -> dict[str, Any]:
    """Return the fields and the free axes, by their full names, that all rows share."""
    constants: dict[str, Any] = {}
    for given, value in said.constants.items():
        name = _CALLED.get(given, given)
        option = f"--set {shown(given)}={shown(value)}"
        if name not in FIELDS and not is_free(name):
            raise ValueError(
                f"{option}: no name of a figure (an axis of your own is {PREFIX}{shown(name)}); "
                f"{nearest(name[:100], FIELDS)}"
            )
        constants[name] = _value(name, option, value, said, is_comma_separated=True)
    free_axes({name: value for name, value in constants.items() if is_free(name)})
    return constants


def _columns(
    table: ForeignTable, said: ImportOptions, constants: Mapping[str, Any]
) -> tuple[dict[str, str], list[str]]:
    """Return the meaning of each column, and the columns that a pattern ignores."""
    given = [_mapped(text) for text in said.maps]
    given += [_as_axis(text, table.columns) for text in said.axes]
    patterns = []
    for text in said.ignored:
        if text not in table.columns and re.search("[*?]", text):
            patterns.append(text)
        else:
            given.append((text, _IGNORED, f"--ignore {shown(text)}"))
    columns: dict[str, str] = {}
    for column, name, option in given:
        if column not in table.columns:
            raise ValueError(f"{option}: no such column; {nearest(column[:100], table.columns)}")
        if column in columns:
            raise ValueError(f"{option}: the column has a meaning already; wanted one")
        if name != _IGNORED and name in columns.values():
            raise ValueError(f"{option}: another column is {name} already; wanted one column")
        columns[column] = name
    for column in table.columns:
        name = _CALLED.get(column, column)
        if name in FIELDS and column not in columns and name not in columns.values():
            columns[column] = name
    for column, name in columns.items():
        if name in constants:
            raise ValueError(f"--set {name}=: column {shown(column)} has it; leave one out")
    by_pattern = []
    for column in table.columns:
        if column not in columns and any(fnmatch.fnmatch(column, pattern) for pattern in patterns):
            by_pattern.append(column)
            columns[column] = _IGNORED
    return columns, by_pattern


def _mapped(text: str) -> tuple[str, str, str]:
    """Return column, meaning and the option as text."""
    column, _, name = text.rpartition("=")
    option = f"--map {shown(text)}"
    if not column or not name:
        raise ValueError(f"{option}: wanted COLUMN=NAME, as img_s=throughput")
    name = _CALLED.get(name, name)
    if name not in FIELDS:
        near = nearest(name[:100], FIELDS)
        raise ValueError(f"{option}: no name of a figure; {near}; --axis makes a column an axis")
    return column, name, option


def _as_axis(text: str, columns: Sequence[str]) -> tuple[str, str, str]:
    option = f"--axis {shown(text)}"
    column, name = text, text
    if text not in columns and "=" in text:
        column, _, name = text.rpartition("=")
    own = name_in_records(name)
    if own in ("model", *_OWN_AXES, *_WHOLE):  # of figures already
        return column, own, option
    if own in FIELDS:
        raise ValueError(f"{option}: {own} is no axis; --map {shown(column)}={own} takes it")
    try:
        free_axes({own: "x"})
    except ValueError as error:
        raise ValueError(f"{option}: {error}; name it, as --axis COLUMN=NAME") from None
    return column, name_of_record(own), option


def _check_needed(table: ForeignTable, columns: Mapping[str, str], names: set[str]) -> None:
    """Refuse columns without a meaning, and figures that are missing or said twice."""
    missing: dict[str, str] = {}
    if not names & {"throughput", *_TIMES}:
        missing["throughput"] = "items per second"
    if "num_gpus" not in names:
        missing["num_gpus"] = "the GPUs of a row"
    left = [shown(column) for column in table.columns if column not in columns]
    if left:
        is_are = "this column is" if len(left) == 1 else "these columns are"
        maps = "".join(f"--map COLUMN={name} ({what}), " for name, what in missing.items())
        dates = "" if f"{PREFIX}{WHEN}" in names else f", --axis COLUMN={WHEN} for dates"
        raise ValueError(
            f"{is_are} neither mapped nor an axis: {', '.join(shortened(left, _MOST_NAMED))}. Rows "
            f"that agree in all axes count as repeats of one trial: add {maps}--axis COLUMN for "
            f"what was varied{dates}, and --ignore COLUMN for the rest (--ignore '*' for all that "
            "is left)"
        )
    for name, what in missing.items():
        also = " or --set num_gpus=1" if name == "num_gpus" else f", or {listed([*_TIMES])}"
        raise ValueError(
            f"no column is {name} ({what}): say which, with --map COLUMN={name}{also}; "
            f"{nearest(name, table.columns)}"
        )
    for same in (("throughput", *_TIMES), ("batch_size", "global_batch_size")):
        if len(names.intersection(same)) > 1:
            raise ValueError(f"{listed(sorted(names.intersection(same)))}: wanted one of them")
    is_timed = bool(names & _TIMES.keys())
    if "items_per_step" in names and not is_timed:
        raise ValueError(f"items_per_step: no column is {' or '.join(_TIMES)}")
    if is_timed and "item" in names and "items_per_step" not in names:
        raise ValueError(
            "times of steps, and no items of a step: say them with --set items_per_step=NUMBER or "
            "a column, or leave item out for steps/s"
        )


def _check_units(columns: Mapping[str, str], said: ImportOptions) -> None:
    """Refuse a batch or GPUs of others than they are mapped to, and times of what is no step."""
    column_of = {name: column for column, name in columns.items()}
    batch = shown(column_of.get("batch_size", ""))
    if re.search("global|total", batch, re.IGNORECASE):
        raise ValueError(
            f"column {batch}: batch_size is that of one GPU; wanted --map {batch}=global_batch_size"
        )
    gpus = shown(column_of.get("num_gpus", ""))
    if _OF_ONE_HOST.search(gpus):
        raise ValueError(
            f"column {gpus}: num_gpus is that of all hosts together; wanted a column with that"
        )
    for name in _TIMES.keys() & column_of.keys():
        other = _OTHER_UNIT.search(column_of[name])
        if other and "items_per_step" not in {*column_of, *said.constants}:
            raise ValueError(
                f"column {shown(column_of[name])}: {other[0].strip()}, which is no step; say how "
                "many items it has with --set items_per_step=NUMBER"
            )
        time = role_of(column_of[name], "")
        if time and time.name in _TIMES and time.name != name:
            shown_column = shown(column_of[name])
            raise ValueError(
                f"column {shown_column}: no {name}; wanted --map {shown_column}={time.name}"
            )


def _rated(table: ForeignTable, columns: Mapping[str, str]) -> str:
    """Return the name of the column of throughput, with the unit of all its cells, which is taken
    off them; the name alone where they differ.
    """
    for place, column in enumerate(table.columns):
        if columns.get(column) != "throughput":
            continue
        filled = [cells for _, cells in table.rows if cells[place]]
        units = set()
        for cells in filled:
            match = _UNIT_BEHIND.search(cells[place] or "")
            units.add(match[0] if match else "")
        unit = units.pop() if len(units) == 1 else ""
        for cells in filled:
            cells[place] = (cells[place] or "").removesuffix(unit).rstrip()
        return f"{column} {unit}".rstrip()
    return "throughput"


def _unit_of_rate(column: str, said: ImportOptions) -> tuple[str, float]:
    """Return what the name of the column of throughput says is counted, empty where it says
    nothing, and the multiple of it. Refuse a name that speaks of a time, or of another unit of
    time than seconds, or leaves open of how many GPUs it is.
    """
    multiple, unit = multiple_of(column, is_unit=column[:1].isdigit())
    factor = number(f"1{multiple}") or 1.0
    other = _OTHER_UNIT.search(column)
    if other:
        raise ValueError(
            f"column {shown(column)}: {other[0].strip()}; wanted items per second: convert it, and "
            "name it so"
        )
    rate = None if column == "throughput" else role_of(unit, "")
    if rate is None and (no_rate := _NO_RATE.search(column)):
        raise ValueError(
            f"column {shown(column)}: {no_rate[0]}, and no throughput; wanted items per second, or "
            f"the time of a step as {' or '.join(_TIMES)}"
        )
    if rate is None or rate.aside:
        return "", factor
    if rate.name in ("item_s", "item_ms", "kitem_s"):
        raise ValueError(
            f"column {shown(column)}: a time per item, and no throughput; convert it to items per "
            "second"
        )
    if rate.name in _TIMES:
        raise ValueError(
            f"column {shown(column)}: a time per step, and no throughput; wanted --map "
            f"{shown(column)}={rate.name}"
        )
    if rate.per_gpu and said.per_gpu is None:
        raise ValueError(
            f"column {shown(column)}: of one GPU or of all: say it with --per-gpu or --all-gpus"
        )
    if rate.name == "steps_per_s":
        return STEPS, factor
    return item_of(rate.item or ITEMS), factor


def _check_repeats(
    table: ForeignTable, columns: Mapping[str, str], by_pattern: Sequence[str]
) -> None:
    """Refuse rows that would be repeats of one trial, and differ in what a pattern ignores."""
    of_trial, ignored = [], []
    for place, column in enumerate(table.columns):
        if column in by_pattern:
            ignored.append(place)
        elif columns[column] not in (*_BESIDE_TRIAL, _IGNORED):
            of_trial.append(place)
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


def shown(cell: object) -> str:
    """Return a cell, or the name of a column, for a message."""
    return quoted(str(cell), 80)


def _value(
    name: str, where: str, cell: str | None, said: ImportOptions, is_comma_separated: bool
) -> Any:
    """Return the value of a field or a free axis. Raises ValueError, which says `where` it is."""
    if name in _NUMBERS:
        return _number(name, where, cell, said.decimal_comma, is_comma_separated)
    if not is_free(name):
        if not cell:
            return _DEFAULTS.get(name)
        return _text(where, cell)
    if name == f"{PREFIX}{WHEN}":
        try:
            day_of(cell)
        except ValueError as error:
            raise ValueError(f"{where}: {error}; write it so, or call the axis otherwise") from None
    text = _text(where, cell or "")
    is_number = said.decimal_comma and re.fullmatch(r"-?\d+,\d+", text)
    if is_number:
        return text.replace(",", ".")
    return text


def _text(where: str, cell: str) -> str:
    if any("\ud800" <= character <= "\udfff" for character in cell):  # bytes that are no text
        raise ValueError(f"{where}: {shown(cell)}; not UTF-8: save the table as UTF-8")
    return cell


def _number(
    name: str, where: str, cell: str | None, decimal_comma: bool | None, is_comma_separated: bool
) -> float | int | None:
    if not cell and name in _DEFAULTS:
        return None
    if not cell:
        raise ValueError(f"{where} is empty; wanted {name}")
    if name not in _WHOLE:
        cell = _BEHIND_NUMBER.sub("", cell)
    amount = number(cell, "," if decimal_comma else ".")
    other = number(cell, ",")
    may_be_other = other is not None and other != amount
    if decimal_comma is None and may_be_other and ("," in cell or not is_comma_separated):
        raise ValueError(
            f"{where}: {shown(cell)}: is its mark that of decimals or of thousands? say it "
            "with --decimal-comma or --decimal-point"
        )
    if amount is None or not math.isfinite(amount):
        raise ValueError(f"{where}: {shown(cell)}; wanted a finite number")
    wanted = ""
    if name not in _WHOLE and amount <= 0:
        wanted = "a number greater than 0"
    elif name in _WHOLE and cell.strip()[-1:].isalpha():  # 64k may be 65,536
        wanted = "all its digits"
    elif name in _WHOLE and amount != int(amount):
        wanted = "a whole number"
    if wanted:
        raise ValueError(f"{where}: {shown(cell)}; wanted {wanted}")
    if name in _WHOLE:
        return int(amount)
    return amount


def _has_decimal_points(table: ForeignTable) -> bool:
    """Return whether a cell is a number with a point alone, as 82.4: 5,762 beside it is 5762."""
    for _, cells in table.rows:
        for cell in cells:
            if cell and "." in cell and number(cell, ".") is not None and number(cell, ",") is None:
                return True
    return False


def read_table(path: str) -> ForeignTable:
    """Read a table by its content. Raises StoreError for what is none, with the reason."""
    if "://" in path:
        raise StoreError(f"{masked(path)}: a URL; wanted a file with a table")
    if Path(path).is_dir():
        raise StoreError(f"{path}: a folder; name its files, as {path.rstrip('/')}/*.csv")
    try:
        with open_regular(Path(path), follows_links=True) as file:
            content = file.read()
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}") from error
    if content.startswith(b"SQLite format 3\0"):
        raise StoreError(
            f"{path}: a SQLite database; `{typed('db')} merge {path}` adds the results of one"
        )
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise StoreError(f"{path}: UTF-16; save it as UTF-8, as spreadsheets call CSV UTF-8")
    if b"\0" in content:
        raise StoreError(f"{path}: no text; wanted CSV, TSV or Markdown")
    text = content.decode("utf-8-sig", errors="surrogateescape")
    if not text.strip():
        raise StoreError(f"{path}: empty; wanted a table with a line of column names")
    if _MARKDOWN.search(text):
        return _of_markdown(path, text)
    return _of_delimited(path, text)


def _names(path: str, names: Sequence[str]) -> tuple[str, ...]:
    # others write an index without a name before the columns
    columns = [name.strip() or f"column {number}" for number, name in enumerate(names, 1)]
    twice = [name for name in dict.fromkeys(columns) if columns.count(name) > 1]
    if twice:
        raise StoreError(
            f"{path}: {', '.join(map(shown, twice[:5]))}: a name of more than one column; give "
            "each column its own name"
        )
    return tuple(columns)


def _of_delimited(path: str, text: str) -> ForeignTable:
    begin = text.lstrip("\r\n")
    num_blank = len(text[: len(text) - len(begin)].splitlines())
    first = begin.splitlines()[0]
    sizes = {mark: len(next(csv.reader([first], delimiter=mark), [])) for mark in _DELIMITERS}
    delimiter = max(sizes, key=lambda mark: sizes[mark])
    reader = csv.reader(io.StringIO(begin, newline=""), delimiter=delimiter, strict=True)
    try:
        columns = _names(path, next(reader))
    except csv.Error as error:
        raise StoreError(f"{path}: its line of column names cannot be read: {error}") from None
    table = ForeignTable(path=path, columns=columns, is_comma_separated=delimiter not in ";\t")
    while True:
        where = f"{path} line {num_blank + reader.line_num + 1}"
        try:
            cells = next(reader)
        except StopIteration:
            return table
        except csv.Error as error:
            reason = f"{error}; is a quote not closed?"
            table.rejected.append(Rejected(where=where, reason=reason))
            continue
        if delimiter == "|":  # Markdown without bars at the edges
            cells = [] if _RULE.fullmatch("".join(cells)) else list(map(_unmarked, cells))
        _add_row(table, where, cells)


def _of_markdown(path: str, text: str) -> ForeignTable:
    """Read `| **GPUs** | img/s |`, with a rule of dashes below it; prose around it is left out."""
    rows: list[tuple[str, list[str]]] = []
    for place, line in enumerate(text.splitlines(), 1):
        where, line = f"{path} line {place}", line.strip()
        if not line.startswith("|"):
            continue
        is_rule = _RULE.fullmatch(line) is not None and (len(rows) == 1 or "--" in line)
        if is_rule and len(rows) > 1:
            raise StoreError(f"{where}: more than one table; wanted a file each")
        if not is_rule:
            cells = _CELL_END.split(line[1:].removesuffix("|"))
            rows.append((where, list(map(_unmarked, cells))))
    table = ForeignTable(path=path, columns=_names(path, rows[0][1] if rows else ()))
    for where, cells in rows[1:]:
        _add_row(table, where, cells)
    return table


def _unmarked(cell: str) -> str:
    """Return a cell of Markdown without emphasis, and without the star of a footnote."""
    return cell.strip().replace("\\*", "*").strip("*`").replace("\\|", "|")


def _add_row(table: ForeignTable, where: str, cells: Sequence[str]) -> None:
    if not any(cell.strip() for cell in cells):
        return
    if len(cells) == len(table.columns):
        table.rows.append((where, [cell.strip() or None for cell in cells]))
        return
    reason = f"{len(cells)} cells; wanted {len(table.columns)}, as the line of column names has"
    table.rejected.append(Rejected(where=where, reason=reason))
