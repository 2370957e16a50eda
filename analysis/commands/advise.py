"""`scalemark advise`: the best strategy, GPU count, batch and precision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.console import Console

from analysis.advise import advise_words as words
from analysis.advise.answer import Answer, answers
from analysis.advise.questions import Aim, Goal
from analysis.advise.ranking import Behind, Candidate
from analysis.newest import selected, what_is_left
from analysis.options import (
    All,
    Brief,
    Filters,
    OriginOption,
    SourceOption,
    Sweep,
    refuse_both,
    result_record,
    say,
    say_command,
)
from analysis.source import Source
from analysis.text.one_screen import NextStep, Screen, say_foot, say_table, show
from analysis.text.titles import made_with, program_notes, reported_notes
from analysis.without_number import trials_without_number
from scalemark.cli.terminal import make_console, print_json
from store.command_line import Db, Json


def advise(
    db: Db,
    filters: Filters = None,
    goal: Annotated[Goal, typer.Option("--goal", help="What is to be best.")] = Goal.THROUGHPUT,
    usd_per_gpu_hour: Annotated[
        float | None, typer.Option(help="Price of a GPU; --goal cost needs it.", show_default=False)
    ] = None,
    sweep: Sweep = None,
    origin: OriginOption = None,
    source: SourceOption = None,
    predict: Annotated[
        bool,
        typer.Option(
            help="Predict what untried trials would reach, and leave out what cannot win."
        ),
    ] = True,
    shows_all: All = False,
    brief: Brief = False,
    as_json: Json = False,
) -> None:
    """Recommend a strategy, GPU count, batch and precision, with the cheapest trials that could
    change the answer. Without filters it is about the newest sweep.
    """
    refuse_both(shows_all=shows_all, brief=brief)
    aim = Aim(goal=goal, usd_per_gpu_hour=usd_per_gpu_hour)
    chosen, newest = selected(db, filters, sweep, origin, source)
    wanted = newest.has if newest else None
    read = Source(selection=chosen)
    found = answers(read, aim, predicts=predict, wanted=wanted)
    left = what_is_left(chosen, newest)
    lacking = ""
    if left is None and any(answer.ranking for answer in found):  # else the answers say so
        lacking = trials_without_number(newest.selection if newest else chosen)
    if as_json:
        shared = {"not_run": left and asdict(left), "without_number": lacking or None}
        return print_json([_record(answer) | shared for answer in found])
    notes = [*read.notes, lacking] if lacking else read.notes
    for answer in found:
        notes += [note for note in words.step_notes(answer) if note not in notes]
    console = make_console()
    screen = words.screen(found, left)
    if shows_all:
        if newest is not None:
            say(console, newest.line, "dim")
        return _print_all(console, found, screen, notes)
    return show(console, screen, newest, notes, brief=brief)


def _print_all(
    console: Console, found: Sequence[Answer], screen: Screen, notes: Sequence[str]
) -> None:
    """Print every answer with its whole table and what stands behind it, then the next step."""
    for answer in found:
        of_one = screen if len(found) == 1 else words.screen([answer])
        say(console, of_one.headlines[0], "bold")
        say(console, words.heading(answer), "dim")
        choices = answer.question.choices
        made = made_with(answer.question.environment)
        for note in (made, *program_notes(choices), *reported_notes(choices)):
            say(console, note, "dim")
        say_table(console, of_one, of_one.rows)
        _print_details(console, answer, screen.next_step)
        console.print()
    used = screen.badges | {badge for row in screen.rows for badge in row[-1].split(", ")}
    say_foot(console, screen.next_step, notes, used)


def _print_details(console: Console, answer: Answer, step: NextStep | None) -> None:
    console.print()
    for sentence, commands in words.details(answer, step):
        say(console, f"- {sentence}")
        for command in commands:
            say_command(console, command, "    ")


def _record(answer: Answer) -> dict[str, Any]:
    """Return the facts of an answer, as --json prints them."""
    environment, ranking = answer.question.environment, answer.ranking
    record: dict[str, Any] = {
        "goal": answer.aim.goal,
        "usd_per_gpu_hour": answer.aim.usd_per_gpu_hour,
        "item": answer.question.item,
        "work": dict(answer.question.work),
        "origin": environment.origin,
        "environment": environment.key,
        "machine": environment.machine,
        "versions": environment.versions,
        "device_kind": environment.device_kind,
        "refusal": answer.refusal or None,
        "certainty": answer.certainty,
        "pick": ranking and _candidate(ranking.pick),
        "top": ranking and _candidate(ranking.top),
        "tied": [],
        "unclear": [],
        "out_of_race": [],
        "worse": [],
        "alternatives": [
            {
                "caveat": other.caveat,
                "ratio": other.ratio,
                "candidate": other.candidate and _candidate(other.candidate),
            }
            for other in answer.alternatives
        ],
        "doubts": list(answer.doubts),
        "next_trials": answer.next_trials,
    }
    if ranking is not None:
        record["tied"] = [_behind(behind) for behind in ranking.tied]
        record["unclear"] = [_behind(behind) for behind in ranking.unclear]
        record["out_of_race"] = [_behind(behind) for behind in ranking.out]
        record["worse"] = [_behind(behind) for behind in ranking.worse]
    return record


def _candidate(candidate: Candidate) -> dict[str, Any]:
    return result_record(candidate.result) | {"score": candidate.score}


def _behind(behind: Behind) -> dict[str, Any]:
    return _candidate(behind.candidate) | {
        "behind": behind.share,
        "behind_low": behind.share_low,
        "behind_high": behind.share_high,
    }
