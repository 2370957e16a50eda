"""`python -m plots report`: one page to send to a colleague."""

from __future__ import annotations

import json
import sys
import time
from datetime import UTC, datetime
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
from plots.options import command, draft_of, in_words
from plots.source import PlotSource
from scalemark.cli.terminal import shown
from store.command_line import Db, Json
from store.errors import StoreError
from store.reading.sweeps import not_run


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
    from plots.report.page import REFRESH_S, render  # here, for other commands need no templates

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
            now = datetime.now(UTC)
            write(out, render(source, now, failed=failures.setdefault, refresh_s=refresh_s))
        if is_running:
            time.sleep(REFRESH_S)
    for name, error in failures.items():
        print(f"plots: not in the report: {name}: {in_words(error)}", file=sys.stderr)
    reported = {"path": str(out), "bytes": out.stat().st_size, "trials": num_trials}
    print(json.dumps(reported) if as_json else out)
    if failures:
        raise typer.Exit(1)


def _runs(source: PlotSource) -> bool:
    """Return whether one of its sweeps has trials left, and a process that runs them."""
    left = [not_run(source.engine, sweep["name"]) for sweep in source.sweeps]
    return any(part is not None and part.is_running for part in left)


def write(out: Path, text: str) -> None:
    """Write the file whole or not at all. Raises StoreError when it cannot."""
    try:
        with draft_of(out) as draft:
            draft.write_text(text, encoding="utf-8")
    except OSError as error:
        raise StoreError(f"{out}: {error.strerror}; choose another file with --out") from error
