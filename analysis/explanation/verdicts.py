"""Decides what holds a trial back, how sure that is, and what would make it surer.

It is never sure without repeats. Of N GPUs, with shares of the target's own step:

| verdict | when |
|---|---|
| healthy | efficiency 0.9 or more of the ideal, and no suspect has 10 % |
| slow replica | what all wait for it, by the times of each, is the largest, and has 10 % |
| compute-bound | one replica without a suspect of 10 %, or GPUs, one alone too, below clocks |
| any other | its suspect is the largest, and has 10 % |
| none (cannot tell) | the largest cannot be distinguished from another, or from nothing |

What one replica alone and N of them differ by is contention or communication, and no verdict by
itself: a test has to show which (`analysis.explanation.communication.exchange`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from analysis.explanation.ablations import ABLATION_ORDER, Ablation, Missing, reads
from analysis.explanation.case import MATTERS, UNNAMED, Case, apart
from analysis.explanation.causes import suspects
from analysis.explanation.communication.exchange import ExchangeTests
from analysis.explanation.communication.links import Links
from analysis.explanation.doubts import doubts
from analysis.explanation.evidence import Evidence
from analysis.explanation.grounds import grounds
from analysis.explanation.launching import (
    MOSTLY_FIXED,
    expected_launching_s,
    kernels_s,
    shows_fixed,
)
from analysis.explanation.observed import Observed
from analysis.explanation.step_times import ms, step_s
from analysis.explanation.suspects import Bound, Suspect
from analysis.explanation.waterfall import Waterfall, shares_cores

HEALTHY_FROM = 0.90  # of the ideal
NEARLY = 0.9  # of the largest: a second so near is as likely


class Confidence(StrEnum):
    """The confidence in a verdict."""

    SURE = "sure"  # measured for itself, over repeats, and apart from every other
    LIKELY = "likely"
    CANNOT_TELL = "cannot tell"


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """The verdict on one target."""

    bound: Bound | None  # None: cannot tell
    confidence: Confidence
    evidence: tuple[str, ...]  # parts of sentences, the most telling first
    doubts: tuple[str, ...]  # why it is not surer
    needed: tuple[Missing, ...]  # trials that would make it so
    suspects: tuple[Suspect, ...]  # largest first
    rests_on: tuple[Evidence, ...]  # none where there is nothing to compare with


def diagnose(
    fall: Waterfall,
    seen: Observed,
    of_ablations: Mapping[Ablation, Observed],
    links: Links,
    tests: ExchangeTests,
    waiting: Sequence[Suspect],
) -> Diagnosis:
    """Judge a target by what was `seen` of it and of its ablations; the rest as in `suspects`."""
    found = suspects(fall, seen, of_ablations, links, tests, waiting)
    case = Case(fall=fall, seen=seen, of_ablations=of_ablations, found=found, tests=tests)
    bound, why = _verdict(case)
    doubted = tuple(doubts(case, bound))
    confidence = Confidence.LIKELY if doubted else Confidence.SURE
    if bound is None:
        confidence = Confidence.CANNOT_TELL
    return Diagnosis(
        bound=bound,
        confidence=confidence,
        evidence=tuple(why),
        doubts=doubted,
        needed=fall.ablations.missing,
        suspects=tuple(found),
        rests_on=tuple(grounds(bound, fall, found, case.heavy, links)),
    )


def _verdict(case: Case) -> tuple[Bound | None, list[str]]:
    """Return the bound, and why."""
    heavy = case.heavy
    if contradicting := _contradicting(case):
        return None, [contradicting]
    if not heavy:
        return _without_suspect(case)
    top = heavy[0]
    why = list(dict.fromkeys(_with_share(case, one) for one in heavy))
    if top.bound is None:
        return None, why
    same = [one for one in heavy if one.bound is top.bound]
    if all(one.seconds.low is not None and one.seconds.low <= 0 for one in same):
        return None, [*why, "its repeats cannot tell it from nothing"]
    rivals = [one for one in heavy if one.bound is not top.bound]
    if rivals:
        rival = rivals[0]
        is_near = rival.seconds.value >= NEARLY * top.seconds.value
        if is_near and not apart(top, rival):
            names = f"{top.bound} and {rival.bound or UNNAMED}"
            return None, [*why, f"{names} are as large as each other"]
    if top.bound not in (Bound.INPUT, Bound.LAUNCH):
        unlimited = _unlimited_launching(case, top.seconds.value)
        if unlimited:
            return None, [*why, unlimited]
    return top.bound, why


def _without_suspect(case: Case) -> tuple[Bound | None, list[str]]:
    fall = case.fall
    if unlimited := _unlimited_launching(case, 0.0):
        return None, [unlimited]
    if fall.target.num_gpus == 1:
        return _of_one_quiet(case)
    if fall.efficiency is None:
        least = fall.least_efficiency
        if least is not None and least >= HEALTHY_FROM:
            return Bound.HEALTHY, [f"{least:.0%} of the ideal or more, by a larger batch alone"]
        ideal = "independent replicas" if shares_cores(fall.target) else "one replica alone"
        return None, [f"nothing to compare it with; {ideal} would tell"]
    of_ideal = f"{fall.efficiency:.0%} of the ideal"
    if fall.efficiency >= HEALTHY_FROM:
        return Bound.HEALTHY, [of_ideal]
    why = [of_ideal, "and no cause alone takes 10% of the step"]
    if not case.found:
        return None, why
    return case.found[0].bound, [*why, _with_share(case, case.found[0])]


def _of_one_quiet(case: Case) -> tuple[Bound | None, list[str]]:
    """Judge one replica without a suspect that matters."""
    fall, seen = case.fall, case.seen
    input_is_known = Ablation.REDUCING in fall.ablations.found or seen.data_wait_share is not None
    if reads(fall.target.axes) and not input_is_known:
        return None, ["nothing shows what its input costs; synthetic data would tell"]
    is_limited = fall.calls or fall.fixed or fall.floor or seen.launch_gap_share is not None
    counted_s = kernels_s(fall.target.axes)
    if not is_limited and (counted_s is None or fall.share(counted_s) >= MATTERS):
        return None, ["nothing shows what launching its kernels costs; a larger batch would tell"]
    return Bound.COMPUTE, ["no cause that was measured takes 10% of the step"]


def _unlimited_launching(case: Case, largest_s: float) -> str:
    """Return that launching, which no trial limits, is expected to be most of a step, and more than
    the largest suspect; empty where it is not.
    """
    fall, expected_s = case.fall, expected_launching_s(case.fall)
    if fall.fixed or case.seen.launch_gap_share is not None or expected_s is None:
        return ""
    if expected_s < max(largest_s, MOSTLY_FIXED * fall.step.value):
        return ""
    return (
        f"launching its kernels may take {fall.share(expected_s):.0%} of the step; "
        f"{shows_fixed(fall)} would tell"
    )


def _with_share(case: Case, suspect: Suspect) -> str:
    if suspect.bound is None:
        said = (suspect.because, suspect.contradicted, suspect.told_by)
        return "; ".join(part for part in said if part)
    return f"{suspect.because} ({case.fall.share(suspect.seconds.value):.0%} of the step)"


def _contradicting(case: Case) -> str:
    """Return which rows of one trial deny each other; empty where none does."""
    for ablation, result in case.fall.ablations.trials.items():
        others = case.tests.contradicting(result) if ablation in ABLATION_ORDER else []
        if others:
            times = [step_s(one).value for one in (result, *others)]
            return (
                f"rows of {ablation} contradict each other: {ms(min(times))} and "
                f"{ms(max(times))} for the same step"
            )
    return ""
