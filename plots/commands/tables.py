"""`python -m plots tables`: results side by side."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from analysis.labels import lines
from analysis.options import (
    BaselineOption,
    Filters,
    OriginOption,
    SourceOption,
    Sweep,
    select,
    tell_all_sweeps,
)
from analysis.pivot import Table, pivot, usual_tables
from analysis.results import BaselineRule, Result
from analysis.selection import load
from plots.options import ColumnsOption, RowsOption, ShowOption, in_words
from plots.tables import cells, writers
from plots.tables.layout import document
from store.command_line import Db, Json
from store.errors import StoreError


def tables(
    db: Db,
    filters: Filters = None,
    sweep: Sweep = None,
    rows: RowsOption = None,
    columns: ColumnsOption = None,
    show: ShowOption = None,
    baseline: BaselineOption = BaselineRule.SAME,
    origin: OriginOption = None,
    source: SourceOption = None,
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            help=f"One of {', '.join(writers.names())}.",
            show_default="as --out ends, else terminal",
        ),
    ] = None,
    as_json: Json = False,
    out: Annotated[
        Path | None, typer.Option(help="File to write, instead of the terminal.")
    ] = None,
) -> None:
    """Print a table per model: what was varied down, GPU counts across, throughput and speed-up in
    the cells; or any axes down and across. A table that cannot be made is named, and the others are
    printed; exit code 1 then.
    """
    if form is None and out is not None and not as_json:
        form = writers.of_file(out)
    write = writers.chosen(form, as_json)
    shown = None if show is None else cells.chosen(show)
    _check(shown, baseline, has_all_numbers=as_json or form in ("csv", "json"))
    chosen = select(db, filters, sweep, origin, source, baseline)
    tell_all_sweeps(chosen)
    shape = _PrintedShape(rows=_axes(rows), columns=_axes(columns))
    failures: dict[str, Exception] = {}
    try:
        found = shape.tables(load(chosen))
        documents = [document(found, chosen, shown, failures.setdefault)]
    finally:
        for name, error in failures.items():
            print(f"plots: no {name}: {in_words(error)}", file=sys.stderr)
    if out is None:
        write(documents, sys.stdout)
    else:
        writers.write_file(documents, write, out)
    if failures:
        raise typer.Exit(1)


def _check(
    shown: Sequence[str] | None,
    baseline: BaselineRule,
    *,
    has_all_numbers: bool,
) -> None:
    """Raise StoreError for an option that would have no effect."""
    if baseline is BaselineRule.SAME or has_all_numbers:
        return
    if shown is not None and not {"speed-up", "efficiency"}.intersection(shown):
        raise StoreError(
            f"--baseline {baseline}: no speed-up is shown; add speed-up to --show, or leave it out"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _PrintedShape:
    """The axes down and across, where the user named them."""

    rows: tuple[str, ...] | None
    columns: tuple[str, ...] | None

    def tables(self, results: Sequence[Result]) -> list[Table]:
        if self.rows is None and self.columns is None:
            return usual_tables(results)
        down = self.rows or _free(_DOWN, self.columns or ())
        if self.rows is None and down == ("strategy",) and "hosts" not in (self.columns or ()):
            down = lines(results)
        return pivot(results, down, self.columns or _free(_ACROSS, self.rows or ()))


def _axes(names: str | None) -> tuple[str, ...] | None:
    return None if names is None else tuple(name.strip() for name in names.split(","))


_DOWN = ("strategy", "num_gpus", "model")
_ACROSS = ("num_gpus", "strategy", "model")


def _free(usual: Sequence[str], taken: Sequence[str]) -> tuple[str, ...]:
    """Return the first axis that does not go the other way already."""
    return next((axis,) for axis in usual if axis not in taken)
