"""Options and output that commands about results share."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from textwrap import wrap
from typing import Annotated

import typer
from rich.console import Console

from analysis.results import BaselineRule
from analysis.selection import Selection, choose
from scalemark.cli.terminal import READING_WIDTH, reading_width
from scalemark.host.own_code import typed
from scalemark.records.references import Origin
from scalemark.text.untrusted import visible
from scalemark.text.wording import continued
from store.database import open_for_reading
from store.errors import StoreError
from store.reading.sweeps import newest_sweeps

Filters = Annotated[
    list[str] | None,
    typer.Argument(
        help="As model=resnet50 'num_gpus>=4' model=vgg16,alexnet 'sweep~night*'; see store list.",
        show_default=False,
    ),
]
Sweep = Annotated[str | None, typer.Option(help="Only the trials this sweep asked for.")]
OriginOption = Annotated[
    Origin | None,
    typer.Option(
        "--origin",
        help="Numbers that we measured or simulated, those that others published, or those of "
        "tables, which were measured elsewhere.",
        show_default="that of the newest sweep that matches",
    ),
]
All = Annotated[bool, typer.Option("--all", help="Everything that is known, at length.")]
Brief = Annotated[bool, typer.Option("--brief", help="The headline alone.")]
SourceOption = Annotated[
    str | None,
    typer.Option(
        "--source",
        help=(
            "Only these published figures, as tf-benchmarks-2017 or tf-benchmarks-2017/k80, or "
            "this table."
        ),
    ),
]
BaselineOption = Annotated[
    BaselineRule,
    typer.Option(
        "--baseline",
        help=(
            "What speed-ups are against: the same strategy on 1 GPU, the best on 1, or the same "
            "on the fewest it ran on."
        ),
    ),
]


def of_known_programs(origin: Origin | None, what: str) -> None:
    """Refuse numbers that were measured elsewhere with StoreError, for commands that must know what
    ran: `what` they say of it.
    """
    if origin is Origin.ELSEWHERE:
        raise StoreError(
            f"--origin {origin}: a table says how fast a program was, and not what it did, so that "
            f"{what} cannot be said; see {typed('analysis')} scaling or advise --origin {origin}"
        )


def select(
    db: str,
    filters: Sequence[str] | None,
    sweep: str | None,
    origin: Origin | None,
    source: str | None = None,
    baseline: BaselineRule = BaselineRule.SAME,
) -> Selection:
    """Choose results as `analysis.selection.choose`, and say on stderr how to see other origins."""
    chosen = choose(db, filters or (), sweep, origin, source, baseline)
    tell(chosen.note)
    return chosen.selection


def tell_all_sweeps(selection: Selection) -> None:
    """Say on stderr that numbers are of all sweeps, where there are several and nothing chose:
    other commands then take the newest.
    """
    if not selection.origin.is_ours or selection.sweep is not None or selection.filters:
        return
    names = newest_sweeps(open_for_reading(selection.db), selection.origin, most=2)
    if len(names) > 1:
        tell(f"of all sweeps; --sweep {visible(names[0])} has the newest alone")


def tell(note: str) -> None:
    """Print a note on stderr, if it is any."""
    if note:
        print(note, file=sys.stderr)


def say(console: Console, text: str, style: str | None = None) -> None:
    """Print a line that only the terminal wraps, without markup."""
    console.print(visible(text), style=style, markup=False, emoji=False, soft_wrap=True)


def say_meanings(console: Console, meanings: str) -> None:
    """Print what badges mean, broken between words where a width is known: nothing of it is copied.
    A pipe gets one line.
    """
    if console.is_terminal or "COLUMNS" in os.environ:
        meanings = "\n".join(wrap(meanings, reading_width(console)))
    for line in meanings.splitlines():
        say(console, line, "dim")


def say_command(console: Console, command: str, indent: str = "  ") -> None:
    """Print a command that can be pasted, continued over lines where it is too long for one."""
    for line in continued(command, READING_WIDTH - len(indent)):
        console.print(f"{indent}{visible(line)}", markup=False, emoji=False, soft_wrap=True)


def say_ending(console: Console, text: str) -> None:
    """Print a line; the command of a sweep that ends it stands below where both are too long."""
    before, _, command = text.partition(f": {typed('sweep')} ")
    if not command or len(text) <= READING_WIDTH:
        return say(console, text)
    indent = " " * (len(text) - len(text.lstrip()) + 4)
    say(console, f"{before}:")
    return say_command(console, f"{typed('sweep')} {command}", indent)


def refuse_both(*, shows_all: bool, brief: bool) -> None:
    """Raise StoreError for `--all --brief`."""
    if shows_all and brief:
        raise StoreError("--all and --brief: wanted one of them; leave the other out")
