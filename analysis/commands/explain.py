"""`python -m analysis explain`: where the missing speed-up of a trial goes, and what to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

import typer

from analysis.explain import explain_words as words
from analysis.explain.ablations import AblationFinder
from analysis.explain.explanations import explain_all, of_each_curve
from analysis.explain.observed import observer
from analysis.options import (
    All,
    Brief,
    Filters,
    OriginOption,
    SourceOption,
    Sweep,
    of_known_programs,
    refuse_both,
    say,
    say_command,
    selected,
    show,
)
from analysis.results import Result, has_steps, why_no_steps
from analysis.selection import Selection, Source, choose, load
from analysis.titles import environment_notes, sweep_notes
from scalemark.cli.terminal import make_console, print_columns, print_json
from scalemark.host.own_code import typed
from scalemark.text.untrusted import visible
from scalemark.text.wording import counted
from store.command_line import Db, Json
from store.database import own_command
from store.errors import StoreError
from store.filters import ID_BEGINNING, begins_id

Trial = Annotated[
    str | None, typer.Option(help=f"Explain this trial alone, by the {ID_BEGINNING}.")
]

NOT_TAKEN_APART = (
    "the steps of your own programs cannot be taken apart here; "
    f"{typed('analysis')} scaling says how much is lost on more devices"
)


def explain(
    db: Db,
    filters: Filters = None,
    trial: Trial = None,
    sweep: Sweep = None,
    origin: OriginOption = None,
    source: SourceOption = None,
    shows_all: All = False,
    brief: Brief = False,
    as_json: Json = False,
) -> None:
    """Say where the time of a step goes, by ablation, and what holds each trial back. Without
    filters it is about the newest sweep.
    """
    refuse_both(shows_all=shows_all, brief=brief)
    if trial is not None and begins_id(trial) and source is None:
        of_trial = choose(db, [*(filters or ()), f"trial={trial}"], sweep, origin)
        origin = of_trial.selection.origin if of_trial.sweep else origin
    chosen, newest = selected(db, filters, sweep, origin, source)
    of_known_programs(chosen.origin, "where its time went")
    everything = Source(
        selection=replace(chosen, filters=tuple(chosen.attempt_filters), sweep=None)
    )
    if trial is not None:
        newest = None
    elif newest is not None:
        chosen = newest.selection
    finder = AblationFinder([result for result in everything.results if not result.is_of_program])
    asked = _asked(chosen, everything.results, trial)
    targets = _targets(asked, chosen)
    if trial is None:
        targets = of_each_curve(targets, finder)
    explained = explain_all(targets, finder, observer(everything))
    if as_json:
        return print_json(explained)
    notes = list(chosen.notes)
    if newest is None:
        notes += sweep_notes(targets)
    if trial is None:
        # here, because scripts that read --json need none of it
        from analysis.options import trials_without_number

        notes += filter(None, [trials_without_number(chosen)])
    if any(result.is_of_program for result in asked):
        notes.append(f"left out: {NOT_TAKEN_APART}")
    console = make_console()
    if not shows_all:
        return show(console, words.screen(explained, chosen), newest, notes, brief=brief)
    if newest is not None:
        say(console, newest.line, "dim")
    for explanation in explained:
        say(console, words.verdict(explanation), "bold")
        rows = list(words.rows(explanation))
        print_columns(console, words.COLUMNS, rows, right=frozenset(("share",)))
        for sentence, command in words.details(explanation):
            say(console, sentence)
            if command:
                say_command(console, command)
        console.print()
        notes += environment_notes(explanation.target.environment)
    for note in dict.fromkeys(notes):
        say(console, note)
    return None


def _asked(asked_for: Selection, everything: Sequence[Result], trial: str | None) -> list[Result]:
    """Raise StoreError when `trial` is none of them."""
    asked = list(everything)
    if asked_for.trial_filters or asked_for.sweep:
        asked = load(asked_for)
    if trial is not None:
        if begins_id(trial):
            asked = [result for result in asked if result.trial_id.startswith(trial)]
        if not begins_id(trial) or not asked:
            raise StoreError(
                f"--trial {visible(trial[:100])}: no such trial in what was chosen; wanted the "
                f"{ID_BEGINNING}; {own_command(asked_for.db, 'store', 'list')} names them"
            )
    return asked


def _targets(asked: Sequence[Result], asked_for: Selection) -> list[Result]:
    """Raise StoreError when there is nothing to explain, with what there is instead."""
    asked = [result for result in asked if not result.is_of_program]
    if not asked:
        raise StoreError(NOT_TAKEN_APART)
    numbers = [result for result in asked if result.throughput is not None]
    if not numbers:
        ended = Counter(result.ended for result in asked)
        ways = ", ".join(f"{num} {way}" for way, num in ended.most_common())
        first = min(attempt for result in asked for attempt in result.attempt_ids)
        raise StoreError(
            f"nothing to explain: none of {counted(len(asked), 'trial')} brought a number "
            f"({ways}); {asked_for.show_command} {first} shows the first"
        )
    with_steps = [result for result in numbers if has_steps(result)]
    if not with_steps:
        raise StoreError(why_no_steps(numbers[0]))
    if not any(result.axes["batch_size"] for result in with_steps):
        raise StoreError("the chosen figures have no batch size: their step times are unknown")
    return with_steps
