"""`python -m store list|show|query`: reads, and changes nothing."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import sqlalchemy as sa
import typer

from store import queries
from store.command_line import Db, Json, make_app
from store.commands.sections import print_sections
from store.database import open_for_reading
from store.formats import tabular
from store.formats.tabular import Format
from store.records import LARGEST_INTEGER
from store.show import show as shown
from store.terminal import is_narrow, make_console, print_json

app = make_app("Read the results database.")

Filters = Annotated[
    list[str] | None,
    typer.Argument(help="As model=resnet50 'num_gpus>=4' model=vgg16,alexnet 'model!=vgg16' 'sweep~night*'.", show_default=False),
]
As = Annotated[Format, typer.Option("--format", help="How rows are written.")]
Out = Annotated[Path | None, typer.Option(help="File to write to, instead of stdout.", dir_okay=False)]

_IN_A_TABLE = tuple(name for name in queries.LISTED if name not in ("jitter_s", "duration_s", "started_at"))
_IN_A_NARROW_TABLE = (
    *("attempt", "model", "strategy", "num_gpus", "hosts", "batch_size", "planted", "outcome"),
    *("images_per_second", "verdict"),
)
_USUALLY = {"hosts": 1, "planted": ""}
"""Columns that tables leave out where no attempt has anything else."""


@app.command("list")
def list_(
    db: Db,
    filters: Filters = None,
    sweep: Annotated[str | None, typer.Option(help="Only this sweep.")] = None,
    deleted: Annotated[bool, typer.Option("--deleted", help="Those that are deleted, instead of those that count.")] = False,
    limit: Annotated[int | None, typer.Option(min=0, max=LARGEST_INTEGER, help="So many at most.")] = None,
    sort: Annotated[str | None, typer.Option(help="Column to sort by; --sort=-COLUMN has the largest first.")] = None,
    columns: Annotated[str | None, typer.Option(help="These instead of the usual ones (fewer on a narrow terminal).")] = None,
    form: As = Format.TABLE,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """One line per attempt, oldest first."""
    form = Format.JSON if as_json else form
    engine = open_for_reading(db)
    listing = partial(queries.listing, engine, filters or (), sweep=sweep, deleted=deleted, sort=sort, limit=limit)
    if columns is not None:
        names = [name.strip() for name in columns.split(",")]
    else:
        names = [name for name in _usual(form, out) if not _is_left_out(name, form, engine, listing(columns=list(_USUALLY)))]
    statement = listing(columns=list(dict.fromkeys(names)))
    with queries.streamed(engine, statement) as (found, rows):
        tabular.write(form, found, rows, out)


@app.command()
def show(
    which: Annotated[str, typer.Argument(help="Number of an attempt, beginning of a trial's id, or a sweep's name.")],
    db: Db,
    as_json: Json = False,
) -> None:
    """Everything about one attempt, one trial with all its attempts, or one sweep with its trials."""
    found = shown(open_for_reading(db), which)
    return print_json(found) if as_json else print_sections(found)


@app.command()
def query(
    sql: Annotated[str, typer.Argument(help="A SELECT statement; nothing can be changed.")],
    db: Db,
    form: As = Format.TABLE,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Any SELECT on a read-only connection; the views `throughput` and `scaling` are a good beginning."""
    with queries.queried(open_for_reading(db), sql) as (columns, rows):
        tabular.write(Format.JSON if as_json else form, columns, rows, out)


def _usual(form: Format, out: Path | None) -> tuple[str, ...]:
    if form is Format.TABLE and out is None and is_narrow(make_console()):
        return _IN_A_NARROW_TABLE
    return _IN_A_TABLE if form in _FOR_PEOPLE else queries.LISTED


def _is_left_out(name: str, form: Format, engine: sa.Engine, listing: sa.Select[Any]) -> bool:
    if name not in _USUALLY or form not in _FOR_PEOPLE:
        return False
    listed = listing.subquery()
    return not queries.selected(engine, sa.select(listed).where(listed.c[name] != _USUALLY[name]).limit(1))


_FOR_PEOPLE = (Format.TABLE, Format.MARKDOWN)
