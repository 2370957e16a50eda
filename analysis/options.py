"""Options and output that commands about results share."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from textwrap import wrap
from typing import Annotated

import sqlalchemy as sa
import typer
from rich.console import Console

from analysis import badges as badges
from analysis.results import BaselineRule, Result
from analysis.selection import ChosenOrigin, NothingFoundError, Selection, choose, load
from scalemark.cli.terminal import READING_WIDTH, print_columns, reading_width
from scalemark.host.own_code import typed
from scalemark.records.references import Origin
from scalemark.text.untrusted import visible
from scalemark.text.wording import continued, counted
from store.database import open_for_reading, own_command, reading
from store.errors import StoreError
from store.reading.sweeps import NotRun, newest_sweeps, not_run, without_number
from store.schema import SweepRow

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


_MOST_LOOKED_AT = 20  # sweeps without a number, before all of them are taken


@dataclass(frozen=True, slots=True, kw_only=True)
class Newest:
    """A sweep with its trials that have a number; with all where none has one."""

    name: str
    selection: Selection  # of it alone
    keys: frozenset[tuple[str, str]]  # environment and trial of each
    has_numbers: bool
    others: tuple[Origin, ...]  # of other numbers in the database
    passed_over: int = 0  # newer ones, without a number

    def has(self, result: Result) -> bool:
        return (result.environment.key, result.trial_id) in self.keys

    @property
    def line(self) -> str:
        which = f"Newest sweep: {self.name} ({self.selection.origin})"
        if self.passed_over:
            which += f", but for {counted(self.passed_over, 'newer one')} without a number"
        ways = ["--sweep", *(f"--origin {origin}" for origin in self.others)]
        return f"{which}; {', '.join(ways)} or filters choose."


def selected(
    db: str,
    filters: Sequence[str] | None,
    sweep: str | None,
    origin: Origin | None,
    source: str | None,
) -> tuple[Selection, Newest | None]:
    """Return what the options choose, and the newest sweep where they choose nothing.

    Then everything of that sweep's origin is selected, so that what it repeats or completes counts.
    """
    if filters or origin or source or sweep is not None:
        return select(db, filters, sweep, origin, source), None
    of_all = choose(db, (), None, None)
    with reading(open_for_reading(db)) as connection:
        names = sa.select(SweepRow.name).order_by(SweepRow.id.desc()).limit(_MOST_LOOKED_AT)
        newest_first = list(connection.scalars(names))
    failed: Newest | None = None
    for place, name in enumerate(newest_first):
        sweep_of = _of_sweep(db, name, of_all)
        if sweep_of and sweep_of.has_numbers:
            return replace(sweep_of.selection, sweep=None), replace(sweep_of, passed_over=place)
        failed = failed or sweep_of
    if failed is not None and len(newest_first) < _MOST_LOOKED_AT:
        return failed.selection, failed
    return of_all.selection, None


def what_is_left(selection: Selection, newest: Newest | None) -> NotRun | None:
    """Return what the sweep in question has not run; None where no sweep is asked about."""
    sweep = newest.name if newest else selection.sweep
    return None if sweep is None else not_run(open_for_reading(selection.db), sweep)


def _of_sweep(db: str, name: str, of_all: ChosenOrigin) -> Newest | None:
    """Return None where none of its trials has ended."""
    selection = choose(db, (), name, None).selection
    try:
        results = load(selection)
    except NothingFoundError:
        return None
    able = [result for result in results if result.throughput is not None]
    keys = frozenset((result.environment.key, result.trial_id) for result in able or results)
    origins = (of_all.selection.origin, *of_all.others)
    others = tuple(origin for origin in origins if origin is not selection.origin)
    return Newest(name=name, selection=selection, keys=keys, has_numbers=bool(able), others=others)


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
    say_table(console, screen, shown)
    if screen.next_step:
        console.print()
    say_foot(console, screen.next_step, notes, screen.badges)
    more = len(screen.rows) - len(shown)
    rows = f"{counted(more, 'more row')}, and " if more else ""
    say(console, f"--all has {rows}the rest", "dim")


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
        say_step(console, step)
    for note in notes:
        say(console, note)
    if meanings := badges.foot(used):
        say_meanings(console, meanings)


def say_step(console: Console, step: NextStep) -> None:
    """Print why, and the commands."""
    say(console, step.sentence)
    for command in step.commands:
        say_command(console, command)
    if step.then:
        say_command(console, f"then: {step.then}", "")


def trials_without_number(selection: Selection) -> str:
    """Return the line; empty where each has a number, and for numbers that are not ours."""
    if not selection.origin.is_ours:
        return ""
    missing = without_number(
        open_for_reading(selection.db),
        selection.filters,
        simulated=selection.origin is Origin.SIMULATED,
        sweep=selection.sweep,
    )
    num_trials = len(missing.outcomes) + missing.num_not_run
    if not num_trials:
        return ""
    how, todo = [], []
    for outcome, num in Counter(missing.outcomes).most_common():
        how.append(f"{num} {outcome.replace('_', ' ')}")
    if missing.first_attempt is not None:
        todo.append(f"{selection.show_command} {missing.first_attempt} shows the first")
    if missing.num_not_run:
        how.append(f"{missing.num_not_run} not run yet")
        todo.append(f"{own_command(selection.db, 'status')} has the command that runs the rest")
    trials = counted(num_trials, "trial")
    return f"without a number: {trials} ({', '.join(how)}); {'; '.join(todo)}"
