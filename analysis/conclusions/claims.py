"""The answer of `conclusions`: each published claim held against results."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from typing import Any

from analysis.conclusions.rules import Contrast, Results, Statement, read_published, statements
from analysis.published import key_of, of_others
from analysis.results import BaselineRule, Result, with_baselines
from scalemark.host.own_code import typed
from scalemark.records.machine import DeviceKind
from scalemark.records.outcomes import NOISE, read_injected
from scalemark.records.references import Origin
from scalemark.text.wording import counted
from store.filters import parsed


class ClaimVerdict(StrEnum):
    """Whether a claim holds for the results."""

    HOLDS = "holds"
    IN_PART = "in part"  # some of it; for the rest results say otherwise, or are missing
    DOES_NOT_HOLD = "does not hold"
    CANNOT_BE_TOLD = "cannot be told"  # ties, or single runs
    NO_RESULTS = "no results"


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedClaim:
    """A row of `store/published/conclusions.csv`."""

    id: str
    short: str  # in a few words
    claim: str  # in full
    source: str
    citation: str
    supply: str  # the command that would supply results


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedStatement:
    """One of the statements that a claim makes, with the pairs of results behind the verdict."""

    says: str
    verdict: ClaimVerdict
    num_for: int
    num_against: int
    num_open: int  # ties and single runs
    pairs: tuple[Contrast, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Conclusion:
    """A claim held against results."""

    claim: PublishedClaim
    verdict: ClaimVerdict
    statements: tuple[JudgedStatement, ...]


def conclusions(results: Results) -> list[Conclusion]:
    """Judge every claim, in order. They are about GPUs: CPU devices supply no results."""
    on_gpus = []
    for result in results:
        if result.environment.device_kind is not DeviceKind.CPU_DEVICE:
            on_gpus.append(result)
    answers = []
    for claim in claims():
        of_claim = [statement for statement in statements() if statement.claim == claim.id]
        judged = tuple(_judged(statement, on_gpus) for statement in of_claim)
        verdict = verdict_of([statement.verdict for statement in judged])
        answers.append(Conclusion(claim=claim, verdict=verdict, statements=judged))
    return answers


@cache
def claims() -> tuple[PublishedClaim, ...]:
    """Return all, in their order."""
    return tuple(PublishedClaim(**row) for row in read_published("conclusions.csv"))


def _judged(statement: Statement, results: Results) -> JudgedStatement:
    pairs = []
    for contrast in statement.contrasts(results):
        if contrast is not None:
            pairs.append(replace(contrast, holds=statement.holds(contrast)))
    counts = Counter(pair.holds for pair in pairs)
    if not pairs:
        verdict = ClaimVerdict.NO_RESULTS
    elif counts[True] and counts[False]:
        verdict = ClaimVerdict.IN_PART
    elif counts[True]:
        verdict = ClaimVerdict.HOLDS
    elif counts[False]:
        verdict = ClaimVerdict.DOES_NOT_HOLD
    else:
        verdict = ClaimVerdict.CANNOT_BE_TOLD
    return JudgedStatement(
        says=statement.says,
        verdict=verdict,
        num_for=counts[True],
        num_against=counts[False],
        num_open=counts[None],
        pairs=tuple(pairs),
    )


def verdict_of(verdicts: Sequence[ClaimVerdict]) -> ClaimVerdict:
    """Return the verdict on a claim from those on its statements."""
    different = set(verdicts)
    if len(different) == 1:
        return different.pop()
    undecided = {ClaimVerdict.CANNOT_BE_TOLD, ClaimVerdict.NO_RESULTS}
    if different <= undecided:
        return ClaimVerdict.CANNOT_BE_TOLD
    if different <= {ClaimVerdict.DOES_NOT_HOLD, *undecided}:
        return ClaimVerdict.DOES_NOT_HOLD
    return ClaimVerdict.IN_PART


def counting(results: Results, filters: Sequence[str]) -> tuple[list[Result], tuple[str, ...]]:
    """Return the results that count, with notes on those that do not: own programs, and trials
    with injected faults unless a filter asks for them.
    """
    are_asked_for = any(wanted.name == "injected" for wanted in parsed(filters))
    chosen, faulty = [], []
    num_of_programs = 0
    for result in results:
        injected = read_injected(str(result.axes.get("injected") or ""))
        if result.is_of_program:
            num_of_programs += 1
        elif injected.keys() - set(NOISE) and not are_asked_for:
            faulty.append(result)
        else:
            chosen.append(result)
    notes = []
    if num_of_programs:
        trials = counted(num_of_programs, "trial")
        notes.append(f"Left out: {trials} of your own programs, which no claim is about.")
    if faulty:
        example = faulty[0].axes["injected"]
        trials = f"{counted(len(faulty), 'trial')} with injected faults (as {example})"
        notes.append(f"Left out: {trials}; the filter 'injected~{example}' takes them in.")
    num_suspect = sum(result.is_suspect for result in chosen)
    if num_suspect:
        trials = f"{num_suspect} of {counted(len(chosen), 'trial')}"
        notes.append(f"{trials} suspect: {typed('store')} show says why.")
    return chosen, tuple(notes)


def with_notes(
    results: Results, references: Sequence[Mapping[str, Any]], rule: BaselineRule
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
    return {
        "gradient_repacking": int(_group(r"gradient_repacking=(\d+)", note) or 0),
        "compact_gradients": "compact_gradients" in note,
        "relaxed": "relaxed consistency" in note,
        "data_format": _group(r"data_format=(\w+)", note),
        "reports": _group(r"reports (\w+)", note),
        "software": ", ".join(re.findall(r"TensorFlow ([0-9a-f]{7})\b", note)),
    }


def _group(pattern: str, note: str) -> str:
    return next(iter(re.findall(pattern, note)), "")
