"""`scalemark list`, `show`, `db query` and `db check`: they read, and change nothing. Rows are
printed as a table for people, as CSV or as JSON, whatever stands in them.
"""

import json
import shlex
import statistics
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from decimal import Decimal
from enum import StrEnum
from itertools import chain, compress, count, islice
from typing import Annotated, Any, TextIO

import sqlalchemy as sa
import typer
from rich.console import Console

from scalemark.cli.terminal import (
    as_text,
    finite,
    for_people,
    make_console,
    print_columns,
    print_json,
    reader_may_leave,
    shown,
)
from scalemark.host.own_code import typed
from scalemark.records.attempt import Placement
from scalemark.records.axes import INHERITED, bare_name, is_env_variable, is_free
from scalemark.records.machine import DeviceKind
from scalemark.records.measurement import IMAGES, Measurement
from scalemark.records.references import Origin
from scalemark.records.validation import LARGEST_INTEGER
from scalemark.text.untrusted import visible
from scalemark.text.wording import CsvLines, guarded
from store.command_line import Db, Filters, Json, OriginOption, Sweep
from store.database import locate, open_for_reading, own_command, reading
from store.errors import StoreError
from store.filters import ID_BEGINNING
from store.reading.listing import (
    LISTABLE,
    LISTED,
    full_names,
    hint,
    listing,
    newest_first,
    origin_filter,
    origin_note,
)
from store.reading.listing import show as collected
from store.reading.queries import STREAMED, Row, num_attempts, queried
from store.reading.references import instead
from store.reading.sweeps import measured_by
from store.tables import free_columns

Columns = Sequence[str]
Rows = Iterable[Sequence[Any]]

_ENDLESS = 10**9  # characters of a line that no terminal shows


