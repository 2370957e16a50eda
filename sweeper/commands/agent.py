"""`scalemark agent`: joins a sweep that hosts share."""

from __future__ import annotations

import math
from typing import Annotated

import typer

from store.command_line import Db
from store.errors import StoreError
from sweeper.agents.agent import Joining, run
from sweeper.errors import SweepRefusedError

WAIT_S = 30.0  # a controller loads and plans for so long


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
    if not 0 <= wait < math.inf:
        raise typer.BadParameter(f"--wait {wait:g}: wanted seconds, 0 or more")
    try:
        raise typer.Exit(run(Joining(sweep=sweep, url=db, hosts=hosts, wait_s=wait)))
    except SweepRefusedError as error:
        raise StoreError(str(error)) from error
