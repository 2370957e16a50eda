"""`python -m plots tables`: results side by side."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from analysis.comparison.against import opposed
from analysis.options import BaselineOption, Filters, OriginOption, SourceOption, Sweep, selection
from analysis.pivot import Table, lines, pivot
from analysis.published import usual_tables
from analysis.results import BaselineRule, Origin, Result
from analysis.selection import Selection, load, load_against
from analysis.text.titles import made_with
from plots.options import AgainstOption, ColumnsOption, RowsOption, ShowOption, axes
from plots.parts import Failed, in_words
from plots.tables import formats, quantities
from plots.tables.document import Document, document
from plots.tables.layout import Layout, laid_out
from store.command_line import Db, Json
from store.errors import StoreError
from store.reading.collector import paused


def tables(
    db: Db,
    filters: Filters = None,
    sweep: Sweep = None,
    rows: RowsOption = None,
    columns: ColumnsOption = None,
    show: ShowOption = None,
    against: AgainstOption = None,
    baseline: BaselineOption = BaselineRule.SAME,
    origin: OriginOption = Origin.MEASURED,
    source: SourceOption = None,
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            help=f"One of {', '.join(formats.names())}.",
            show_default="as --out ends, else terminal",
        ),
    ] = None,
    as_json: Json = False,
    out: Annotated[
        Path | None, typer.Option(help="File to write, instead of the terminal.")
    ] = None,
) -> None:
    """Per model a table: strategies x GPU counts, images/s and speed-up; or any axes down and
    across. A table that cannot be made is named, and the others are printed; exit code 1 then.
    """
    if form is None and out is not None and not as_json:
        form = formats.of_file(out)
    write = formats.chosen(form, as_json)
    has_all = as_json or form in _WITH_ALL_NUMBERS
    shown = None if show is None else quantities.chosen(show)
    if "ratio" in (shown or ()) and not against:
        raise StoreError("ratio: against what? name the other side with --against")
    if shown is not None and against and "ratio" not in shown:
        shown = (*shown, "ratio")
    if (
        baseline is not BaselineRule.SAME
        and not has_all
        and not _tells_speed_up(shown, bool(against))
    ):
        raise StoreError(
            f"--baseline {baseline}: no speed-up is shown; add speed-up to --show, or leave it out"
        )
    chosen = selection(db, sweep, filters, origin, source, baseline)
    failures: dict[str, Exception] = {}
    with paused():
        try:
            documents = _documents(
                chosen,
                axes(rows),
                axes(columns),
                against or (),
                laid_out(chosen, shown),
                failures.setdefault,
            )
        finally:
            for name, error in failures.items():
                print(f"plots: no {name}: {in_words(error)}", file=sys.stderr)
        formats.deliver(documents, write, out)
    if failures:
        raise typer.Exit(1)


_WITH_ALL_NUMBERS = ("csv", "json")


def _tells_speed_up(shown: Sequence[str] | None, is_compared: bool) -> bool:
    return not is_compared if shown is None else not {"speed-up", "efficiency"}.isdisjoint(shown)


def _documents(
    chosen: Selection,
    rows: tuple[str, ...] | None,
    columns: tuple[str, ...] | None,
    against: Sequence[str],
    told: Callable[[Table], Layout],
    failed: Failed,
) -> list[Document]:
    """One; with another side one for each of its places."""
    if not against:
        return [document(_tables(load(chosen), rows, columns), told, failed)]
    results, others = load_against(chosen, against)
    found = []
    for side in opposed(results, others):
        compared = [
            table
            for table in _tables(side.results, rows, columns)
            if any(one.against for one in table.results)
        ]
        one = document(compared, told, failed)
        asked = "" if side.other.origin is Origin.PUBLISHED else f"{' '.join(against)}, "
        heading = f"against {asked}{made_with(side.other)}"
        found.append(
            replace(
                one,
                heading=". ".join(filter(None, (heading, one.heading))),
                notes=(*side.notes, *one.notes),
            )
        )
    return found


def _tables(
    results: Sequence[Result], rows: tuple[str, ...] | None, columns: tuple[str, ...] | None
) -> list[Table]:
    if rows is None and columns is None:
        return usual_tables(results)
    down = rows or _free(_DOWN, columns or ())
    if rows is None and down == ("strategy",) and "hosts" not in (columns or ()):
        down = lines(results)
    return pivot(results, down, columns or _free(_ACROSS, rows or ()))


_DOWN = ("strategy", "num_gpus", "model")
_ACROSS = ("num_gpus", "strategy", "model")


def _free(usual: Sequence[str], taken: Sequence[str]) -> tuple[str, ...]:
    """The first that goes not the other way already."""
    return next((axis,) for axis in usual if axis not in taken)
