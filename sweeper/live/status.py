"""Answers `scalemark status`: shows how sweeps are from the database, once or again and again."""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from scalemark.cli import entry_point
from scalemark.cli.terminal import make_console, print_json
from scalemark.records.machine import DeviceKind
from scalemark.run_folder import RunFolder
from scalemark.text.untrusted import quoted
from store.command_line import Db, Json
from store.database import open_for_reading
from store.errors import AwayError, LockedError, NoSweepError
from store.sweeps.sweep_status import (
    FinishedRepeat,
    RunningRepeat,
    SweepState,
    SweepStatus,
    sweep_status,
)
from sweeper.live.snapshot import Counts, EndedAttempt, RunningAttempt, Snapshot, doing_text
from sweeper.live.view import render

EVERY_S = 2.0  # other processes write to this database meanwhile
NONE_RUNS = "no sweep is running; one that begins is shown"


def status(
    db: Db,
    sweep: Annotated[
        str | None, typer.Option(help="Only this sweep; else all that run, or the newest.")
    ] = None,
    watch: Annotated[
        bool,
        typer.Option(
            "--watch",
            help=f"Draw it again every {EVERY_S:g} s, until the sweep has ended; or Ctrl-C.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Show how far sweeps are: what runs on which device, what is done, how long it will take; and
    the command that goes on with one that was ended.
    """
    if as_json and watch:
        raise typer.BadParameter("--json is written once; leave --watch out")
    console = make_console()
    if watch and console.is_terminal:
        try:
            watch_sweeps(console, db, sweep)
        except KeyboardInterrupt:
            raise typer.Exit(entry_point.INTERRUPTED) from None
        return
    shown = snapshots(db, sweep)
    if as_json:
        print_json([snapshot.to_json() for snapshot in shown])
    elif shown:
        # commands in notes are longer than a line, and are copied
        console.print(Group(*map(render, shown)), soft_wrap=True)
    else:
        print("no sweep in this database yet", file=sys.stderr)


def snapshots(db: str, sweep: str | None) -> list[Snapshot]:
    """Return the named sweep; without a name all that run, else the newest. Raises StoreError."""
    engine = open_for_reading(db)
    try:
        return [snapshot_of(found) for found in sweep_status(engine, sweep)]
    finally:
        engine.dispose()  # a watch looks every few seconds


def watch_sweeps(console: Console, db: str, sweep: str | None) -> None:
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


def snapshot_of(status: SweepStatus) -> Snapshot:
    """Return what is drawn of a sweep that runs, has ended, or was killed."""
    now = datetime.now(UTC)
    running: list[RunningAttempt] = []
    eta_s = None
    if status.state is SweepState.RUNNING:
        running = [_running(repeat, now) for repeat in status.running]
        eta_s = status.eta_s
    kinds = [repeat.device_kind for repeat in (*status.running, *status.last_finished)]
    devices = {slot for attempt in running for slot in attempt.slots}
    return Snapshot(
        sweep=status.name,
        state=status.state,
        machine=_where(status),
        kind=DeviceKind(kinds[0]) if kinds else DeviceKind.CPU_DEVICE,
        slots=tuple(sorted(devices)),
        running=tuple(running),
        counts=Counts.of(status.counts, len(running)),
        recent=tuple(_ended(repeat) for repeat in reversed(status.last_finished)),
        eta_s=eta_s,
        notes=(_note(status),),
    )


def _where(status: SweepStatus) -> str:
    if status.orchestrator is None:
        return "imported, or rebuilt from run folders"
    process = status.orchestrator.process
    return f"{process.host}, process {process.pid}"


def _note(status: SweepStatus) -> str:
    if status.state is SweepState.RUNNING:
        return f"running since {status.started_at:%Y-%m-%d %H:%M:%S} UTC"
    if status.finished_at is not None:
        return f"finished {status.finished_at:%Y-%m-%d %H:%M:%S} UTC"
    return f"{status.state}; what is left is run by: {status.typed_command}"


def _running(repeat: RunningRepeat, now: datetime) -> RunningAttempt:
    folder = RunFolder(Path(repeat.run_dir))
    try:
        doing = doing_text(folder, folder.read_trial())
    except (OSError, ValueError):  # the folder of another machine's attempt may be out of reach
        doing = "unknown"
    return RunningAttempt(
        slots=repeat.placement.devices,
        label=repeat.label,
        repeat=repeat.repeat,
        attempt=repeat.attempt,
        doing=doing,
        elapsed_s=(now - repeat.started_at).total_seconds(),
        expected_s=None,
    )


def _ended(repeat: FinishedRepeat) -> EndedAttempt:
    return EndedAttempt(
        label=repeat.label,
        outcome=repeat.outcome,
        message=repeat.message,
        duration_s=repeat.duration_s or 0.0,
        throughput=repeat.throughput,
        item=repeat.item,
        verdict=repeat.verdict,
    )
