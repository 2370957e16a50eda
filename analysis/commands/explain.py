"""`scalemark explain`: where the missing speed-up of a trial goes, and what to do."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

import typer

from analysis import options, screen, titles
from analysis.explain import explanations as words
from analysis.explain.ablations import AblationFinder
from analysis.explain.explanations import Explanation, explain_all, of_each_curve
from analysis.explain.programs import explain_programs
from analysis.explain.waterfall import observer
from analysis.results import Result, has_steps, with_number
from analysis.selection import Newest, Selection, Source, choose
from scalemark.cli.terminal import make_console, print_json
from scalemark.host.own_code import typed
from scalemark.records.measurement import BY_EXAMPLE, TOKENS
from scalemark.records.references import Origin
from scalemark.text.untrusted import visible
from scalemark.text.wording import counted
from store.command_line import Db, Filters, Json, OriginOption, Sweep
from store.database import own_command
from store.errors import StoreError
from store.filters import ID_BEGINNING, begins_id

Trial = Annotated[
    str | None, typer.Option(help=f"Explain this trial alone, by the {ID_BEGINNING}.")
]


def explain(
    db: Db,
    filters: Filters = None,
    trial: Trial = None,
    sweep: Sweep = None,
    origin: OriginOption = None,
    source: options.SourceOption = None,
    as_json: Json = False,
) -> None:
    """Say where the time of a step goes, by ablation, and what holds each trial back. Without
    filters it is about the newest sweep; --json has every remedy, and each trial that is missing.
    """
    asked, everything, newest = _asked(db, filters or (), trial, sweep, origin, source)
    explained = _explained(asked, everything, trial)
    if as_json:
        return print_json(explained)
    chosen = asked.selection
    notes = list(chosen.notes)
    if newest is None:
        notes += titles.sweep_notes([explanation.target for explanation in explained])
    if trial is None:
        notes += filter(None, [options.trials_without_number(chosen)])
    if len(explained) == 1:
        notes += explained[0].notes
    shown = words.screen(explained, chosen)
    return screen.show(make_console(), shown, newest, notes, rest="--json")


def _asked(
    db: str,
    filters: Sequence[str],
    trial: str | None,
    sweep: str | None,
    origin: Origin | None,
    source: str | None,
) -> tuple[Source, Source, Newest | None]:
    """Return what was asked for, all that its trials may be compared with, and the newest sweep
    where that alone was asked for.
    """
    if trial is not None and begins_id(trial) and source is None:
        of_trial = choose(db, [*filters, f"trial={trial}"], sweep, origin)
        if of_trial.newest:
            origin = of_trial.origin
    asked, newest = options.selected(db, filters, sweep, origin, source)
    if asked.selection.origin is Origin.ELSEWHERE:
        raise StoreError(
            f"--origin {Origin.ELSEWHERE}: a table says how fast a program was, and not what it "
            f"did, so that nobody can say where its time went; see {typed('scaling')} or "
            f"advise --origin {Origin.ELSEWHERE}"
        )
    if newest is not None:
        if trial is None:
            return newest.source, newest.everything, newest
        return asked, newest.everything, None
    filters_of_all = tuple(asked.selection.attempt_filters)
    everything = Source(selection=replace(asked.selection, filters=filters_of_all, sweep=None))
    if asked.selection.sweep and not asked.selection.trial_filters:
        asked = everything.of_sweep(asked.selection.sweep)
    return asked, everything, None


def _explained(asked: Source, everything: Source, trial: str | None) -> list[Explanation]:
    """Explain programs, then trials of the trainer: one of each curve, or the one `trial`. Raises
    StoreError where there is none.
    """
    results = asked.results
    if trial is not None:
        results = []
        if begins_id(trial):
            results = [result for result in asked.results if result.trial_id.startswith(trial)]
        if not results:
            raise StoreError(
                f"--trial {visible(trial[:100])}: no such trial in what was chosen; wanted the "
                f"{ID_BEGINNING}; {own_command(asked.selection.db, 'list')} names them"
            )
    of_programs = [result for result in results if result.is_of_program]
    own = [result for result in results if not result.is_of_program]
    explained = explain_programs(of_programs, everything)
    if own or not explained:
        of_trainer = [result for result in everything.results if not result.is_of_program]
        finder = AblationFinder(of_trainer)
        targets = _targets(own or of_programs, asked.selection)
        if trial is None:
            targets = of_each_curve(targets, finder)
        explained += explain_all(targets, finder, observer(everything))
    return explained


def _targets(asked: Sequence[Result], asked_for: Selection) -> list[Result]:
    """Raise StoreError when there is nothing to explain, with what there is instead."""
    numbers = with_number(asked)
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
        raise StoreError(
            f"{numbers[0].trial_id[:8]} counts {numbers[0].item}, and batch_size counts examples: "
            f"the time of a step is known of trials that count {', '.join(BY_EXAMPLE)}, or "
            f"{TOKENS} of a known seq_len"
        )
    if not any(result.axes["batch_size"] for result in with_steps):
        raise StoreError("the chosen figures have no batch size: their step times are unknown")
    return with_steps
