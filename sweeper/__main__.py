"""`python -m sweeper status`: how far sweeps are, from another terminal. `python -m sweeper agent`:
joins a shared sweep.
"""

from __future__ import annotations

import sys

from scalemark.cli import entry_point

if __name__ == "__main__":
    entry_point.loading()

import json
import math
import time
from typing import Annotated

import typer
from rich.console import Group
from rich.live import Live

from scalemark.cli.terminal import make_console
from store.command_line import Db, Json, make_app
from store.command_line import run as run_app
from store.database import open_for_reading
from store.errors import StoreError
from store.live.snapshot import Snapshot
from store.live.status import snapshot_of
from store.live.view import render
from store.sweeps.sweep_status import sweep_status
from sweeper.errors import SweepRefusedError

EVERY_S = 2.0
WAIT_S = 30.0  # a controller loads and plans for so long

app = make_app("Look at sweeps that run, or join one.")


@app.command()
def status(
    db: Db,
    sweep: Annotated[
        str | None, typer.Option(help="Only this sweep; else all that run, or the newest.")
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help=f"Draw it again every {EVERY_S:g} s; Ctrl-C ends that.")
    ] = False,
    as_json: Json = False,
) -> None:
    """How far sweeps are: what runs on which device, what is done, and how long it will take."""
    if as_json and watch:
        raise typer.BadParameter("--json is written once; leave --watch out")
    if as_json:
        print(
            json.dumps(
                [json.loads(snapshot.to_json()) for snapshot in _snapshots(db, sweep)], indent=1
            )
        )
        return
    console = make_console()
    found = _snapshots(db, sweep)
    if not found:
        print("no sweep in this database yet", file=sys.stderr)
    elif watch and console.is_terminal:
        _watch(db, sweep)
    else:
        console.print(Group(*map(render, found)))


@app.command()
def agent(
    db: Db,
    sweep: Annotated[
        str, typer.Option(help="The sweep to join, begun with launcher=agents, slurm or ray.")
    ],
    hosts: Annotated[
        int, typer.Option(help="Over how many hosts it runs, which Slurm or Ray gave it.")
    ] = 1,
    idle_timeout: Annotated[
        float | None,
        typer.Option(
            help=(
                "End after so many seconds in which it ran nothing, though others still do; "
                "never in an attempt."
            ),
            show_default="when nothing of the sweep is left",
        ),
    ] = None,
    wait: Annotated[
        float, typer.Option(help="Wait so many seconds for a sweep whose command has not begun it.")
    ] = WAIT_S,
) -> None:
    """Run trials of a sweep that hosts share, on the devices of this one, until nothing of it is
    left.
    """
    from sweeper.agents.agent import Joining, run  # here, because status needs little of it

    if idle_timeout is not None and not idle_timeout >= 0:
        raise typer.BadParameter(f"--idle-timeout {idle_timeout:g}: wanted seconds, 0 or more")
    if not 0 <= wait < math.inf:
        raise typer.BadParameter(f"--wait {wait:g}: wanted seconds, 0 or more")
    try:
        raise typer.Exit(
            run(Joining(sweep=sweep, url=db, hosts=hosts, wait_s=wait, idle_timeout_s=idle_timeout))
        )
    except SweepRefusedError as error:
        raise StoreError(str(error)) from error


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


def main(program: str = "python -m sweeper") -> int:
    return run_app(app, "sweeper", program)


if __name__ == "__main__":
    sys.exit(entry_point.run(main))
