"""`python -m plots watch`: tables in a terminal while a sweep runs."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import replace
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live

from analysis.options import BaselineOption, Filters, OriginOption, Sweep, own, selection
from analysis.results import BaselineRule, Origin
from plots.watch.sight import Sight, Watcher
from plots.watch.view import View
from scalemark.cli.entry_point import INTERRUPTED
from scalemark.cli.terminal import make_console
from scalemark.text.untrusted import quoted
from store.command_line import Db
from store.errors import StoreError
from store.filters.selection import attempt_ids


def watch(
    db: Db,
    filters: Filters = None,
    sweep: Sweep = None,
    origin: OriginOption = Origin.MEASURED,
    baseline: BaselineOption = BaselineRule.SAME,
    every: Annotated[
        float, typer.Option(min=0.2, max=3600, help="Seconds between two looks at the database.")
    ] = 2.0,
    once: Annotated[
        bool, typer.Option("--once", help="Draw it once, as where nobody watches.")
    ] = False,
) -> None:
    """What runs, and the tables with a bar per number, until the sweep has ended; or of the whole
    database, until one begins.

    Without --sweep the newest that runs. Ctrl-C ends it, too.
    """
    attempt_ids(filters or ())  # what is no filter is refused before anything is drawn
    console = make_console()
    with closing(Watcher(selection(db, sweep, filters, own(origin), baseline=baseline))) as watcher:
        if once or not console.is_terminal:
            console.print(View(watcher.look(), is_last=True))
            return
        try:
            _watch(console, watcher, every)
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None


def _watch(console: Console, watcher: Watcher, every_s: float) -> None:
    sight = Sight()
    with Live(console=console, auto_refresh=False) as live:
        while not sight.has_ended:
            try:
                sight = watcher.look()
                live.update(View(sight), refresh=True)
            except StoreError as error:  # it may come back
                problem = f"{quoted(str(error))}; waiting for it"
                live.update(View(replace(sight, problem=problem)), refresh=True)
            if not sight.has_ended:
                time.sleep(every_s)
        live.update(View(sight, is_last=True))
