"""Commands: `python -m sweeper status` shows how far sweeps are, from another terminal; `python -m
sweeper agent` joins a shared sweep.
"""

from __future__ import annotations

import sys

from scalemark.cli import entry_point

if __name__ == "__main__":
    entry_point.loading()

import math
from typing import Annotated

import typer
from rich.console import Group

from scalemark.cli.terminal import make_console, print_json
from store.command_line import Db, Json, make_app
from store.command_line import run as run_app
from store.errors import StoreError
from sweeper.errors import SweepRefusedError
from sweeper.live import status as live
from sweeper.live.view import render

WAIT_S = 30.0  # a controller loads and plans for so long

app = make_app("Look at sweeps that run, or join one.")


@app.command()
def status(
    db: Db,
    sweep: Annotated[
        str | None, typer.Option(help="Only this sweep; else all that run, or the newest.")
    ] = None,
    watch: Annotated[
        bool,
        typer.Option(
            "--watch",
            help=f"Draw it again every {live.EVERY_S:g} s, until the sweep has ended; or Ctrl-C.",
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
            live.watch(console, db, sweep)
        except KeyboardInterrupt:
            raise typer.Exit(entry_point.INTERRUPTED) from None
        return
    found = live.snapshots(db, sweep)
    if as_json:
        print_json([snapshot.to_json() for snapshot in found])
    elif found:
        shown = [render(snapshot, cuts_notes=False) for snapshot in found]
        console.print(Group(*shown), soft_wrap=True)  # commands of notes are longer than a line
    else:
        print("no sweep in this database yet", file=sys.stderr)


@app.command()
def agent(
    db: Db,
    sweep: Annotated[
        str, typer.Option(help="The sweep to join, begun with launcher=agents, slurm or ray.")
    ],
    hosts: Annotated[
        int, typer.Option(help="Over how many hosts it runs, which Slurm or Ray gave it.")
    ] = 1,
    wait: Annotated[
        float, typer.Option(help="Wait so many seconds for a sweep whose command has not begun it.")
    ] = WAIT_S,
) -> None:
    """Run trials of a sweep that hosts share, on the devices of this one, until nothing of it is
    left.
    """
    from sweeper.agents.agent import Joining, run  # here, because status needs little of it

    if not 0 <= wait < math.inf:
        raise typer.BadParameter(f"--wait {wait:g}: wanted seconds, 0 or more")
    try:
        raise typer.Exit(run(Joining(sweep=sweep, url=db, hosts=hosts, wait_s=wait)))
    except SweepRefusedError as error:
        raise StoreError(str(error)) from error


def main(program: str = "python -m sweeper") -> int:
    return run_app(app, "sweeper", program)


if __name__ == "__main__":
    sys.exit(entry_point.run(main))
