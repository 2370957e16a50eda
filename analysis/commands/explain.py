"""`python -m analysis explain`: where the missing speed-up of a trial goes, and what to do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Annotated, Any

import typer
from rich.console import Console

from analysis.advice.doubts import ways
from analysis.explanation import text
from analysis.explanation.ablations import AblationFinder
from analysis.explanation.communication.quick_check import (
    Bandwidth,
    of_known_box,
    of_links,
    of_probe,
    of_profile,
)
from analysis.explanation.explanations import Explanation, explain_all, of_each_curve
from analysis.explanation.observed import observer
from analysis.explanation.one_screen import screen
from analysis.explanation.step_times import Seconds
from analysis.newest import selected
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
)
from analysis.origin import choose
from analysis.results import Result, has_steps, why_no_steps
from analysis.selection import Selection, load
from analysis.source import Source
from analysis.text.one_screen import show
from analysis.text.titles import environment_notes, sweep_notes
from analysis.without_number import trials_without_number
from scalemark.cli.terminal import make_console, print_columns, print_json
from scalemark.host import kept_probes
from scalemark.host.own_code import typed
from scalemark.records.machine import DeviceKind
from scalemark.text.untrusted import visible
from scalemark.text.wording import counted
from store.command_line import Db, Json
from store.errors import StoreError
from store.filters.filter_values import ID_BEGINNING, begins_id
from store.own_commands import own_command
from store.reading import provenance

Trial = Annotated[
    str | None, typer.Option(help=f"Explain this trial alone, by the {ID_BEGINNING}.")
]
GbPerS = Annotated[
    float | None,
    typer.Option(
        help=(
            "Bandwidth between GPUs for the quick check, GB/s; else what scalemark probe "
            "measured, or that of the machine's links, where known."
        ),
        min=1e-3,
    ),
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
    gb_per_s: GbPerS = None,
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
    if newest is not None and trial is None:
        chosen = newest.selection
    of_models = [result for result in everything.results if not result.is_of_program]
    finder = AblationFinder(of_models)
    asked = _asked(chosen, everything.results, trial)
    targets = _targets(asked, chosen, finder, trial)
    found = explain_all(targets, finder, observer(everything), _bandwidths(everything, gb_per_s))
    if as_json:
        print_json([_record(one) for one in found])
        return None
    console = make_console()
    if trial is not None:
        newest = None
    of_others = [] if newest is not None else sweep_notes([one.target for one in found])
    notes = [*chosen.notes, *of_others]
    if trial is None and (lacking := trials_without_number(chosen)):
        notes.append(lacking)
    if any(result.is_of_program for result in asked):
        notes.append(f"left out: {NOT_TAKEN_APART}")
    if not shows_all:
        return show(console, screen(found, chosen), newest, notes, brief=brief)
    if newest is not None:
        say(console, newest.line, "dim")
    for one in found:
        _print(console, one)
        notes += environment_notes(one.target.environment)
    for note in dict.fromkeys(notes):
        say(console, note)


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


def _targets(
    asked: Sequence[Result], asked_for: Selection, finder: AblationFinder, trial: str | None
) -> list[Result]:
    """Raise StoreError when there is nothing to explain, with what there is instead."""
    if all(result.is_of_program for result in asked):
        raise StoreError(NOT_TAKEN_APART)
    asked = [result for result in asked if not result.is_of_program]
    numbers = [result for result in asked if result.throughput is not None]
    if not numbers:
        raise StoreError(_failed(asked, asked_for))
    with_steps = [result for result in numbers if has_steps(result)]
    if not with_steps:
        raise StoreError(why_no_steps(numbers[0]))
    numbers = with_steps
    if not any(result.axes["batch_size"] for result in numbers):
        raise StoreError("the chosen figures have no batch size: their step times are unknown")
    return numbers if trial is not None else of_each_curve(numbers, finder)


def _failed(results: Sequence[Result], asked_for: Selection) -> str:
    """Return how trials ended of which none has a number, and the command that shows the first."""
    ended = ways([one.outcome for one in results])
    first = min(attempt for one in results for attempt in one.attempt_ids)
    return (
        f"nothing to explain: none of {counted(len(results), 'trial')} brought a number ({ended}); "
        f"{asked_for.show_command} {first} shows the first"
    )


def _bandwidths(everything: Source, gb_per_s: float | None) -> Callable[[Result], Bandwidth | None]:
    def bandwidth(result: Result) -> Bandwidth | None:
        if gb_per_s is not None:
            return Bandwidth(gb_per_s=gb_per_s, known_by="--gb-per-s")
        if result.environment.device_kind is DeviceKind.CPU_DEVICE:
            return None
        if not result.attempt_ids:
            return of_known_box(result)
        key = everything.attempts[result.attempt_ids[-1]]["machine"]
        (machine,) = (one for one in everything.machines if one["key"] == key)
        if machine.get("hardware_profile"):
            return of_profile(machine["hardware_profile"])
        if probed := of_probe(kept_probes.read(key, DeviceKind.GPU), result.num_gpus):
            return probed
        return of_links(
            provenance.links(everything.engine, key), machine["gpus"][0]["compute_capability"]
        )

    return bandwidth


def _print(console: Console, one: Explanation) -> None:
    say(console, text.title(one.target), "bold")
    columns, right = text.columns(one.target), text.number_columns(one.target)
    print_columns(console, columns, text.rows(one), right=right)
    say(console, text.verdict(one), "bold")
    for sentence in (*text.evidence(one), *text.sentences(one)):
        say(console, sentence)
    for remedy in one.remedies:
        say(console, f"Try {remedy.change}: {remedy.why}.")
        if remedy.command:
            say_command(console, remedy.command)
    for what, command in text.missing(one):
        say(console, f"{what[0].upper()}{what[1:]}{':' if command else '.'}")
        if command:
            say_command(console, command)
    if one.measure_all:
        say(console, "All but a larger batch at once:")
        say_command(console, one.measure_all)
    console.print()


def _record(one: Explanation) -> dict[str, Any]:
    fall, diagnosis = one.fall, one.diagnosis
    beside = {"calls": fall.calls, "fixed": fall.fixed, "floor": fall.floor}
    check, inner, sent = one.quick_check, one.inner_links, one.update_bytes
    return {
        "trial_id": one.target.trial_id,
        "title": text.title(one.target),
        "origin": one.target.environment.origin,
        "environment": one.target.environment.key,
        "machine": one.target.environment.machine,
        "num_gpus": one.target.num_gpus,
        "throughput": one.target.throughput,
        "step_s": asdict(fall.step),
        "efficiency": fall.efficiency,
        "base": fall.base,
        "base_s": asdict(fall.base_s),
        "parts": [
            {
                "causes": part.causes,
                "trials": [part.before.trial_id, part.after.trial_id],
                **_seconds(part.seconds, fall.step.value),
            }
            for part in fall.parts
        ],
        "beside": {
            name: {
                "trials": [trial.trial_id for trial in found.trials],
                **_seconds(found.seconds, fall.step.value),
            }
            for name, found in beside.items()
            if found is not None
        },
        "quick_check": check and asdict(check) | {"seconds": check.seconds},
        "inner_links": inner and asdict(inner) | {"at_most_s": inner.at_most_s},
        "update_bytes": sent and asdict(sent) | {"per_item": sent.per_item},
        "host_links": _host_links(one),
        "slow_replicas": asdict(one.slow_replicas) | {"timed_in": one.replicas_timed_in},
        "observed": asdict(one.seen),
        "verdict": diagnosis.bound,
        "confidence": diagnosis.confidence,
        "evidence": diagnosis.evidence,
        "rests_on": [asdict(found) for found in diagnosis.rests_on],
        "doubts": diagnosis.doubts,
        "remedies": [asdict(remedy) for remedy in one.remedies],
        "missing": [
            {"ablation": needed.ablation, "command": needed.command} for needed in diagnosis.needed
        ],
        "measure_all": one.measure_all,
        "notes": one.notes,
        "sentence": text.verdict(one),
    }


def _host_links(one: Explanation) -> dict[str, Any] | None:
    if (links := one.host_links) is None:
        return None
    return {
        "link_bytes": links.link_bytes,
        "bytes_per_s": links.bytes_per_s,
        "known_by": links.known_by,
        "seconds": links.seconds,
        "rest": links.rest and links.rest.trial_id,
        "expected_step_s": links.expected_step_s and asdict(links.expected_step_s),
    }


def _seconds(seconds: Seconds, step_s: float) -> dict[str, Any]:
    return {**asdict(seconds), "share": seconds.value / step_s}
