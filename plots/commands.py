"""`scalemark table`, `chart` and `report`."""

import json
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from io import StringIO
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
from analysis.selection import NothingFoundError, load
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
from store.database import one_view, open_for_reading
from store.errors import StoreError
from store.reading.sweeps import SweepState, sweep_status

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
    show_default="as --out ends, else terminal",
)
_TableFile = typer.Option(help="File to write, instead of the terminal.")


def table(
    db: Db,
    filters: Filters = None,
    sweep: Sweep = None,
    rows: Annotated[str | None, _Rows] = None,
    columns: Annotated[str | None, _Columns] = None,
    show: Annotated[str | None, _Show] = None,
    baseline: BaselineOption = BaselineRule.SAME,
    origin: OriginOption = None,
    source: SourceOption = None,
    form: Annotated[str | None, _Form] = None,
    as_json: Json = False,
    out: Annotated[Path | None, _TableFile] = None,
) -> None:
    """Print a table per model: what was varied down, GPU counts across, throughput and speed-up in
    the cells; or any axes down and across. A table that cannot be made is named, and the others are
    printed; exit code 1 then.
    """
    if form is None and out is not None and not as_json:
        form = writers.of_file(out)
    write = writers.chosen(form, as_json)
    names = (show or "").split(",")
    is_record = as_json or form in ("csv", "json")
    shows_speed_up = show is None or {"speed-up", "efficiency"}.intersection(names)
    if baseline is not BaselineRule.SAME and not is_record and not shows_speed_up:
        raise StoreError(
            f"--baseline {baseline}: no speed-up is shown; add speed-up to --show, or leave it out"
        )
    selection = select(db, filters, sweep, origin, source, baseline)
    tell_all_sweeps(selection)
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
        if out is None:
            write(document, sys.stdout)
        else:
            paper = StringIO()
            write(document, paper)
            write_whole(out, paper.getvalue())
    finally:
        _name("table", failures, "no {}: {}")
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
    if names is not None:
        return [name.strip() for name in names.split(",")]
    return []


def _first_free(usual: Sequence[str], taken: Sequence[str]) -> list[str]:
    """Return the first axis that does not go the other way already."""
    free = [axis for axis in usual if axis not in taken]
    return free[:1]


_Chart = typer.Option("--chart", help="Draw only this one; may be repeated; see --list.")
_Formats = typer.Option("--format", help="png, svg or pdf; several as png,svg.")
_Theme = typer.Option(help="Ground; may be given twice.", show_default="light")
_Dpi = typer.Option(help="Pixels per inch of a PNG.", min=50, max=1200)


def chart(
    db: Db,
    filters: Filters = None,
    sweep: Sweep = None,
    origin: OriginOption = None,
    published: SourceOption = None,
    baseline: BaselineOption = BaselineRule.SAME,
    charts: Annotated[list[str] | None, _Chart] = None,
    list_charts: Annotated[
        bool, typer.Option("--list", help="Name the charts, and draw none.")
    ] = False,
    formats: Annotated[str, _Formats] = PictureFormat.PNG,
    theme: Annotated[list[Theme] | None, _Theme] = None,
    out: Annotated[Path, typer.Option(help="Folder for the files.")] = Path("figures"),
    dpi: Annotated[int, _Dpi] = DPI,
    as_json: Json = False,
) -> None:
    """Draw the results, and print the paths of the pictures; why a chart has none is said in a
    line. A chart that fails is named at the end; exit code 1 then.
    """
    from plots import drawing  # here, because matplotlib takes its time to import

    failures: dict[str, Exception] = {}
    if list_charts:
        return _list(as_json=as_json)
    chosen = select(db, filters, sweep, origin, published, baseline)
    tell_all_sweeps(chosen)
    source = PlotSource(selection=chosen, command=command())
    reasons: dict[str, list[str]] = {}
    files = drawing.draw(
        source,
        out,
        charts or drawing.names(),
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
        print(f"chart: {', '.join(names)}: {quoted(why)}", file=sys.stderr)
    if not paths and not failures:
        raise StoreError(
            f"no picture: nothing of this selection can be drawn; see {typed('table')} "
            f"--db {source.database}"
        )
    if as_json:
        print(json.dumps(list(map(str, paths))))
    _end("chart", failures, "not drawn")


def _formats(text: str) -> list[PictureFormat]:
    known = list(PictureFormat)
    wanted = []
    for part in text.split(","):
        form = part.strip().lower()
        if form not in known:
            raise StoreError(f"--format {text}: {form!r} is none; wanted some of {','.join(known)}")
        wanted.append(PictureFormat(form))
    return wanted


def _list(*, as_json: bool) -> None:
    from plots import drawing

    failures: dict[str, Exception] = {}
    abouts = drawing.abouts(failures.setdefault)
    if as_json:
        print_json([{"chart": name, "about": text} for name, text in abouts.items()])
    else:
        width = max(map(len, abouts))
        for name, text in abouts.items():
            print(f"{name:<{width}}  {text}")
    _end("chart", failures, "not drawn")


def report(
    db: Db,
    filters: Filters = None,
    sweep: Sweep = None,
    origin: OriginOption = None,
    published: SourceOption = None,
    baseline: BaselineOption = BaselineRule.SAME,
    out: Annotated[
        Path | None,
        typer.Option(
            help="The file; one of this name is replaced.", show_default="figures/report.html"
        ),
    ] = None,
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

    failures: dict[str, Exception] = {}
    source: PlotSource | None = None
    path, is_running = Path(), True
    while is_running:
        with one_view(), shown() as progress:
            progress("reading results", 0, 0)
            is_running = watch and _runs(db, sweep)
            try:
                if source is None:
                    selection = select(db, filters, sweep, origin, published, baseline)
                    tell_all_sweeps(selection)
                source = PlotSource(selection=selection, command=command())
                progress("making the page, trials", len(source.results), 0)
                failures.clear()
                now, refresh_s = datetime.now(UTC), REFRESH_S if is_running else 0
                page = render(source, now, failed=failures.setdefault, refresh_s=refresh_s)
                path = out or Path("figures", f"{source.file_name('report')}.html")
                write_whole(path, page, makes_folder=out is None)
            except NothingFoundError:
                source = None
                if not is_running:  # else there may be a number soon
                    raise
        if is_running:
            time.sleep(REFRESH_S)
    num_trials = len(source.results) if source else 0
    reported = {"path": str(path), "bytes": path.stat().st_size, "trials": num_trials}
    print(json.dumps(reported) if as_json else path)
    _end("report", failures, "not in the report")


def _runs(db: str, sweep: str | None) -> bool:
    """Return whether a process runs the sweep; without a name, any."""
    statuses = sweep_status(open_for_reading(db), sweep)
    return any(status.state is SweepState.RUNNING for status in statuses)


def _end(command: str, failures: Mapping[str, Exception], what: str) -> None:
    """Name the parts that failed, and exit with 1 where there are any."""
    _name(command, failures, f"{{}}: {what}: {{}}")
    if failures:
        raise typer.Exit(1)


def _name(command: str, failures: Mapping[str, Exception], message: str) -> None:
    for name, error in failures.items():
        print(f"{command}: {message.format(name, in_words(error))}", file=sys.stderr)
