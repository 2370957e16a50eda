"""`python -m analysis explain`: where the missing speed-up of a trial goes, what holds it back, and
what to do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Annotated, Any

import typer
from rich.console import Console

from analysis.explanation import text
from analysis.explanation.explanations import Explanation, chosen, explain_all
from analysis.explanation.observed import observer
from analysis.explanation.quick_check import Bandwidth, of_links, of_profile
from analysis.explanation.rungs import Ladder
from analysis.explanation.step_times import Seconds
from analysis.options import Filters, OriginOption, SourceOption, Sweep
from analysis.results import Origin, Result
from analysis.selection import Selection, load
from analysis.source import Source
from analysis.text.titles import place_notes
from scalemark.cli.terminal import make_console, print_columns, print_json
from scalemark.host.own_code import typed
from scalemark.records.devices import DeviceKind
from scalemark.text.untrusted import visible
from store.command_line import Db, Json
from store.errors import StoreError
from store.filters.filter_values import ID_BEGINNING, begins_id
from store.reading import provenance

Trial = Annotated[
    str | None, typer.Option(help=f"Explain this trial alone, by the {ID_BEGINNING}.")
]
GbPerS = Annotated[
    float | None,
    typer.Option(
        help=(
            "Bandwidth between GPUs for the quick check, GB/s; else that of the machine's "
            "links, where known."
        ),
        min=1e-3,
    ),
]


def explain(
    db: Db,
    filters: Filters = None,
    trial: Trial = None,
    sweep: Sweep = None,
    origin: OriginOption = Origin.MEASURED,
    source: SourceOption = None,
    gb_per_s: GbPerS = None,
    as_json: Json = False,
) -> None:
    """Where the time of a step goes, by subtraction of trials that differ in one thing, and what
    holds each trial back.
    """
    selected = Selection(
        db=db, sweep=sweep, filters=tuple(filters or ()), origin=origin, source=source
    )
    everything = Source(
        selection=replace(selected, filters=tuple(selected.attempt_filters), sweep=None)
    )
    ladder = Ladder(everything.results)
    targets = _targets(selected, everything.results, ladder, trial)
    found = explain_all(targets, ladder, observer(everything), _bandwidths(everything, gb_per_s))
    if as_json:
        print_json([_record(one) for one in found])
        return
    console = make_console()
    for one in found:
        _print(console, one)
    for note in dict.fromkeys(
        (*selected.notes, *(note for one in found for note in place_notes(one.target.place)))
    ):
        _say(console, note)


def _targets(
    selected: Selection, everything: Sequence[Result], ladder: Ladder, trial: str | None
) -> list[Result]:
    """Raises StoreError when there is nothing to explain, with what there is instead."""
    asked = load(selected) if selected.trial_filters or selected.sweep else list(everything)
    if trial is not None:
        if not begins_id(trial):
            raise StoreError(
                f"--trial {visible(trial[:100])}: wanted the {ID_BEGINNING}; {typed('store')} "
                "list names them"
            )
        asked = [result for result in asked if result.trial_id.startswith(trial)]
        if not asked:
            raise StoreError(
                f"--trial {trial}: no such trial in what was chosen; {typed('store')} list "
                "names them"
            )
    numbers = [result for result in asked if result.throughput is not None]
    if not numbers:
        raise StoreError(
            f"{asked[0].trial_id[:8]} and what else was chosen brought no number "
            f"({asked[0].outcome}); nothing to explain"
        )
    if not any(result.axes["batch_size"] for result in numbers):
        raise StoreError(
            "none of the chosen figures tells its batch size: without it nobody knows how "
            "long a step took"
        )
    return numbers if trial is not None else chosen(numbers, ladder)


def _bandwidths(everything: Source, gb_per_s: float | None) -> Callable[[Result], Bandwidth | None]:
    def bandwidth(result: Result) -> Bandwidth | None:
        if gb_per_s is not None:
            return Bandwidth(gb_per_s=gb_per_s, told_by="--gb-per-s")
        if not result.attempt_ids or result.place.device_kind is DeviceKind.CPU_STAND_IN:
            return None
        key = everything.attempts[result.attempt_ids[-1]]["machine"]
        (machine,) = (one for one in everything.machines if one["key"] == key)
        if machine.get("hardware_profile"):
            return of_profile(machine["hardware_profile"])
        return of_links(
            provenance.links(everything.engine, key), machine["gpus"][0]["compute_capability"]
        )

    return bandwidth


def _print(console: Console, one: Explanation) -> None:
    console.print(visible(text.title(one.target)), style="bold", markup=False, soft_wrap=True)
    print_columns(
        console,
        text.COLUMNS,
        text.rows(one),
        right=frozenset((*text.COLUMNS[1:4], text.COLUMNS[5])),
    )
    console.print(visible(text.verdict(one)), style="bold", markup=False, soft_wrap=True)
    for sentence in text.sentences(one):
        _say(console, sentence)
    for remedy in one.remedies:
        _say(console, f"Try {remedy.change}: {remedy.why}.")
        if remedy.command:
            _say(console, f"  {remedy.command}")
    for what, command in text.missing(one):
        _say(console, f"{what[0].upper()}{what[1:]}{':' if command else '.'}")
        if command:
            _say(console, f"  {command}")
    if one.measure_all:
        _say(console, "All but a larger batch at once:")
        _say(console, f"  {one.measure_all}")
    console.print()


def _say(console: Console, sentence: str) -> None:
    console.print(visible(sentence), markup=False, soft_wrap=True)


def _record(one: Explanation) -> dict[str, Any]:
    fall, diagnosis = one.fall, one.diagnosis
    return {
        "trial_id": one.target.trial_id,
        "title": text.title(one.target),
        "origin": str(one.target.place.origin),
        "place": one.target.place.key,
        "machine": one.target.place.machine,
        "num_gpus": one.target.num_gpus,
        "throughput": one.target.throughput,
        "step_s": asdict(fall.step),
        "efficiency": fall.efficiency,
        "base": str(fall.base),
        "base_s": asdict(fall.base_s),
        "parts": [
            {
                "causes": [str(cause) for cause in part.causes],
                "trials": [part.before.trial_id, part.after.trial_id],
                **_of(part.seconds, fall.step.value),
            }
            for part in fall.parts
        ],
        "beside": {
            name: {
                "trials": [trial.trial_id for trial in found.trials],
                **_of(found.seconds, fall.step.value),
            }
            for name, found in (("calls", fall.calls), ("fixed", fall.fixed), ("floor", fall.floor))
            if found is not None
        },
        "quick_check": one.quick_check
        and asdict(one.quick_check) | {"seconds": one.quick_check.seconds},
        "inner_links": one.inner_links
        and asdict(one.inner_links) | {"at_most_s": one.inner_links.at_most_s},
        "host_links": _of_links(one),
        "observed": asdict(one.seen),
        "verdict": diagnosis.bound and str(diagnosis.bound),
        "confidence": str(diagnosis.confidence),
        "evidence": list(diagnosis.evidence),
        "doubts": list(diagnosis.doubts),
        "remedies": [asdict(remedy) for remedy in one.remedies],
        "missing": [
            {"rung": str(needed.rung), "command": needed.command} for needed in diagnosis.needed
        ],
        "measure_all": one.measure_all,
        "notes": list(one.notes),
        "sentence": text.verdict(one),
    }


def _of_links(one: Explanation) -> dict[str, Any] | None:
    if (links := one.host_links) is None:
        return None
    return {
        "link_bytes": links.link_bytes,
        "bytes_per_s": links.bytes_per_s,
        "told_by": links.told_by,
        "seconds": links.seconds,
        "rest": links.rest and links.rest.trial_id,
        "expected_step_s": links.expected_step_s and asdict(links.expected_step_s),
    }


def _of(seconds: Seconds, step_s: float) -> dict[str, Any]:
    return {**asdict(seconds), "share": seconds.value / step_s}
