"""`python -m sweeper status`: how far sweeps are, from another terminal."""

from __future__ import annotations

import json
import sys
import time
from typing import Annotated

import typer
from rich.console import Group
from rich.live import Live

from store.command_line import Db, Json, make_app, run
from store.database import open_for_reading
from store.sweep_status import sweep_status
from store.terminal import make_console
from sweeper.live import render
from sweeper.snapshot import Snapshot
from sweeper.status import snapshot_of

EVERY_S = 2.0

app = make_app("Look at sweeps that run.")


@app.callback()
def _commands() -> None:
    """Look at sweeps that run."""


@app.command()
def status(
    db: Db,
    sweep: Annotated[str | None, typer.Option(help="Only this sweep; else all that run, or the newest.")] = None,
    watch: Annotated[bool, typer.Option("--watch", help=f"Draw it again every {EVERY_S:g} s; Ctrl-C ends that.")] = False,
    as_json: Json = False,
) -> None:
    """How far sweeps are: what runs on which device, what is done, and how long it will take."""
    if as_json and watch:
        raise typer.BadParameter("--json is written once; leave --watch out")
    if as_json:
        print(json.dumps([json.loads(snapshot.to_json()) for snapshot in _snapshots(db, sweep)], indent=1))
        return
    console = make_console()
    found = _snapshots(db, sweep)
    if not found:
        print("no sweep in this database yet", file=sys.stderr)
    elif watch and console.is_terminal:
        _watch(db, sweep)
    else:
        console.print(Group(*map(render, found)))


def _watch(db: str, sweep: str | None) -> None:
    with Live(console=make_console(), auto_refresh=False) as live:
        try:
            while True:
                live.update(Group(*map(render, _snapshots(db, sweep))), refresh=True)
                time.sleep(EVERY_S)
        except KeyboardInterrupt:
            return


def _snapshots(db: str, sweep: str | None) -> list[Snapshot]:
    return [snapshot_of(found) for found in sweep_status(open_for_reading(db), sweep)]


if __name__ == "__main__":
    sys.exit(run(app, "sweeper"))