class Format(StrEnum):
    """A format of rows."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"


def write(form: Format, columns: Columns, rows: Rows, spare: Sequence[str] = ()) -> None:
    """Write rows to stdout; a terminal gets no `spare` column that it has no room for."""
    if form is Format.JSON:
        _write_json(columns, rows)
    elif form is Format.CSV:
        write_csv(columns, rows, sys.stdout)
    else:
        headings = _distinct(list(map(visible, columns)))
        all_rows = list(rows)  # columns are as wide as their widest cell
        right = frozenset(compress(headings, _numeric(len(headings), all_rows)))
        lines = [list(map(for_people, row)) for row in all_rows]
        print_columns(make_console(), headings, lines, right, spare, piped_width=_ENDLESS)


def write_csv(columns: Columns, rows: Rows, out: TextIO) -> None:
    """Write a line per row; a file keeps text as it is."""
    is_terminal = out.isatty()
    lines = CsvLines(out)
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
        sweep = record["sweep"]
        _facts(console, f"sweep {sweep['name']}", _without(sweep, ("name",)))
        _facts(console, "repeats", record["counts"])
        _table(console, "left out", record["left_out"])
        _table(console, "tags", record["tags"])
        return
    trial = record["trial"]
    # an axis that the trial lacks is none
    lacked = [name for name, value in trial.items() if value is None]
    _facts(console, f"trial {trial['id']}", _without(trial, ("spec", *lacked)))
    note = DeviceKind(trial["device_kind"]).note
    if note:
        console.print(note, style="dim", markup=False)
    if not record["attempts"]:
        _table(console, "tags", record["tags"])
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
    _table(console, "tags", row["tags"])


def _rounds(times: Row | None) -> list[Row]:
    rows = []
    seconds: Mapping[str, Sequence[float]] = (times or {}).get("seconds", {})
    for replica, rounds in seconds.items():
        middle, fastest, slowest = statistics.median(rounds), min(rounds), max(rounds)
        row = {"replica": replica, "rounds": len(rounds), "median_s": middle}
        rows.append(row | {"fastest_s": fastest, "slowest_s": slowest})
    return rows


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


As = Annotated[Format, typer.Option("--format", help="How rows are written.")]

NEWEST = 200
"""Rows of a table unless more are asked for."""

_IN_A_TABLE = tuple(name for name in LISTED if name not in ("jitter_s", "duration_s", "started_at"))
_SPARE = ("device_kind", "data", "precision", "trial", "repeat", "sweep", "injected")
"""Columns that a table leaves out where the terminal is too narrow, the first of them first."""

_USUALLY: Mapping[str, int | str | None] = {
    "hosts": 1,
    "injected": "",
    "batch_size": None,
    "precision": None,
    "data": None,
    "item": IMAGES,
}
"""Columns that tables leave out where no attempt has another value, or any."""


_Deleted = typer.Option("--deleted", help="Those that are deleted, instead of those that count.")
_Limit = typer.Option(
    min=0,
    max=LARGEST_INTEGER,
    help="So many at most: the newest, or the first of a sorted list.",
    show_default=f"{NEWEST} in a table",
)
_Sort = typer.Option(help="Column to sort by; --sort=-COLUMN has the largest first.")
_Columns = typer.Option(
    help="These instead of the usual ones (fewer on a narrow terminal); all: everything."
)


def list_(
    db: Db,
    filters: Filters = None,
    sweep: Sweep = None,
    origin: OriginOption = None,
    deleted: Annotated[bool, _Deleted] = False,
    limit: Annotated[int | None, _Limit] = None,
    sort: Annotated[str | None, _Sort] = None,
    columns: Annotated[str | None, _Columns] = None,
    form: As = Format.TABLE,
    as_json: Json = False,
) -> None:
    """List one line per attempt, the newest last. Where nothing matches, the list is empty and the
    exit code is 0.
    """
    form = Format.JSON if as_json else form
    if origin is not None and not origin.is_ours:
        shown_by = f"{typed('table')} --origin {origin}"
        raise StoreError(f"--origin {origin}: wanted attempts of ours; `{shown_by}` has the others")
    is_table = form is Format.TABLE
    shows_newest = limit is None and is_table
    limit = NEWEST if shows_newest else limit
    with reading(open_for_reading(db)) as connection:
        filters = full_names(connection, filters or ())
        asked = _of_one_origin(connection, filters, sweep, origin, deleted=deleted)
        names = _named_columns(connection, columns, is_usual=columns is None and is_table)
        statement = listing(
            connection, asked, sweep=sweep, deleted=deleted, columns=names, sort=sort, limit=limit
        )
        result = connection.execute(statement, execution_options=STREAMED)
        headings = list(result.keys())
        if is_table:
            # a variable that a trial lacks is inherited
            of_none = [INHERITED if is_env_variable(name) else None for name in headings]
            lines = []
            for row in result:
                pairs = zip(row, of_none, strict=True)
                lines.append([text if cell is None else cell for cell, text in pairs])
            num_listed = len(lines)
            if columns is None:
                headings, lines = _without_usual(headings, lines)
            write(form, headings, lines, _SPARE if columns is None else ())
        else:
            first = list(islice(result, 1))
            num_listed = len(first)
            write(form, headings, chain(first, result))
        if shows_newest and num_listed == NEWEST:
            order = "first" if sort else "newest"
            print(f"list: the {order} {NEWEST}; --limit N shows N", file=sys.stderr)
        if num_listed == 0 and limit != 0:
            why = _why_none(connection, db, filters, sweep, origin, deleted=deleted)
            print(f"list: {why}", file=sys.stderr)


def _named_columns(connection: sa.Connection, columns: str | None, *, is_usual: bool) -> list[str]:
    """Return the columns that are listed; the usual ones of a table have all free axes."""
    if columns == "all":
        return [*LISTABLE, *free_columns(connection)]
    if is_usual:
        place = _IN_A_TABLE.index("strategy") + 1
        return [*_IN_A_TABLE[:place], *free_columns(connection), *_IN_A_TABLE[place:]]
    if columns is None:
        return list(LISTED)
    return list(dict.fromkeys(map(str.strip, columns.split(","))))


def show(
    which: Annotated[
        str, typer.Argument(help=f"Number of an attempt, {ID_BEGINNING}, or a sweep's name.")
    ],
    db: Db,
    as_json: Json = False,
) -> None:
    """Show everything about one attempt, one trial with its attempts, or one sweep."""
    record = collected(open_for_reading(db), which)
    if as_json:
        return print_json(record)
    return print_sections(record)


def query(
    sql: Annotated[str, typer.Argument(help="A SELECT statement; nothing can be changed.")],
    db: Db,
    as_json: Json = False,
) -> None:
    """Run a SELECT; the views `throughput` and `scaling` are a good beginning."""
    with queried(open_for_reading(db), sql) as (columns, rows):
        write(Format.JSON if as_json else Format.TABLE, columns, rows)


def _of_one_origin(
    connection: sa.Connection,
    filters: Sequence[str],
    sweep: str | None,
    origin: Origin | None,
    *,
    deleted: bool,
) -> list[str]:
    """Add the filter of the origin, or of the newest sweep's; then say how to see the others."""
    if origin is not None:
        return [*filters, origin_filter(origin)]
    newest = newest_first(connection, filters, sweep=sweep, deleted=deleted)
    if not newest:
        return [*filters]
    taken, *others = newest
    if not others:
        return [*filters]
    print(origin_note(taken, newest[taken], others), file=sys.stderr)
    return [*filters, origin_filter(taken)]


