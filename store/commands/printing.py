"""Prints rows as a table for people, as CSV or as JSON, whatever stands in them, and what
`store.reading.show` found, section by section.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from decimal import Decimal
from enum import StrEnum
from itertools import compress, count, islice
from typing import Any

from rich.console import Console

from scalemark.cli.terminal import as_text, finite, for_people, make_console, print_columns
from scalemark.records.attempt import Placement
from scalemark.records.machine import DeviceKind
from scalemark.records.measurement import Measurement
from scalemark.text.untrusted import visible
from scalemark.text.wording import CsvLines, guarded
from store.reading.queries import Row

Columns = Sequence[str]
Rows = Iterable[Sequence[Any]]

_AT_ONCE = 1_000  # rows of a table that are fitted to each other; those behind them are streamed
_ENDLESS = 10**9  # characters of a line that no terminal shows


class Format(StrEnum):
    """A format of rows."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"


def write(form: Format, columns: Columns, rows: Rows, spare: Sequence[str] = ()) -> None:
    """Write rows to stdout. A table on a terminal is fitted to it, and has no `spare` column that
    it has no room for.
    """
    if form is Format.JSON:
        _write_json(columns, rows)
    elif form is Format.CSV:
        _write_csv(columns, rows)
    else:
        _print_rows(columns, rows, spare)


def _print_rows(columns: Columns, rows: Rows, spare: Sequence[str]) -> None:
    console = make_console()
    headings = _distinct(list(map(visible, columns)))
    at_once = _AT_ONCE if console.is_terminal else None  # a pipe gets one table
    rest = iter(rows)
    batch = list(islice(rest, at_once))
    while True:
        numeric = _numeric(len(headings), batch)
        right = frozenset(compress(headings, numeric))
        lines = [list(map(for_people, row)) for row in batch]
        print_columns(console, headings, lines, right, spare, piped_width=_ENDLESS)
        batch = list(islice(rest, at_once))
        if not batch:
            return


def _write_csv(columns: Columns, rows: Rows) -> None:
    is_terminal = sys.stdout.isatty()
    lines = CsvLines(sys.stdout)
    lines.write_rows([list(map(_csv_cell, columns))])
    for row in rows:
        cells = []
        for cell in map(_csv_cell, row):
            cells.append(visible(cell) if is_terminal and isinstance(cell, str) else cell)
        lines.write_rows([cells])


def _csv_cell(cell: object) -> object:
    """Put an apostrophe before text that a spreadsheet would take for a formula."""
    if cell is None or _is_number(cell):
        return cell
    if isinstance(cell, bool):
        return str(cell).lower()
    return guarded(as_text(cell))


def _write_json(columns: Columns, rows: Rows) -> None:
    """Write a list of objects, each on its own line."""
    names = _distinct(columns)
    separator = "\n"
    sys.stdout.write("[")
    for row in rows:
        cells = dict(zip(names, map(finite, row), strict=True))
        sys.stdout.write(separator + json.dumps(cells))
        separator = ",\n"
    sys.stdout.write("\n]\n")


def _distinct(columns: Columns) -> list[str]:
    """Number names that come twice: the second `id` becomes `id_2`."""
    names: list[str] = []
    for column in columns:
        name = column
        numbers = count(2)
        while name in names:
            name = f"{column}_{next(numbers)}"
        names.append(name)
    return names


def _numeric(num_columns: int, batch: Sequence[Sequence[Any]]) -> list[bool]:
    """Return for each column whether it has numbers and nothing else."""
    numeric = []
    for place in range(num_columns):
        cells = [row[place] for row in batch if row[place] is not None]
        numeric.append(bool(cells) and all(map(_is_number, cells)))
    return numeric


def _is_number(cell: object) -> bool:
    return isinstance(cell, int | float | Decimal) and not isinstance(cell, bool)


_ATTEMPT = (
    *("sweep", "repeat", "attempt", "outcome", "message", "exit_code"),
    *("started_at", "duration_s", "deleted_at"),
    *(field.name for field in fields(Placement)),
    "run_dir",
)
_MEASUREMENT = tuple(field.name for field in fields(Measurement))


