"""Answers `scalemark status`: shows how sweeps are, from the database."""

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group

from scalemark.cli.terminal import make_console, print_json
from scalemark.records.machine import DeviceKind
from scalemark.run_folder import RunFolder
from store.command_line import Db, Json
from store.database import open_for_reading
from store.reading import sweeps
from sweeper.live.view import RunningAttempt, Snapshot, counts_of, doing_text, render


def status(
    db: Db,
    sweep: Annotated[
        str | None, typer.Option(help="Only this sweep; else all that run, or the newest.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show how far sweeps are: what runs on which device, what is done, how long it will take; and
    the command that goes on with one that was ended.
    """
    shown = [snapshot_of(status) for status in sweeps.sweep_status(open_for_reading(db), sweep)]
    if as_json:
        print_json(shown)
    elif shown:
        # commands in notes are longer than a line, and are copied
        make_console().print(Group(*map(render, shown)), soft_wrap=True)
    else:
        print("no sweep in this database yet", file=sys.stderr)


def snapshot_of(status: sweeps.SweepStatus) -> Snapshot:
    """Return what is drawn of a sweep that runs, has ended, or was killed."""
    now = datetime.now(UTC)
    running: list[RunningAttempt] = []
    eta_s, kind = None, str(DeviceKind.CPU_DEVICE)
    note = f"{status.state}; what is left is run by: {status.typed_command}"
    if status.finished_at is not None:
        note = f"finished {status.finished_at:%Y-%m-%d %H:%M:%S} UTC"
    if status.state is sweeps.SweepState.RUNNING:
        note = f"running since {status.started_at:%Y-%m-%d %H:%M:%S} UTC"
        running = [_running(repeat, now) for repeat in status.running]
        eta_s = status.eta_s
    for repeat in (*status.last_finished, *status.running):
        kind = repeat.device_kind
    machine = "imported, or rebuilt from run folders"
    if status.orchestrator is not None:
        process = status.orchestrator.process
        machine = f"{process.host}, process {process.pid}"
    return Snapshot(
        sweep=status.name,
        state=status.state,
        machine=machine,
        kind=DeviceKind(kind),
        running=tuple(running),
        counts=counts_of(status.counts, len(running)),
        recent=tuple(reversed(status.last_finished)),
        eta_s=eta_s,
        notes=(note,),
    )


def _running(repeat: sweeps.RunningRepeat, now: datetime) -> RunningAttempt:
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
