"""`scalemark status`: how far sweeps are, from another terminal."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from rich.console import Group

from scalemark.cli import entry_point
from scalemark.cli.terminal import make_console, print_json
from store.command_line import Db, Json
from sweeper.live import status as live
from sweeper.live.view import render


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