def print_sections(record: Row) -> None:
    """Print a sweep, or a trial with each of its attempts."""
    console = make_console()
    if "sweep" in record:
        return _print_sweep(console, record)
    trial = record["trial"]
    # an axis that the trial lacks is none
    lacked = [name for name, value in trial.items() if value is None]
    _facts(console, f"trial {trial['id']}", _without(trial, ("spec", *lacked)))
    note = DeviceKind(trial["device_kind"]).note
    if note:
        console.print(note, style="dim", markup=False)
    if not record["attempts"]:
        _annotations(console, record)
    for attempt in record["attempts"]:
        _print_attempt(console, attempt)


def _print_attempt(console: Console, row: Row) -> None:
    _facts(console, f"attempt {row['attempt_id']}", {name: row[name] for name in _ATTEMPT})
    if row["throughput"] is not None:
        is_simulated = bool(row["machine_facts"]["hardware_profile"])
        measured = {name: row[name] for name in _MEASUREMENT}
        if row["mfu"] is None:
            measured["mfu"] = "unknown"
        _facts(console, "simulation" if is_simulated else "measurement", measured)
        _facts(console, "truth behind the simulation", row["truth"])
        _facts(console, "other metrics", row["metrics"])
        verdict = {"verdict": row["verdict"]}
        for number, reason in enumerate(row["verdict_reasons"] or (), 1):
            verdict[f"reason {number}"] = reason
        _facts(console, "verdict", verdict)
    _facts(console, "profile", row["profile"])
    _table(console, "each replica's own compute", _rounds(row["replica_times"]))
    _table(console, "GPU telemetry", row["gpu_telemetry"])
    roles = []
    for role, nodes in (row["op_placement"] or {}).items():
        for where, num in nodes.items():
            roles.append({"role": role, "op @ device": where, "nodes": num})
    _table(console, "op placement", roles)
    _facts(console, "machine", row["machine_facts"])
    _table(console, "GPUs", row["gpus"])
    _table(console, "links", row["links"])
    environment = row["environment"] or {}
    nested = ("packages", "variables")
    _facts(console, "environment", _without(environment, nested))
    for section in nested:
        _facts(console, section, environment.get(section))
    _annotations(console, row)


def _rounds(times: Row | None) -> list[Row]:
    rows = []
    seconds: Mapping[str, Sequence[float]] = (times or {}).get("seconds", {})
    for replica, rounds in seconds.items():
        middle, fastest, slowest = statistics.median(rounds), min(rounds), max(rounds)
        row = {"replica": replica, "rounds": len(rounds), "median_s": middle}
        rows.append(row | {"fastest_s": fastest, "slowest_s": slowest})
    return rows


def _annotations(console: Console, row: Row) -> None:
    _table(console, "tags", row["tags"])
    _table(console, "notes", row["notes"])


def _print_sweep(console: Console, record: Row) -> None:
    sweep = record["sweep"]
    _facts(console, f"sweep {sweep['name']}", _without(sweep, ("name",)))
    _facts(console, "repeats", record["counts"])
    _table(console, "left out", record["left_out"])
    _annotations(console, record)


def _without(row: Row, names: Sequence[str]) -> Row:
    return {name: value for name, value in row.items() if name not in names}


def _facts(console: Console, title: str, facts: Mapping[str, object] | None) -> None:
    """Print one line for each fact; nothing where there is none."""
    if facts:
        console.print(f"\n{for_people(title)}", style="bold", markup=False)
        lines = ([for_people(name), for_people(value)] for name, value in facts.items())
        print_columns(console, ("", ""), lines)


def _table(console: Console, title: str, rows: Sequence[Row] | None) -> None:
    if rows:
        console.print(f"\n{title}", style="bold", markup=False)
        lines = ([for_people(cell) for cell in row.values()] for row in rows)
        print_columns(console, list(rows[0]), lines)
