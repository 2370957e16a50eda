"""`python -m plots report`: one page to send to a colleague."""

from __future__ import annotations

import json
import sys
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
from plots.options import command
from plots.parts import in_words
from plots.source import Source
from plots.whole_file import draft_of
from scalemark.cli.progress import shown
from store.command_line import Db, Json
from store.errors import StoreError


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
    as_json: Json = False,
) -> None:
    """One HTML file that needs nothing else: summary, tables, charts, and the command of each
    trial. Prints its path. A part that cannot be made is named on the page and at the end; exit
    code 1 then.
    """
    from plots.report.page import render  # here, because other commands need no templates

    chosen = select(db, filters, sweep, origin, published, baseline)
    tell_all_sweeps(chosen)
    source = Source(selection=chosen, command=command())
    with shown() as progress:
        progress("reading results", 0, 0)
        num_trials = len(source.results)
        progress("making the page, trials", num_trials, 0)
        failures: dict[str, Exception] = {}
        write(out, render(source, datetime.now(UTC), failed=failures.setdefault))
    for name, error in failures.items():
        print(f"plots: not in the report: {name}: {in_words(error)}", file=sys.stderr)
    reported = {"path": str(out), "bytes": out.stat().st_size, "trials": num_trials}
    print(json.dumps(reported) if as_json else out)
    if failures:
        raise typer.Exit(1)


def write(out: Path, text: str) -> None:
    """Write the file whole or not at all. Raises StoreError when it cannot."""
    try:
        with draft_of(out) as draft:
            draft.write_text(text, encoding="utf-8")
    except OSError as error:
        raise StoreError(f"{out}: {error.strerror}; choose another file with --out") from error
