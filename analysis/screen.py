"""Prints an answer on one screen: headlines, a table, the next step, notes and what badges mean."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from textwrap import wrap

from rich.console import Console

from analysis import badges
from analysis.selection import Newest
from scalemark.cli.terminal import READING_WIDTH, print_columns, reading_width
from scalemark.text.untrusted import visible
from scalemark.text.wording import continued, counted


@dataclass(frozen=True, slots=True, kw_only=True)
class NextStep:
    """What to do next."""

    why: str
    commands: tuple[str, ...] = ()  # each of them; none where what measured is not known
    then: str = ""  # the command that answers again once they have run
    cost: str = ""  # of the commands; empty where it is not known

    @property
    def sentence(self) -> str:
        cost = f" ({self.cost})" if self.cost else ""
        return f"Next: {self.why}{cost}{':' if self.commands else '.'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Screen:
    """Holds what is printed, from top to bottom."""

    headlines: tuple[str, ...]
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    right: frozenset[str] = frozenset()  # columns of numbers
    most_rows: int
    # of the pick: a heading, and its command line, ready to paste, if it has one
    winner: tuple[str, tuple[str, ...]] | None = None
    next_step: NextStep | None
    badges: frozenset[str]


def show(
    console: Console,
    screen: Screen,
    newest: Newest | None,
    notes: Sequence[str],
    rest: str = "--all",
) -> None:
    """Print a screen; `notes` stand at the end, and the option that has the `rest`."""
    if newest is not None:
        say(console, newest.line, "dim")
    for headline in screen.headlines:
        say(console, headline, "bold")
    shown = screen.rows[: screen.most_rows]
    say_table(console, screen, shown)
    if screen.winner:
        heading, commands = screen.winner
        console.print()
        say(console, heading)
        for command in commands:
            say_command(console, command)
    if screen.next_step:
        console.print()
    say_foot(console, screen.next_step, notes, screen.badges)
    more = len(screen.rows) - len(shown)
    more_rows = counted(more, "more row") if more else "the rest"
    say(console, f"{rest} has {more_rows}", "dim")


def say_table(console: Console, screen: Screen, rows: Sequence[tuple[str, ...]]) -> None:
    """Print rows of its table below an empty line; nothing without any."""
    if rows:
        console.print()
        width = reading_width(console)
        print_columns(console, screen.columns, rows, screen.right, piped_width=width)


def say_foot(
    console: Console, step: NextStep | None, notes: Sequence[str], used: Iterable[str]
) -> None:
    """Print the next step, the notes, and what badges mean."""
    if step:
        say(console, step.sentence)
        for command in step.commands:
            say_command(console, command)
        if step.then:
            say_command(console, f"then: {step.then}", "")
    for note in notes:
        say(console, note)
    if meanings := badges.foot(used):
        say(console, meanings, "dim")


def say(console: Console, text: str, style: str | None = None) -> None:
    """Print a line, broken between words where a width is known. A pipe gets one line."""
    lines = [visible(text)]
    if console.is_terminal or "COLUMNS" in os.environ:
        width = reading_width(console)
        lines = wrap(lines[0], width, break_long_words=False, break_on_hyphens=False) or [""]
    for line in lines:
        console.print(line, style=style, markup=False, emoji=False, soft_wrap=True)


def say_command(console: Console, command: str, indent: str = "  ") -> None:
    """Print a command that can be pasted, continued over lines where it is too long for one."""
    width = min(READING_WIDTH, reading_width(console))
    for line in continued(command, width - len(indent)):
        console.print(f"{indent}{visible(line)}", markup=False, emoji=False, soft_wrap=True)
