"""Draws the live view in a second terminal again and again, from the database."""

from __future__ import annotations

import time

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from scalemark.text.untrusted import quoted
from store.database import open_for_reading
from store.errors import AwayError, LockedError, NoSweepError
from store.sweeps.sweep_status import SweepState, sweep_status
from sweeper.live.snapshot import Snapshot
from sweeper.live.status import snapshot_of
from sweeper.live.view import render

EVERY_S = 2.0
NONE_RUNS = "no sweep is running; one that begins is shown"


def snapshots(db: str, sweep: str | None) -> list[Snapshot]:
    """Return the named sweep; without a name all that run, else the newest. Raises StoreError."""
    return [snapshot_of(found) for found in sweep_status(open_for_reading(db), sweep)]


def watch(console: Console, db: str, sweep: str | None) -> None:
    """Draw sweeps until they have ended. Without a name wait for one that runs, also for its
    database; one that cannot be read at the moment is waited for, too.

    Raises StoreError for what waiting does not mend, as a name that no sweep has.
    """
    shown: list[Snapshot] = []
    has_run = sweep is not None
    with Live(console=console, auto_refresh=False) as live:
        while True:
            problem = ""
            try:
                shown = snapshots(db, sweep)
            except (AwayError, LockedError, NoSweepError) as error:
                if isinstance(error, NoSweepError) and sweep is not None:
                    raise
                problem = f"{quoted(str(error))}; waiting for it"
            runs = any(one.state is SweepState.RUNNING for one in shown)
            has_run = has_run or runs
            if not runs and not has_run and not problem:
                problem = NONE_RUNS
            note = [Text(problem, style="bold yellow")] if problem else []
            live.update(Group(*note, *map(render, shown)), refresh=True)
            if has_run and not runs and not problem:
                return
            time.sleep(EVERY_S)
