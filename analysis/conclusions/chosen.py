"""Chooses the results that conclusions rest on, and reads what published notes say of them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from analysis.published import key_of, of_others
from analysis.results import BaselineRule, Result, with_baselines
from scalemark.host.own_code import typed
from scalemark.records.outcomes import NOISE, read_injected
from scalemark.records.references import Origin
from scalemark.text.wording import counted
from store.filters.selection import parsed


def counting(
    results: Sequence[Result], filters: Sequence[str]
) -> tuple[list[Result], tuple[str, ...]]:
    """Return the results that count, with notes on those that do not: own programs, and trials
    with injected faults unless a filter asks for them.
    """
    of_models = [one for one in results if not one.is_of_program]
    faulty = [one for one in of_models if _has_fault(one)]
    are_asked_for = any(one.name == "injected" for one in parsed(filters))
    chosen = [one for one in of_models if are_asked_for or not _has_fault(one)]
    notes = []
    if num_of_programs := len(results) - len(of_models):
        trials = counted(num_of_programs, "trial")
        notes.append(f"Left out: {trials} of your own programs, which no claim is about.")
    if faulty:
        example = faulty[0].axes["injected"]
        trials = f"{counted(len(faulty), 'trial')} with injected faults (as {example})"
        if are_asked_for:
            notes.append(f"{trials}: what follows is about those faults.")
        else:
            notes.append(f"Left out: {trials}; the filter 'injected~{example}' takes them in.")
    ours = [one for one in chosen if one.throughput and one.environment.origin.is_ours]
    if suspect := sum(not one.is_valid for one in ours):
        show = f"{typed('store')} show"
        notes.append(f"{suspect} of {counted(len(ours), 'trial')} suspect: {show} says why.")
    return chosen, tuple(notes)


def _has_fault(result: Result) -> bool:
    return bool(read_injected(str(result.axes.get("injected", ""))).keys() - set(NOISE))


def with_notes(
    results: Sequence[Result], references: Sequence[Mapping[str, Any]], rule: BaselineRule
) -> list[Result]:
    """Return the same results, published ones and their baselines with the axes that the notes of
    their sources name.

    Figures that are the same nonetheless are numbered by `telling`, so two figures are compared
    only when all that is known of them but one thing is the same.
    """
    if results[0].environment.origin is not Origin.PUBLISHED:
        return list(results)
    notes = {key_of(reference): str(reference["note"]) for reference in references}
    seen: Counter[tuple[object, ...]] = Counter()
    noted = []
    for result in of_others(references):
        switches = _switches(notes[result.trial_id])
        cell = (result.environment.key, *result.axes.values(), *switches.values())
        curve = f"{result.curve} {switches} {seen[cell]}"
        axes = {**result.axes, **switches, "telling": seen[cell]}
        noted.append(replace(result, curve=curve, axes=axes))
        seen[cell] += 1
    wanted = {result.trial_id for result in results}
    return [result for result in with_baselines(noted, rule) if result.trial_id in wanted]


def _switches(note: str) -> dict[str, object]:
    repacking = re.search(r"gradient_repacking=(\d+)", note)
    data_format = re.search(r"data_format=(\w+)", note)
    reports = re.search(r"reports (\w+)", note)
    return {
        "gradient_repacking": int(repacking[1]) if repacking else 0,
        "compact_gradients": "compact_gradients" in note,
        "relaxed": "relaxed consistency" in note,
        "data_format": data_format[1] if data_format else "",
        "reports": reports[1] if reports else "",
        "software": ", ".join(re.findall(r"TensorFlow ([0-9a-f]{7})\b", note)),
    }
