"""`advise`: the best strategy, GPU count, batch and precision."""

from collections.abc import Sequence
from dataclasses import replace

from rich.console import Console

from analysis import options, titles
from analysis.advise import advise_words as words
from analysis.advise.answer import Recommendation, recommend
from analysis.screen import Screen, say, say_command, say_foot, say_table, show
from scalemark.cli.terminal import make_console, print_json
from store.command_line import Db, Filters, Json, OriginOption, Sweep


def advise(
    db: Db,
    filters: Filters = None,
    sweep: Sweep = None,
    origin: OriginOption = None,
    source: options.SourceOption = None,
    shows_all: options.All = False,
    as_json: Json = False,
) -> None:
    """Recommend a strategy, GPU count, batch and precision, with the cheapest trials that could
    change the answer. Without filters it is about the newest sweep, which it compares
    with trials of the same work in other sweeps.
    """
    read, newest = options.selected(db, filters, sweep, origin, source)
    answers = recommend(read, wanted=newest.has if newest else None)
    judged = [result for answer in answers for result in answer.question.able]
    if newest is not None:
        newest = replace(newest, has_rivals=not all(map(newest.has, judged)))
    asked = newest.source.selection if newest else read.selection
    left = options.what_is_left(db, asked.sweep)
    lacking = ""
    if left is None and any(answer.ranking for answer in answers):  # else the answers say so
        lacking = options.trials_without_number(asked)
    if as_json:
        return print_json({"answers": answers, "not_run": left, "without_number": lacking or None})
    notes = [*read.notes, lacking] if lacking else [*read.notes]
    notes += [*titles.unconfirmed_notes(judged), *titles.step_notes(judged)]
    console = make_console()
    screen = words.screen(answers, left)
    if shows_all:
        if newest is not None:
            say(console, newest.line, "dim")
        return _print_all(console, answers, screen, notes)
    return show(console, screen, newest, notes)


def _print_all(
    console: Console, answers: Sequence[Recommendation], screen: Screen, notes: Sequence[str]
) -> None:
    """Print every answer with its whole table and what stands behind it, then the next step."""
    for answer in answers:
        own = screen if len(answers) == 1 else words.screen([answer])
        say(console, own.headlines[0], "bold")
        say(console, words.heading(answer), "dim")
        choices = answer.question.choices
        made = titles.made_with(answer.question.environment)
        for note in (made, *titles.program_notes(choices), *titles.reported_notes(choices)):
            say(console, note, "dim")
        say_table(console, own, own.rows)
        console.print()
        for sentence, commands in words.details(answer, screen.next_step):
            say(console, f"- {sentence}")
            for command in commands:
                say_command(console, command, "    ")
        console.print()
    used = screen.badges | {badge for row in screen.rows for badge in row[-1].split(", ")}
    say_foot(console, screen.next_step, notes, used)