def _without_usual(
    columns: Sequence[str], rows: Sequence[Sequence[Any]]
) -> tuple[list[str], list[list[Any]]]:
    """Leave out columns of `_USUALLY` that say nothing else, and free axes that strategies name."""
    strategies = [f" {row[columns.index('strategy')]}" for row in rows]
    kept = []
    for place, name in enumerate(columns):
        cells = [row[place] for row in rows]
        is_usual = name in _USUALLY and all(cell in (None, _USUALLY[name]) for cell in cells)
        if is_free(name):
            named = f" {bare_name(name)}="
            pairs = zip(cells, strategies, strict=True)
            is_usual = all(cell in (None, INHERITED) or named in words for cell, words in pairs)
        if not is_usual:
            kept.append(place)
    return [columns[place] for place in kept], [[row[place] for place in kept] for row in rows]


def _why_none(
    connection: sa.Connection,
    db: str,
    filters: Sequence[str],
    sweep: str | None,
    origin: Origin | None,
    *,
    deleted: bool,
) -> str:
    """Say why no attempt is listed, and what to do."""
    name = locate(db).name
    num = num_attempts(connection, deleted=deleted)
    if num == 0 and deleted:
        return f"{name}: no attempt in it is deleted; leave --deleted out to see those that count"
    if num == 0:
        num_deleted = num_attempts(connection, deleted=True)
        also = ""
        if num_deleted:
            also = f"; --deleted lists the {num_deleted} that are deleted"
        why = instead(connection) or "no attempt in it yet; run a sweep first"
        return f"{name}: {why}{also}"
    others = measured_by(connection, sweep) if sweep and not deleted else []
    if others and sweep not in others:
        lists = " and ".join(own_command(db, "list", "--sweep", other) for other in others)
        return f"{name}: the trials of sweep {sweep} were measured by others; see {lists}"
    asked = [*([f"--sweep {sweep}"] if sweep else []), *map(shlex.quote, filters)]
    if origin is not None:
        asked.append(f"--origin {origin}")
    which = "deleted attempts" if deleted else "attempts"
    return (
        f"{name}: none of its {num} {which} is like {' '.join(asked)}; "
        f"{hint(connection, filters)}leave some of that out, or see all with "
        f"{own_command(db, 'list')}"
    )


FINDINGS = 1


def check(db: Db, as_json: Json = False) -> None:
    """Check a database. Exit code 0: nothing is wrong; 1: findings; 2: it cannot be checked."""
    from store.checks import check as findings_of  # here: the other commands need not wait for it

    with shown() as progress:
        findings = list(findings_of(db, progress))
    with reader_may_leave():
        if as_json:
            print_json({"findings": findings})
        else:
            for finding in findings:
                where = f"{finding.table} {finding.row}".strip()
                print(f"{visible(where)}: {visible(finding.what)}; {finding.remedy}")
            verdict = "nothing is wrong"
            if findings:
                verdict = f"damaged or incomplete, {len(findings)} findings"
            print(f"{locate(db).name}: {verdict}")
    if findings:
        raise typer.Exit(FINDINGS)
