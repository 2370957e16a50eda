"""`python -m store rebuild`: a lost database out of the run folders of its sweeps."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Annotated

import typer

from scalemark.cli.terminal import print_json, shown
from scalemark.text.untrusted import visible
from scalemark.text.wording import counted
from store.command_line import Db, Json
from store.commands.exchange import SOME_REJECTED, print_rejected
from store.upkeep import rebuild as rebuilding


def rebuild(
    runs_dirs: Annotated[
        list[str],
        typer.Argument(help="Folders with sweeps in them, or of sweeps.", show_default=False),
    ],
    db: Db,
    as_json: Json = False,
) -> None:
    """Make a lost database again out of run folders; what is in it stays as it is. Exit code 1 when
    folders are damaged.
    """
    with shown() as progress:
        done = rebuilding.rebuild(db, runs_dirs, progress)
    if as_json:
        print_json(asdict(done))
    else:
        for warning in done.warnings:
            print(f"store: {visible(warning)}", file=sys.stderr)
        print(f"{counted(done.num_sweeps, 'sweep')} found")
        attempts = counted(done.num_new, "attempt")
        print(f"{attempts} imported, {done.num_known:,} were there already")
        print_rejected(done.rejected)
    if done.rejected:
        raise typer.Exit(SOME_REJECTED)
