"""The commands of `python -m plots`: tables, charts and the report."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
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
from plots import layout, writers
from plots.source import (
    DPI,
    PictureFormat,
    PlotSource,
    Theme,
    command,
    in_words,
    write_whole,
    wrote,
)
from scalemark.cli.terminal import print_json, shown
from scalemark.host.own_code import typed
from scalemark.text.untrusted import quoted, visible
from store.command_line import Db, Json
from store.errors import StoreError
from store.reading.sweeps import not_run

_DOWN = ("strategy", "num_gpus", "model")
_ACROSS = ("num_gpus", "strategy", "model")


def tables(
    db: Db,
    filters: Filters = None,
    sweep: Sweep = None,
    rows: Annotated[
        str | None, typer.Option(help="Axes down, as model,strategy.", show_default="all that vary")
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            help="Axes across, as precision,num_gpus.",
            show_default="num_gpus, or the axis with most values",
        ),
    ] = None,
    show: Annotated[
        str | None,
        typer.Option(
            help=f"What each cell holds, of {', '.join(layout.QUANTITIES)}.",
            show_default="throughput,speed-up, and the spread where there are repeats",
        ),
    ] = None,
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
    quantities = None if show is None else layout.chosen(show)
    is_record = as_json or form in ("csv", "json")
    shows_speed_up = quantities is None or {"speed-up", "efficiency"}.intersection(quantities)
    if baseline is not BaselineRule.SAME and not is_record and not shows_speed_up:
        raise StoreError(
            f"--baseline {baseline}: no speed-up is shown; add speed-up to --show, or leave it out"
        )
    selection = select(db, filters, sweep, origin, source, baseline)
    tell_all_sweeps(selection)
    failures: dict[str, Exception] = {}
    try:
        pivoted = _pivoted(load(selection), rows, columns)
        document = layout.document(pivoted, selection, quantities, failures.setdefault)
    finally:
        for name, error in failures.items():
            print(f"plots: no {name}: {in_words(error)}", file=sys.stderr)
    if out is None:
        write(document, sys.stdout)
    else:
        writers.write_file(document, write, out)
    if failures:
        raise typer.Exit(1)


def _pivoted(results: Sequence[Result], rows: str | None, columns: str | None) -> list[Table]:
    """Return tables with these axes down and across; the usual ones where none are named."""
    if rows is None and columns is None:
        return usual_tables(results)
    across = _axes(columns)
    down = _axes(rows) or _first_free(_DOWN, across)
    if rows is None and down == ["strategy"] and "hosts" not in across:
        down = list(lines(results))
    return pivot(results, tuple(down), tuple(across or _first_free(_ACROSS, _axes(rows))))


def _axes(names: str | None) -> list[str]:
    return [name.strip() for name in names.split(",")] if names is not None else []


def _first_free(usual: Sequence[str], taken: Sequence[str]) -> list[str]:
    """Return the first axis that does not go the other way already."""
    free = [axis for axis in usual if axis not in taken]
    return free[:1]


def charts(
    db: Db,
    filters: Filters = None,
    sweep: Sweep = None,
    origin: OriginOption = None,
    published: SourceOption = None,
    baseline: BaselineOption = BaselineRule.SAME,
    chart: Annotated[
        list[str] | None, typer.Option(help="Draw only this one; may be repeated; see --list.")
    ] = None,
    list_charts: Annotated[
        bool, typer.Option("--list", help="Name the charts, and draw none.")
    ] = False,
    formats: Annotated[
        str, typer.Option("--format", help="png, svg or pdf; several as png,svg.")
    ] = PictureFormat.PNG,
    theme: Annotated[
        list[Theme] | None, typer.Option(help="Ground; may be given twice.", show_default="light")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the files.")] = Path("figures"),
    dpi: Annotated[int, typer.Option(help="Pixels per inch of a PNG.", min=50, max=1200)] = DPI,
    as_json: Json = False,
) -> None:
    """Draw the results, and print the paths of the pictures; why a chart has none is said in a
    line. A chart that fails is named at the end; exit code 1 then.
    """
    from plots import drawing  # here, because matplotlib takes its time to import

    failures: dict[str, Exception] = {}
    if list_charts:
        _list(drawing.abouts(failures.setdefault), as_json=as_json)
        return _end(failures, "not drawn")
    chosen = select(db, filters, sweep, origin, published, baseline)
    tell_all_sweeps(chosen)
    source = PlotSource(selection=chosen, command=command())
    reasons: dict[str, list[str]] = {}
    files = drawing.draw(
        source,
        out,
        chart or drawing.names(),
        _formats(formats),
        theme or [Theme.LIGHT],
        passed_over=lambda name, why: reasons.setdefault(why, []).append(name),
        failed=failures.setdefault,
        dpi=dpi,
    )
    paths = []
    is_for_people = sys.stdout.isatty() and not as_json
    for path in files:
        paths.append(path)
        if not is_for_people and not as_json:
            print(path, flush=True)
    if paths and is_for_people:
        print(visible(wrote(paths)))
    for why, names in reasons.items():
        print(f"plots: {', '.join(names)}: {quoted(why)}", file=sys.stderr)
    if not paths and not failures:
        raise StoreError(
            f"no picture: nothing of this selection can be drawn; see {typed('plots')} tables "
            f"--db {source.database}"
        )
    if as_json:
        print(json.dumps(list(map(str, paths))))
    _end(failures, "not drawn")


def _formats(text: str) -> list[PictureFormat]:
    known = list(PictureFormat)
    wanted = []
    for part in text.split(","):
        form = part.strip().lower()
        if form not in known:
            raise StoreError(f"--format {text}: {form!r} is none; wanted some of {','.join(known)}")
        wanted.append(PictureFormat(form))
    return wanted


def _list(abouts: Mapping[str, str], *, as_json: bool) -> None:
    if as_json:
        return print_json([{"chart": name, "about": text} for name, text in abouts.items()])
    width = max(map(len, abouts))
    for name, text in abouts.items():
        print(f"{name:<{width}}  {text}")


def report(
    db: Db,
    filters: Filters = None,
    sweep: Sweep = None,
    origin: OriginOption = None,
    published: SourceOption = None,
    baseline: BaselineOption = BaselineRule.SAME,
    out: Annotated[Path, typer.Option(help="The file; one of this name is replaced.")] = Path(
        "report.html"
    ),
    watch: Annotated[
        bool, typer.Option("--watch", help="Write it anew every 30 s while the sweep runs.")
    ] = False,
    as_json: Json = False,
) -> None:
    """One HTML file that needs nothing else: answer, tables, charts, and a page of each trial.
    Prints its path. A part that cannot be made is named on the page and at the end; exit code 1
    then.
    """
    from plots.report import REFRESH_S, render  # here, for other commands need no templates

    chosen = select(db, filters, sweep, origin, published, baseline)
    tell_all_sweeps(chosen)
    is_running = True
    while is_running:
        source = PlotSource(selection=chosen, command=command())
        is_running = watch and _runs(source)
        failures: dict[str, Exception] = {}
        with shown() as progress:
            progress("reading results", 0, 0)
            num_trials = len(source.results)
            progress("making the page, trials", num_trials, 0)
            refresh_s = REFRESH_S if is_running else 0
            page = render(
                source, datetime.now(UTC), failed=failures.setdefault, refresh_s=refresh_s
            )
            write_whole(out, page)
        if is_running:
            time.sleep(REFRESH_S)
    reported = {"path": str(out), "bytes": out.stat().st_size, "trials": num_trials}
    print(json.dumps(reported) if as_json else out)
    _end(failures, "not in the report")


def _runs(source: PlotSource) -> bool:
    """Return whether one of its sweeps has trials left, and a process that runs them."""
    for row in source.sweeps:
        left = not_run(source.engine, row["name"])
        if left is not None and left.is_running:
            return True
    return False


def _end(failures: Mapping[str, Exception], what: str) -> None:
    """Name the parts that failed, and exit with 1 where there are any."""
    for name, error in failures.items():
        print(f"plots: {name}: {what}: {in_words(error)}", file=sys.stderr)
    if failures:
        raise typer.Exit(1)
