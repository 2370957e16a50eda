"""What sources tell of a figure outside its columns: switches that its note names."""

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
    """The same, published ones with the axes of their notes, and baselines that have these, too.

    What a source tells twice all the same is numbered, `telling` 0, 1, ...: so two figures are only
    ever compared when all that is known of them but one thing is the same.
    """
    if not any(result.place.origin is Origin.PUBLISHED for result in results):
        return list(results)
    notes = {key_of(reference): str(reference["note"]) for reference in references}
    seen: Counter[tuple[object, ...]] = Counter()
    found = []
    for result in published(references):
        told = _switches(notes[result.trial_id])
        cell = (result.place.key, *result.axes.values(), *told.values())
        found.append(
            replace(
                result,
                curve=f"{result.curve} {told} {seen[cell]}",
                axes={**result.axes, **told, "telling": seen[cell]},
            )
        )
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
