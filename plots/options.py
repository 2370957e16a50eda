"""Options of `plots` alone, and the selection that its commands share; see `analysis.options`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from plots.tables.cells import QUANTITIES
from scalemark.host.own_code import typed
from scalemark.text.untrusted import command_line

RowsOption = Annotated[
    str | None,
    typer.Option(
        "--rows",
        help="Axes down, as model,strategy.",
        show_default="all that vary",
    ),
]
ColumnsOption = Annotated[
    str | None,
    typer.Option(
        "--columns",
        help="Axes across, as precision,num_gpus.",
        show_default="num_gpus, or the axis with most values",
    ),
]
ShowOption = Annotated[
    str | None,
    typer.Option(
        "--show",
        help=f"What each cell holds, of {', '.join(QUANTITIES)}.",
        show_default="throughput,speed-up, and the spread where there are repeats",
    ),
]


def command() -> str:
    """Return this command line, as it can be typed again; without passwords."""
    return f"{typed('plots')} {command_line(sys.argv[1:])}"
