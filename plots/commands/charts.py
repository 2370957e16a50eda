"""`python -m plots charts`: pictures."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Annotated

import typer

from analysis.options import (
    BaselineOption,
    Filters,
    OriginOption,
    SourceOption,
    Sweep,
    select,
    tell_all_sweeps,
)
from analysis.results import BaselineRule
from plots.options import DPI, PictureFormat, Theme, command, in_words, wrote
from plots.source import PlotSource
from scalemark.cli.terminal import print_json
from scalemark.host.own_code import typed
from scalemark.text.untrusted import quoted, visible
from store.command_line import Db, Json
from store.errors import StoreError

_PATIENCE_S = 2.0  # until a first word, and between words


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
    width: Annotated[
        int | None,
        typer.Option(help="Pixels of a PNG's width, instead of --dpi.", min=200, max=8000),
    ] = None,
    log: Annotated[
        bool, typer.Option("--log", help="Logarithmic axes where a chart has curves.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Draw the results, and print the paths of the pictures; why a chart has none is said in a
    line. A chart that fails is named at the end; exit code 1 then.
    """
    from plots import drawing

    failures: dict[str, Exception] = {}
    if list_charts:
        _list(drawing.abouts(failures.setdefault), as_json=as_json)
        return _end(failures)
    chosen = select(db, filters, sweep, origin, published, baseline)
    tell_all_sweeps(chosen)
    source = PlotSource(selection=chosen, command=command(), is_log=log)
    reasons: dict[str, list[str]] = {}
    files = drawing.draw(
        source,
        out,
        chart or drawing.names(),
        _formats(formats),
        theme or [Theme.LIGHT],
        lambda name, why: reasons.setdefault(why, []).append(name),
        failed=failures.setdefault,
        resolution=drawing.Resolution(dpi=dpi, width_px=width),
    )
    paths = []
    is_for_people = sys.stdout.isatty() and not as_json
    for path in with_progress(files, time.monotonic):
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
        print(json.dumps([str(path) for path in paths]))
    _end(failures)


def _end(failures: dict[str, Exception]) -> None:
    for name, error in failures.items():
        print(f"plots: {name}: not drawn: {in_words(error)}", file=sys.stderr)
    if failures:
        raise typer.Exit(1)


def with_progress(paths: Iterable[Path], now: Callable[[], float]) -> Iterator[Path]:
    """Yield the paths; on stderr say how many there are so far, when it takes long."""
    last_s = now()
    for number, path in enumerate(paths, start=1):
        yield path
        if now() - last_s > _PATIENCE_S:
            print(
                f"plots: {number} files so far, {path.name} the last", file=sys.stderr, flush=True
            )
            last_s = now()


def _formats(text: str) -> list[PictureFormat]:
    known = list(PictureFormat)
    wanted = [part.strip().lower() for part in text.split(",") if part.strip()]
    for part in wanted or [text]:
        if part not in known:
            raise StoreError(f"--format {text}: {part!r} is none; wanted some of {','.join(known)}")
    return [PictureFormat(part) for part in wanted]


def _list(abouts: dict[str, str], *, as_json: bool) -> None:
    if as_json:
        return print_json([{"chart": name, "about": text} for name, text in abouts.items()])
    for name, text in abouts.items():
        print(f"{name:<{max(map(len, abouts))}}  {text}")
