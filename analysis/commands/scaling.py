"""`scaling`: how many GPUs are worth using, and which strategy leads where."""

from collections.abc import Sequence

from rich.console import Console

from analysis import badges, options
from analysis import scaling as words
from analysis.results import BaselineRule
from analysis.screen import say
from analysis.selection import Source
from analysis.titles import reported_notes, table_facts, title, unconfirmed_notes
from scalemark.cli.terminal import make_console, print_columns, print_json, reading_width
from scalemark.text.wording import counted
from store.command_line import Db, Filters, Json, OriginOption, Sweep

_MOST_ROWS = 12


def scaling(
    db: Db,
    filters: Filters = None,
    sweep: Sweep = None,
    origin: OriginOption = None,
    source: options.SourceOption = None,
    baseline: options.BaselineOption = BaselineRule.SAME,
    shows_all: options.All = False,
    as_json: Json = False,
) -> None:
    """Show where adding GPUs stops paying off; --all has each curve with its intervals."""
    chosen = options.select(db, filters, sweep, origin, source, baseline)
    options.tell_all_sweeps(chosen)
    read = Source(selection=chosen)
    answers = words.scalings(read.results)
    if as_json:
        return print_json(answers)
    console = make_console()
    used: set[str] = set()
    for answer in answers:
        used.update(badges.of_environment(answer.table.environment))
    if any(answer.telling for answer in answers):
        used |= _print_overview(console, answers)
    else:
        shows_all = True
    if shows_all:
        for answer in answers:
            _print(console, answer)
            for curve in answer.curves:
                used.update(curve.doubts)
    notes = read.notes
    if not shows_all:  # --all has them in each table
        notes += [*reported_notes(read.results), *unconfirmed_notes(read.results)]
    for note in notes:
        say(console, note)
    for result in read.results:
        doubted = result.attempt_with(result.doubts[0]) if result.is_suspect else None
        if doubted is not None:
            say(console, f"In doubt: {chosen.show_command} {doubted} says why")
            break
    if meanings := badges.foot(used):
        say(console, meanings, "dim")
    if not shows_all:
        say(console, "--all has every curve, point by point", "dim")
    return None


def _print_overview(console: Console, answers: Sequence[words.Scaling]) -> set[str]:
    """Print a row per curve; return the badges that its column of doubts has."""
    say(console, words.headline(answers), "bold")
    console.print()
    rows, num_more = words.overview(answers, _MOST_ROWS)
    doubts = {row[-1] for row in rows}
    columns: tuple[str, ...] = (*words.OVERVIEW, "doubts")
    if len(doubts) == 1:  # what is said of all stands below the table once
        columns = words.OVERVIEW
        rows = [row[:-1] for row in rows]
    right, width = frozenset(columns[2:6]), reading_width(console)
    print_columns(console, columns, rows, right, piped_width=width)
    if num_more:
        say(console, f"and {counted(num_more, 'more curve')}")
    console.print()
    say(console, "Each more: of a first GPU's throughput; below 50 %, adding GPUs does not pay.")
    num_others = sum(len(answer.curves) - len(answer.telling) for answer in answers)
    if num_others:
        more = counted(num_others, "more curve")
        say(
            console,
            f"{more} on one number of devices, on CPU devices or counted in steps: see --all",
        )
    if len(doubts) == 1:  # the headline says it
        doubts = {text.replace("single run", "") for text in doubts}
    return {badge for text in doubts for badge in text.split(", ") if badge}


def _print(console: Console, answer: words.Scaling) -> None:
    console.print()
    say(console, title(answer.table.setting), "bold")
    for note in table_facts(answer.table):
        say(console, note, "dim")
    for sentence in words.sentences(answer):
        say(console, sentence)
    if answer.curves:
        kind = answer.table.environment.device_kind
        shown_as = {
            "num_gpus": kind.plural.removeprefix("simulated "),
            "throughput": f"{answer.table.unit} [95 % CI]",
            "speed-up": "speed-up [95 % CI]",
        }
        columns = [shown_as.get(name, name) for name in words.POINTS]
        print_columns(console, columns, words.rows(answer), right=frozenset(columns[1:]))
