"""Switches that sources name in the note of a figure, outside its columns."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from analysis.published import key_of, published
from analysis.results import BaselineRule, Origin, Result, with_baselines


def with_notes(
    results: Sequence[Result], references: Sequence[Mapping[str, Any]], rule: BaselineRule
) -> list[Result]:
    """Return the same results, published ones with the axes of their notes, as their baselines.

    Figures that are the same nonetheless are numbered by `telling`, so two figures are compared
    only when all that is known of them but one thing is the same.
    """
    if results[0].environment.origin is not Origin.PUBLISHED:
        return list(results)
    notes = {key_of(reference): str(reference["note"]) for reference in references}
    seen: Counter[tuple[object, ...]] = Counter()
    found = []
    for result in published(references):
        switches = _switches(notes[result.trial_id])
        cell = (result.environment.key, *result.axes.values(), *switches.values())
        curve = f"{result.curve} {switches} {seen[cell]}"
        axes = {**result.axes, **switches, "telling": seen[cell]}
        found.append(replace(result, curve=curve, axes=axes))
        seen[cell] += 1
    wanted = {result.trial_id for result in results}
    return [result for result in with_baselines(found, rule) if result.trial_id in wanted]


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
