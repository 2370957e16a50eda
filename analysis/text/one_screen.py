"""Prints an answer on one screen: headline, one table, one next step, badges, where the rest is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console

from analysis.newest import Newest
from analysis.options import say
from analysis.text import badges
from scalemark.cli.terminal import print_columns


@dataclass(frozen=True, slots=True, kw_only=True)
class NextStep:
    """What to do next."""

    why: str
    commands: tuple[str, ...]  # each of them


@dataclass(frozen=True, slots=True, kw_only=True)
class Screen:
    """Holds what is printed, from top to bottom."""

    headlines: tuple[str, ...]
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    right: frozenset[str] = frozenset()  # columns of numbers
    most_rows: int
    next_step: NextStep | None
    badges: frozenset[str]


def show(
    console: Console, screen: Screen, newest: Newest | None, notes: Sequence[str], *, brief: bool
) -> None:
    """Print it; with `brief` the headlines alone. `notes` stand at the end."""
    if newest is not None and not brief:
        say(console, newest.line, "dim")
    for headline in screen.headlines:
        say(console, headline, "bold")
    if brief:
        return
    shown = screen.rows[: screen.most_rows]
    if shown:
        console.print()
        print_columns(console, screen.columns, shown, screen.right)
    if screen.next_step is not None:
        console.print()
        say(console, f"Next: {screen.next_step.why}:")
        for command in screen.next_step.commands:
            say(console, f"  {command}")
    for note in notes:
        say(console, note)
    if meanings := badges.foot(screen.badges):
        say(console, meanings, "dim")
    more = len(screen.rows) - len(shown)
    say(console, f"--all has {f'{more} more rows, and ' if more else ''}the rest", "dim")
