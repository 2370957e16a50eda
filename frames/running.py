"""Runs a sweep from a notebook or a program, as `python sweep.py -m` does."""

from __future__ import annotations

import sys
import threading

from frames.choice import Choice
from frames.results import Results
from scalemark.host.own_code import import_ours, typed
from store.errors import StoreError
from sweeper.errors import SweepRefusedError


def sweep(*overrides: str) -> Results:
    """Run the sweep that `overrides` ask for, as `python sweep.py -m` does, and return its results.

    `overrides` are those of the command line: `"model=resnet50,vgg16", "num_gpus=1,2,4,8"`. Each
    trial runs in a process of its own; progress is written to stderr. What finished earlier is not
    run again, and failed trials are results, too. Nothing is drawn; `Results.chart` does that.

    Raises SweepRefusedError or StoreError where the command would refuse to start, and for a plan
    alone (`sweep.dry_run=true`), which is printed and has no results; StoreError when
    the database is lost on the way, and KeyboardInterrupt after an interrupt, when what was running
    has ended; the same call then goes on.
    """
    if threading.current_thread() is not threading.main_thread():
        raise SweepRefusedError(
            "scalemark.sweep: it runs in the main thread alone, where an interrupt reaches it; "
            f"another thread can start `{typed('sweep')}`"
        )
    program = import_ours("sweep")
    before, sys.argv = sys.argv, ["sweep.py"]  # Hydra reads it, and the database keeps it
    try:
        report = program.run(list(overrides))
    finally:
        sys.argv = before
    if report is None:
        raise SweepRefusedError(
            f"{' '.join(overrides)}: a plan and help are printed, and have no results; leave "
            "sweep.dry_run and flags out"
        )
    program.tell(report)
    if report.ran.failure:
        raise StoreError(report.ran.failure)
    if report.ran.was_interrupted:
        raise KeyboardInterrupt
    return Results(Choice(db=report.store_url, sweep=report.name))
