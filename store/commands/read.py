"""`python -m store list|show|query|check`: reads, and changes nothing."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from itertools import chain, islice
from typing import Annotated, Any, Literal

import sqlalchemy as sa
import typer

from scalemark.cli.terminal import print_json, reader_may_leave, shown
from scalemark.records.axes import INHERITED, bare_name, is_env_variable, is_free
from scalemark.records.measurement import IMAGES
from scalemark.records.references import Origin
from scalemark.records.validation import LARGEST_INTEGER
from scalemark.text.untrusted import visible
from store.command_line import Db, Json
from store.commands.printing import Format, print_sections, write
from store.database import locate, open_for_reading, own_command, reading
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
from store.reading.queries import num_attempts, queried, streamed
from store.reading.references import shown_by
from store.reading.show import show as collected
from store.trial_rows import free_columns

Filters = Annotated[
    list[str] | None,
    typer.Argument(
        help="As model=resnet50 'num_gpus>=4' model=vgg16,alexnet 'model!=vgg16' 'sweep~night*'.",
        show_default=False,
    ),
]
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


_Origin = typer.Option(
    help="Measured or simulated attempts.", show_default="those of the newest sweep that matches"
)
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
    sweep: Annotated[str | None, typer.Option(help="Only this sweep.")] = None,
    origin: Annotated[Literal["measured", "simulated"] | None, _Origin] = None,
    deleted: Annotated[bool, _Deleted] = False,
    limit: Annotated[int | None, _Limit] = None,
    sort: Annotated[str | None, _Sort] = None,
    columns: Annotated[str | None, _Columns] = None,
    form: As = Format.TABLE,
    as_json: Json = False,
) -> None:
    """List one line per attempt, the newest last. Where none is like that the list is empty, and
    the exit code 0.
    """
    form = Format.JSON if as_json else form
    is_table = form is Format.TABLE
    shows_newest = limit is None and is_table
    limit = NEWEST if shows_newest else limit
    engine = open_for_reading(db)
    filters = full_names(engine, filters or ())
    wanted = Origin(origin) if origin else None
    asked = _of_one_origin(engine, filters, sweep, wanted, deleted=deleted)
    names = list(LISTED)
    if columns == "all" or (columns is None and is_table):
        with reading(engine) as connection:
            free = list(free_columns(connection))
        place = _IN_A_TABLE.index("strategy") + 1
        names = [*_IN_A_TABLE[:place], *free, *_IN_A_TABLE[place:]]
        if columns == "all":
            names = [*LISTABLE, *free]
    elif columns is not None:
        names = [name.strip() for name in columns.split(",")]
    names = list(dict.fromkeys(names))
    statement = listing(
        engine, asked, sweep=sweep, deleted=deleted, columns=names, sort=sort, limit=limit
    )
    num_listed = 0
    with streamed(engine, statement) as (headings, rows):
        if is_table:
            lines = [_with_inherited(headings, row) for row in rows]
            num_listed = len(lines)
            if columns is None:
                headings, lines = _without_usual(headings, lines)
            write(form, headings, lines, _SPARE if columns is None else ())
        else:
            first = list(islice(rows, 1))
            num_listed = len(first)
            write(form, headings, chain(first, rows))
    if shows_newest and num_listed == NEWEST:
        order = "first" if sort else "newest"
        print(f"store: the {order} {NEWEST}; --limit N shows N", file=sys.stderr)
    if num_listed == 0 and limit != 0:
        why = _why_none(engine, db, filters, sweep, wanted, deleted=deleted)
        print(f"store: {why}", file=sys.stderr)


def show(
    which: Annotated[
        str, typer.Argument(help=f"Number of an attempt, {ID_BEGINNING}, or a sweep's name.")
    ],
    db: Db,
    as_json: Json = False,
) -> None:
    """Show everything about one attempt, one trial with its attempts, or one sweep."""
    record = collected(open_for_reading(db), which)
    return print_json(record) if as_json else print_sections(record)


def query(
    sql: Annotated[str, typer.Argument(help="A SELECT statement; nothing can be changed.")],
    db: Db,
    form: As = Format.TABLE,
    as_json: Json = False,
) -> None:
    """Run a SELECT; the views `throughput` and `scaling` are a good beginning."""
    with queried(open_for_reading(db), sql) as (columns, rows):
        write(Format.JSON if as_json else form, columns, rows)


def _of_one_origin(
    engine: sa.Engine,
    filters: Sequence[str],
    sweep: str | None,
    origin: Origin | None,
    *,
    deleted: bool,
) -> list[str]:
    """Add the filter of the origin, or of the newest sweep's; then say how to see the others."""
    if origin is not None:
        return [*filters, origin_filter(origin)]
    newest = newest_first(engine, filters, sweep=sweep, deleted=deleted)
    if not newest:
        return [*filters]
    taken, *others = newest
    if not others:
        return [*filters]
    print(origin_note(taken, newest[taken], others), file=sys.stderr)
    return [*filters, origin_filter(taken)]


def _with_inherited(columns: Sequence[str], row: Sequence[Any]) -> list[Any]:
    """Say of a variable that a trial lacks that it is inherited."""
    cells = []
    for name, cell in zip(columns, row, strict=True):
        cells.append(INHERITED if cell is None and is_env_variable(name) else cell)
    return cells


def _without_usual(
    columns: Sequence[str], rows: Sequence[Sequence[Any]]
) -> tuple[list[str], list[list[Any]]]:
    """Leave out columns of `_USUALLY` that say nothing else, and free axes that every strategy
    names.
    """
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
    engine: sa.Engine,
    db: str,
    filters: Sequence[str],
    sweep: str | None,
    origin: Origin | None,
    *,
    deleted: bool,
) -> str:
    """Say why no attempt is listed, and what to do."""
    name = locate(db).name
    num = num_attempts(engine, deleted=deleted)
    if num == 0 and deleted:
        return f"{name}: no attempt in it is deleted; leave --deleted out to see those that count"
    if num == 0:
        num_deleted = num_attempts(engine, deleted=True)
        also = f"; --deleted lists the {num_deleted} that are deleted" if num_deleted else ""
        why = shown_by(engine) or "no attempt in it yet; run a sweep first"
        return f"{name}: {why}{also}"
    asked = [*([f"--sweep {sweep}"] if sweep else []), *map(shlex.quote, filters)]
    if origin is not None:
        asked.append(f"--origin {origin}")
    which = "deleted attempts" if deleted else "attempts"
    return (
        f"{name}: none of its {num} {which} is like {' '.join(asked)}; "
        f"{hint(engine, filters)}leave some of that out, or see all with "
        f"{own_command(db, 'store', 'list')}"
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
