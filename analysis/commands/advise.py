"""`python -m analysis advise`: the best strategy, GPU count, batch and precision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.console import Console

from analysis.advice.aims import Aim, Goal
from analysis.advice.answer import Answer, answers
from analysis.advice.description import column_heading, described, told_apart
from analysis.advice.next_trials import cost_text
from analysis.advice.one_screen import doubts_of, screen, unit_heading
from analysis.advice.ranking import Behind, Candidate, Ranking
from analysis.advice.text import far_unclear, heading, sentences
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
    say_ending,
    say_meanings,
)
from analysis.source import Source
from analysis.text import badges
from analysis.text.numbers import number, rate_span
from analysis.text.one_screen import NextStep, say_step, show
from analysis.text.titles import (
    ITEMS_OF_STEPS,
    made_with,
    program_notes,
    reported_notes,
)
from analysis.without_number import trials_without_number
from scalemark.cli.terminal import make_console, print_columns, print_json
from scalemark.text.wording import fixed
from store.command_line import Db, Json
from store.reading.not_run import NotRun

_MOST_ROWS = 12


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
    if left is None and any(one.ranking for one in found):  # else the answers say so
        lacking = trials_without_number(newest.selection if newest else chosen)
    notes = [*read.notes, *([lacking] if lacking else [])]
    if as_json:
        print_json([_record(one, left, lacking) for one in found])
        return None
    console = make_console()
    shown = screen(found, left)
    if not shows_all:
        rankings = [one.ranking for one in found if one.ranking is not None]
        if len(found) == 1 and rankings:
            notes += far_unclear(rankings[0])
        return show(console, shown, newest, notes, brief=brief)
    if newest is not None:
        say(console, newest.line, "dim")
    return _print_all(console, found, shown.next_step, notes)


def _print_all(
    console: Console, found: Sequence[Answer], step: NextStep | None, notes: Sequence[str]
) -> None:
    """Print every answer, then the next step, the notes, and what badges mean."""
    environments = {one.question.environment.key for one in found}
    if len(environments) > 1:
        say(
            console,
            f"{len(environments)} environments (machine and software): an answer for each, and "
            "none across them.",
        )
        console.print()
    for one in found:
        _print(console, one, step)
    if step:
        say_step(console, step)
    for note in notes:
        say(console, note)
    used = [badge for one in found for badge in _badges(one)]
    if meanings := badges.foot([*used, *(step.badges if step else ())]):
        say_meanings(console, meanings)


def _badges(one: Answer) -> list[str]:
    used = badges.of_environment(one.question.environment)
    if one.ranking is not None:
        for candidate, against in _shown(one, one.ranking):
            used += doubts_of(one.ranking, candidate, against)
    return used + [badge for todo in one.next_trials for badge in todo.badges]


def _print(console: Console, one: Answer, step: NextStep | None) -> None:
    """Print an answer; the trials of the next step stand below all answers."""
    say(console, heading(one), "bold")
    choices = one.question.choices
    notes = [made_with(one.question.environment)]
    notes += program_notes(choices) + reported_notes(choices) + _step_notes(one)
    for note in notes:
        say(console, note, "dim")
    for sentence in sentences(one):
        say_ending(console, f"- {sentence}")
    if one.ranking:
        console.print()
        _print_table(console, one, one.ranking)
    others = [todo for todo in one.next_trials if step is None or todo.commands != step.commands]
    if others:
        console.print()
        say(console, "Trials that could change this, cheapest first:")
        for todo in others:
            say(console, f"- {todo.why} ({cost_text(one.question, todo)})")
            for command in todo.commands:
                say_command(console, command, "    ")
    console.print()


def _step_notes(one: Answer) -> list[str]:
    if "num_gpus" not in one.question.work:
        return []
    devices = one.question.environment.devices
    return [
        f"counts steps, which may be other work on other numbers of {devices}; to count items, add "
        f"e.g. {ITEMS_OF_STEPS}"
    ]


def _print_table(console: Console, one: Answer, ranking: Ranking) -> None:
    shown = _shown(one, ranking)
    choice = column_heading(ranking.top.result)
    intervals = any(against and against.low is not None for _, against in shown)
    vs_best = "vs best [95 % CI]" if intervals else "vs best"
    columns = (choice, unit_heading(one), *_headers(one), vs_best, "doubts", "n")
    names = [
        described(candidate.result, against=ranking.top.result if against else None, is_cell=True)
        for candidate, against in shown
    ]
    names = told_apart(names, [candidate.result for candidate, _ in shown])
    rows = (
        [name, *_row(one, ranking, candidate, against)]
        for name, (candidate, against) in zip(names, shown, strict=True)
    )
    print_columns(console, columns, rows, spare=["n"])
    if more := len(ranking.judged) - len(shown):
        say(console, f"and {more} more (--json has them)", "dim")


def _headers(one: Answer) -> list[str]:
    return [] if one.aim.goal is Goal.THROUGHPUT else [str(one.aim.goal)]


def _shown(one: Answer, ranking: Ranking) -> list[tuple[Candidate, Behind | None]]:
    """Return the first rows, and what is taken."""
    behind = [*ranking.tied, *ranking.unclear, *ranking.out, *ranking.worse]
    ordered: list[tuple[Candidate, Behind | None]] = [(ranking.top, None)]
    ordered += [(one_behind.candidate, one_behind) for one_behind in behind]
    named = [ranking.pick, *(candidate for candidate, _ in ordered[:_MOST_ROWS])]
    kept = {id(candidate.result) for candidate in named}
    return [(candidate, against) for candidate, against in ordered if id(candidate.result) in kept]


def _row(one: Answer, ranking: Ranking, candidate: Candidate, against: Behind | None) -> list[str]:
    result, throughput = candidate.result, candidate.throughput
    cells = [number(throughput, exactly=one.question.is_published)]
    if result.low is not None and result.high is not None:
        cells[0] += f" [{rate_span(result.low, result.high, throughput)}]"
    if _headers(one):
        devices, items = one.question.environment.devices, one.question.item
        cells.append(one.aim.text(candidate.score, devices, items))
    cells.append("best" if against is None else _against(against))
    taken = ["taken"] if result is ranking.pick.result else []
    cells.append(", ".join([*taken, *doubts_of(ranking, candidate, against)]))
    return [*cells, str(len(result.repeats))]


def _against(behind: Behind) -> str:
    text = f"{fixed(1 / behind.ratio, 2)}x"
    if behind.low is not None and behind.high is not None:
        text += f" [{1 / behind.high:.2f}, {1 / behind.low:.2f}]"
    return text


def _record(one: Answer, left: NotRun | None, lacking: str) -> dict[str, Any]:
    environment, ranking = one.question.environment, one.ranking
    return {
        "goal": one.aim.goal,
        "usd_per_gpu_hour": one.aim.usd_per_gpu_hour,
        "item": one.question.item,
        "work": dict(one.question.work),
        "origin": environment.origin,
        "environment": environment.key,
        "machine": environment.machine,
        "versions": environment.versions,
        "device_kind": environment.device_kind,
        "sentences": sentences(one),
        "notes": _step_notes(one),
        **_ranking_record(one, ranking),
        "alternatives": [
            {
                "caveat": other.caveat,
                "ratio": other.ratio,
                "candidate": other.candidate and _candidate(other.candidate),
            }
            for other in one.alternatives
        ],
        "doubts": list(one.doubts),
        "next_trials": [asdict(todo) for todo in one.next_trials],
        "not_run": left and asdict(left),  # of the sweep that all answers are about
        "without_number": lacking or None,  # of what was chosen, where no sweep is left to run
    }


def _ranking_record(one: Answer, ranking: Ranking | None) -> dict[str, Any]:
    if ranking is None:
        return dict.fromkeys(("is_sure", "pick", "top")) | {
            name: [] for name in ("tied", "unclear", "out_of_race", "worse")
        }
    single_runs = len(ranking.top.scores) < 2 or any(
        behind.low is None for behind in (*ranking.tied, *ranking.worse)
    )
    return {
        "is_sure": ranking.is_sure and not one.question.is_published and not single_runs,
        "pick": _candidate(ranking.pick),
        "top": _candidate(ranking.top),
        "tied": [_behind(behind) for behind in ranking.tied],
        "unclear": [_behind(behind) for behind in ranking.unclear],
        "out_of_race": [_behind(behind) for behind in ranking.out],
        "worse": [_behind(behind) for behind in ranking.worse],
    }


def _candidate(one: Candidate) -> dict[str, Any]:
    return result_record(one.result) | {"score": one.score}


def _behind(one: Behind) -> dict[str, Any]:
    return _candidate(one.candidate) | {
        "behind": one.share,
        "behind_low": one.share_low,
        "behind_high": one.share_high,
    }
