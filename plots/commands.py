"""`scalemark table`, `chart` and `report`."""

import json
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from analysis import options
from analysis.labels import lines
from analysis.pivot import Table, pivot, varied_tables
from analysis.results import BaselineRule, Result
from analysis.selection import load
from plots import layout, writers
from plots.source import PictureFormat, PlotSource, command, in_words, write_whole
from scalemark.cli.terminal import shown
from scalemark.host.own_code import typed
from scalemark.text.untrusted import masked, quoted, visible
from store.command_line import Db, Filters, Json, OriginOption, Sweep
from store.errors import StoreError

_DOWN = ("strategy", "num_gpus", "model")
_ACROSS = ("num_gpus", "strategy", "model")


_Rows = typer.Option(help="Axes down, as model,strategy.", show_default="all that vary")
_Columns = typer.Option(
    help="Axes across, as precision,num_gpus.",
    show_default="num_gpus, or the axis with most values",
)
_Show = typer.Option(
    help=f"What each cell holds, of {', '.join(layout.QUANTITIES)}, or a "
    "number that your program printed.",
    show_default="throughput,speed-up, and the spread where there are repeats",
)
_Form = typer.Option(
    "--format",
    help=f"One of {', '.join(writers.names())}.",
    show_default="terminal",
)


def table(
    db: Db,
    filters: Filters = None,
    sweep: Sweep = None,
    rows: Annotated[str | None, _Rows] = None,
    columns: Annotated[str | None, _Columns] = None,
    show: Annotated[str | None, _Show] = None,
    baseline: options.BaselineOption = BaselineRule.SAME,
    origin: OriginOption = None,
    source: options.SourceOption = None,
    form: Annotated[str | None, _Form] = None,
    as_json: Json = False,
) -> None:
    """Print a table per model: what was varied down, GPU counts across, throughput and speed-up in
    the cells; or any axes down and across. A table that cannot be made is named, and the others are
    printed; exit code 1 then.
    """
    write = writers.chosen(form, as_json)
    names = (show or "").split(",")
    is_record = as_json or form in ("json", "tidy")
    shows_speed_up = show is None or {"speed-up", "efficiency"}.intersection(names)
    if baseline is not BaselineRule.SAME and not is_record and not shows_speed_up:
        raise StoreError(
            f"--baseline {baseline}: no speed-up is shown; add speed-up to --show, or leave it out"
        )
    selection = options.select(db, filters, sweep, origin, source, baseline)
    options.tell_all_sweeps(selection)
    results = load(selection)
    quantities = None if show is None else layout.chosen(show, results)
    pivoted = _pivoted(results, rows, columns)
    failures: dict[str, Exception] = {}
    try:
        document = layout.document(
            pivoted,
            selection,
            quantities,
            failures.setdefault,
            as_curves=rows is None and columns is None,
        )
        write(document, sys.stdout)
    finally:
        _name("table", failures, "no {}: {}")
    if failures:
        raise typer.Exit(1)


def _pivoted(results: Sequence[Result], rows: str | None, columns: str | None) -> list[Table]:
    """Return tables with these axes down and across; the usual ones where none are named."""
    if rows is None and columns is None:
        return varied_tables(results)
    across = _axes(columns)
    down = _axes(rows) or _first_free(_DOWN, across)
    if rows is None and down == ["strategy"] and "hosts" not in across:
        down = list(lines(results))
    return pivot(results, tuple(down), tuple(across or _first_free(_ACROSS, _axes(rows))))


def _axes(names: str | None) -> list[str]:
    if names is not None:
        return [name.strip() for name in names.split(",")]
    return []


def _first_free(usual: Sequence[str], taken: Sequence[str]) -> list[str]:
    """Return the first axis that does not go the other way already."""
    free = [axis for axis in usual if axis not in taken]
    return free[:1]


_Chart = typer.Option("--chart", help="Draw only this one; may be repeated.")
_Formats = typer.Option("--format", help="Kind of files; may be repeated.", show_default="png")


def chart(
    db: Db,
    filters: Filters = None,
    sweep: Sweep = None,
    origin: OriginOption = None,
    published: options.SourceOption = None,
    baseline: options.BaselineOption = BaselineRule.SAME,
    charts: Annotated[list[str] | None, _Chart] = None,
    formats: Annotated[list[PictureFormat] | None, _Formats] = None,
    out: Annotated[Path, typer.Option(help="Folder for the files.")] = Path("figures"),
    as_json: Json = False,
) -> None:
    """Draw the results, and print the paths of the pictures; why a chart has none is said in a
    line. A chart that fails is named at the end; exit code 1 then.
    """
    from plots import drawing  # here, because matplotlib takes its time to import

    failures: dict[str, Exception] = {}
    chosen = options.select(db, filters, sweep, origin, published, baseline)
    options.tell_all_sweeps(chosen)
    source = PlotSource(selection=chosen, command=command())
    reasons: dict[str, list[str]] = {}
    files = drawing.draw(
        source,
        out,
        charts or drawing.names(),
        formats or [PictureFormat.PNG],
        passed_over=lambda name, why: reasons.setdefault(why, []).append(name),
        failed=failures.setdefault,
    )
    paths = []
    for path in files:
        paths.append(path)
        if not as_json:
            print(visible(str(path)), flush=True)
    for why, names in reasons.items():
        print(f"chart: {', '.join(names)}: {quoted(why)}", file=sys.stderr)
    if not paths and not failures:
        raise StoreError(
            f"no picture: nothing of this selection can be drawn; see {typed('table')} "
            f"--db {masked(db)}"
        )
    if as_json:
        print(json.dumps(list(map(str, paths))))
    _end("chart", failures, "not drawn")


def report(
    db: Db,
    filters: Filters = None,
    sweep: Sweep = None,
    origin: OriginOption = None,
    published: options.SourceOption = None,
    baseline: options.BaselineOption = BaselineRule.SAME,
    out: Annotated[
        Path | None,
        typer.Option(
            help="The file; one of this name is replaced.", show_default="figures/report.html"
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """One HTML file that needs nothing else: answer, tables, charts, and a page of each trial.
    Prints its path. A part that cannot be made is named on the page and at the end; exit code 1
    then.
    """
    from plots.report import render  # here, for other commands need no templates

    failures: dict[str, Exception] = {}
    selection = options.select(db, filters, sweep, origin, published, baseline)
    options.tell_all_sweeps(selection)
    with shown() as progress:
        progress("reading results", 0, 0)
        source = PlotSource(selection=selection, command=command())
        num_trials = len(source.results)
        progress("making the page, trials", num_trials, 0)
        page = render(source, datetime.now(UTC), failed=failures.setdefault)
    path = out or Path("figures", "report.html")
    write_whole(path, page, makes_folder=out is None)
    reported = {"path": str(path), "bytes": path.stat().st_size, "trials": num_trials}
    print(json.dumps(reported) if as_json else path)
    _end("report", failures, "not in the report")


def _end(command: str, failures: Mapping[str, Exception], what: str) -> None:
    """Name the parts that failed, and exit with 1 where there are any."""
    _name(command, failures, f"{{}}: {what}: {{}}")
    if failures:
        raise typer.Exit(1)


def _name(command: str, failures: Mapping[str, Exception], message: str) -> None:
    for name, error in failures.items():
        print(f"{command}: {message.format(name, in_words(error))}", file=sys.stderr)
