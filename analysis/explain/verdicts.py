"""Decides what holds a trial back, how sure that is, and what the verdict rests on.

It is never sure without repeats. Of N GPUs, with shares of the target's own step:

| verdict | when |
|---|---|
| healthy | efficiency 0.9 or more of the ideal, and no suspect has 10 % |
| slow replica | what all wait for it, by the times of each, is the largest, and has 10 % |
| compute-bound | one replica without a suspect of 10 %, or GPUs, one alone too, below clocks |
| any other | its suspect is the largest, and has 10 % |
| none (cannot tell) | the largest cannot be distinguished from another, or from nothing |

What one replica alone and N of them differ by is contention or communication, and no verdict by
itself: a test has to show which (`analysis.explain.exchange`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from analysis.explain.ablations import ABLATION_ORDER, FLOOR, Ablation, reads
from analysis.explain.links import kernels_s
from analysis.explain.suspects import (
    EXCHANGING_NOTHING,
    MOSTLY_FIXED,
    NEIGHBORS_FROM,
    Bound,
    Case,
    Method,
    Suspect,
    at_most_launching_s,
    expected_launching_s,
    suspects,
)
from analysis.explain.waterfall import (
    Cause,
    Seconds,
    Waterfall,
    difference,
    ms,
    shares_cores,
    step_s,
)
from analysis.statistics.contradictions import contradiction
from analysis.statistics.sample import Sample
from scalemark.records.references import Origin
from scalemark.text.wording import listed

# of the step: the performance guide's own example of launch gaps worth mending has so much
MATTERS = 0.10
HEALTHY_FROM = 0.90  # of the ideal
NEARLY = 0.9  # of the largest: a second so near is as likely
UNNAMED = "what nothing tells apart"


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
    suspects: tuple[Suspect, ...]  # largest first
    rests_on: tuple[Suspect, ...]  # none where there is nothing to compare with


def diagnose(case: Case) -> Diagnosis:
    """Judge a target."""
    suspected = suspects(case)
    heavy = [one for one in suspected if case.fall.share(one.seconds.value) >= MATTERS]
    bound, why = _verdict(case, suspected, heavy)
    doubted = tuple(_doubts(case, bound, suspected, heavy))
    confidence = Confidence.LIKELY if doubted else Confidence.SURE
    if bound is None:
        confidence = Confidence.CANNOT_TELL
    return Diagnosis(
        bound=bound,
        confidence=confidence,
        evidence=tuple(why),
        doubts=doubted,
        suspects=tuple(suspected),
        rests_on=tuple(_rests_on(bound, case.fall, suspected, heavy)),
    )


def _verdict(
    case: Case, suspected: Sequence[Suspect], heavy: Sequence[Suspect]
) -> tuple[Bound | None, list[str]]:
    """Return the bound, and why."""
    contradicting = _contradicting(case)
    if contradicting:
        return None, [contradicting]
    if not heavy:
        return _without_suspect(case, suspected)
    top = heavy[0]
    why = list(dict.fromkeys(_with_share(case, suspect) for suspect in heavy))
    if top.bound is None:
        return None, why
    same = [suspect.seconds.low for suspect in heavy if suspect.bound is top.bound]
    if all(low is not None and low <= 0 for low in same):
        return None, [*why, "its repeats cannot tell it from nothing"]
    rivals = [suspect for suspect in heavy if suspect.bound is not top.bound]
    if rivals and _is_as_large(rivals[0], top):
        names = f"{top.bound} and {rivals[0].bound or UNNAMED}"
        return None, [*why, f"{names} are as large as each other"]
    if top.bound not in (Bound.INPUT, Bound.LAUNCH):
        unlimited = _unlimited_launching(case, top.seconds.value)
        if unlimited:
            return None, [*why, unlimited]
    return top.bound, why


def _without_suspect(case: Case, suspected: Sequence[Suspect]) -> tuple[Bound | None, list[str]]:
    fall = case.fall
    unlimited = _unlimited_launching(case, 0.0)
    if unlimited:
        return None, [unlimited]
    if fall.target.num_gpus == 1:
        return _of_one_quiet(case)
    if fall.efficiency is None:
        larger = fall.larger_alone
        least = fall.share(larger.seconds.value) if larger else 0.0
        if least >= HEALTHY_FROM:
            return Bound.HEALTHY, [f"{least:.0%} of the ideal or more, by a larger batch alone"]
        ideal = "independent replicas" if shares_cores(fall.target) else "one replica alone"
        return None, [f"nothing to compare it with; {ideal} would tell"]
    of_ideal = f"{fall.efficiency:.0%} of the ideal"
    if fall.efficiency >= HEALTHY_FROM:
        return Bound.HEALTHY, [of_ideal]
    why = [of_ideal, "and no cause alone takes 10% of the step"]
    if not suspected:
        return None, why
    return suspected[0].bound, [*why, _with_share(case, suspected[0])]


def _of_one_quiet(case: Case) -> tuple[Bound | None, list[str]]:
    """Judge one replica without a suspect that matters."""
    fall, seen = case.fall, case.seen
    input_is_known = Ablation.REDUCING in fall.found or seen.data_wait_share is not None
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
    share = fall.share(expected_s)
    return (
        f"launching its kernels may take {share:.0%} of the step; {_shows_fixed(fall)} would tell"
    )


def _shows_fixed(fall: Waterfall) -> str:
    """Return which trial would show what is fixed in a step."""
    return "one replica alone" if Ablation.LARGER_BATCH in fall.found else "a larger batch"


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
            times = [step_s(row).value for row in (result, *others)]
            return (
                f"rows of {ablation} contradict each other: {ms(min(times))} and "
                f"{ms(max(times))} for the same step"
            )
    return ""


def _is_apart(top: Suspect, other: Suspect) -> bool:
    """Return whether the intervals of both leave no doubt which one is larger."""
    low = top.seconds.value
    if top.seconds.is_conclusive and top.seconds.low is not None:
        low = top.seconds.low
    return low > _at_most(other.seconds)


def _is_as_large(rival: Suspect, top: Suspect) -> bool:
    return rival.seconds.value >= NEARLY * top.seconds.value and not _is_apart(top, rival)


def _at_most(seconds: Seconds) -> float:
    """Return the end of its interval; without one a half more must do."""
    if seconds.is_conclusive and seconds.high is not None:
        return seconds.high
    return 1.5 * seconds.value


def _doubts(
    case: Case, bound: Bound | None, suspected: Sequence[Suspect], heavy: Sequence[Suspect]
) -> Iterator[str]:
    """Yield each reason why the verdict is not sure, as a part of a sentence."""
    yield from _of_trials(case)
    yield from _of_launching(case, bound, heavy)
    taken = case.seen.cores_taken or 0.0
    is_touched = bound in (Bound.INPUT, Bound.LAUNCH)
    if shares_cores(case.fall.target):
        is_touched = bound not in (None, Bound.CONTENTION)
    if is_touched and taken >= NEIGHBORS_FROM:
        yield f"other programs took {taken:.0%} of the cores"
    if bound is None:
        return
    alone = case.fall.found.get(Ablation.ALONE)
    if alone is not None and bound is not Bound.COMMUNICATION:
        communicates = not alone.trains_apart and alone.axes["local_parameter_device"] == "cpu"
        if communicates and not shares_cores(alone):
            yield "the one replica fetches its variables from the CPU, which counts as its compute"
    of_bound = [suspect for suspect in heavy if suspect.bound is bound]
    if bound is Bound.HEALTHY:
        yield from _of_health(case.fall)
    elif of_bound:
        yield from _of_top(case, of_bound[0], heavy)
    elif bound is Bound.COMPUTE:
        yield from _of_quiet(case.fall, suspected)
    else:
        yield "no cause alone takes 10% of the step"
        if suspected[0].contradicted:
            yield suspected[0].contradicted


def _of_trials(case: Case) -> Iterator[str]:
    """Yield what is wrong with the trials that were subtracted."""
    used = case.fall.ablations.trials
    if case.fall.target.environment.origin is Origin.PUBLISHED:
        yield "published figures have no repeats"
        return
    subtracted = [result for ablation, result in used.items() if ablation in ABLATION_ORDER]
    if any(len(result.repeats) < 2 for result in subtracted):
        yield "single runs: sweep.repeats=3 would show how far others differ"
    for ablation, result in used.items():
        if contradiction(Sample.of(result.repeats)):
            yield f"repeats of {ablation} contradict each other"
    for ablation, seen in case.of_ablations.items():
        if seen.doubts and ablation in used:
            yield f"{ablation} is suspect: {seen.doubts[0]}"


def _of_launching(case: Case, bound: Bound | None, heavy: Sequence[Suspect]) -> Iterator[str]:
    """Yield what launching may take, unless it is little, or less than the verdict's cause."""
    fall = case.fall
    surely_s = _surely_s(bound, heavy)
    # Nothing unknown takes more than what surely has half of the step.
    if surely_s > 0.5 * fall.step.value or case.seen.launch_gap_share is not None:
        return
    if bound is Bound.LAUNCH or fall.target.axes["model"] == FLOOR:
        return
    most_s = at_most_launching_s(fall)
    if most_s is None:
        yield f"without {_shows_fixed(fall)} nothing shows what is fixed in a step"
    elif fall.share(most_s) >= MATTERS and surely_s <= most_s:
        yield (
            f"up to {min(1.0, fall.share(most_s)):.0%} of the step may be there whatever the "
            "batch: launching, or the memory of the weights"
        )


def _surely_s(bound: Bound | None, heavy: Sequence[Suspect]) -> float:
    """Return what the verdict's cause takes at least, by its interval; 0 where nothing is sure."""
    if not heavy or heavy[0].bound is not bound:
        return 0.0
    top = heavy[0]
    return (top.seconds.low or 0.0) if top.is_direct and top.seconds.is_conclusive else 0.0


def _of_top(case: Case, top: Suspect, heavy: Sequence[Suspect]) -> Iterator[str]:
    fall = case.fall
    missing = [str(one) for one in fall.ablations.missing if one in ABLATION_ORDER]
    # Nothing larger may be hidden in what the waterfall stands on.
    is_whole = fall.target.num_gpus == 1
    is_whole |= fall.base in (*EXCHANGING_NOTHING, Ablation.ALONE_READING)
    is_whole |= _surely_s(top.bound, heavy) > 0.5 * fall.step.value
    if missing and not (top.is_direct and is_whole):
        yield f"missing to tell it from other causes: {listed(missing)}"
    if top.method is Method.CORES and not top.is_direct:
        yield "its input may be as slow by itself: again without other programs would tell"
    elif not missing and not top.is_direct:
        yield "nothing measured it for itself"
    if top.contradicted:
        yield top.contradicted
    if top.seconds.is_conclusive and fall.share(top.seconds.low or 0.0) < MATTERS:
        yield "its interval reaches below 10% of the step"
    if top.bound is not Bound.INPUT and top.method is not Method.CORES:
        for part in fall.parts:
            is_input = {Cause.INPUT, Cause.DISTORTIONS} & set(part.causes)
            if is_input and part.seconds.is_conclusive and (part.seconds.low or 0.0) > 0:
                yield "it waits for batches, too: mending this alone would make it wait for longer"
                break
    for other in heavy:
        if other.bound is not top.bound and not _is_apart(top, other):
            yield f"{other.bound or UNNAMED} may be as large"


def _of_health(fall: Waterfall) -> Iterator[str]:
    if fall.ideal is None:
        yield "one replica was measured with a larger batch alone"
        return
    lost = difference(fall.target, fall.ideal)
    if lost.is_conclusive and fall.share(lost.high or 0.0) > MATTERS:
        yield "the interval of its loss reaches above 10% of the step"
    if Ablation.ALONE_READING in fall.found:
        yield "one replica was measured with its input alone, which may hold that back, too"


def _of_quiet(fall: Waterfall, suspected: Sequence[Suspect]) -> Iterator[str]:
    """Yield causes that seem to take less than what matters, but whose intervals reach it."""
    causes = {" or ".join(part.causes): _at_most(part.seconds) for part in fall.parts}
    for suspect in suspected:
        if suspect.bound:
            most_s = max(_at_most(suspect.seconds), causes.get(str(suspect.bound), 0.0))
            causes[str(suspect.bound)] = most_s
    for name, seconds in causes.items():
        if fall.share(seconds) >= MATTERS:
            yield f"the interval of {name} reaches 10% of the step"


def _rests_on(
    bound: Bound | None, fall: Waterfall, suspected: Sequence[Suspect], heavy: Sequence[Suspect]
) -> list[Suspect]:
    """Return the evidence of a verdict: its suspects, or how little there is to blame; where it
    cannot tell, whatever is heavy.
    """
    if bound is None:
        return list(heavy)
    if bound is Bound.HEALTHY:
        return _least_lost(fall)
    of_bound = [suspect for suspect in suspected if suspect.bound is bound]
    chosen = [suspect for suspect in of_bound if suspect in heavy] or of_bound[:1]
    if bound is Bound.COMPUTE and not chosen:
        return [_least_launching(fall)]
    return chosen


def _least_lost(fall: Waterfall) -> list[Suspect]:
    """Return how little is lost against the ideal, or against a larger batch in its place."""
    larger = fall.larger_alone
    if fall.ideal is not None:
        lost, subtracted, most = difference(fall.target, fall.ideal), fall.ideal.trial_id, ""
    elif larger is not None:
        lost = Seconds(value=fall.step.value - larger.seconds.value)
        subtracted, most = larger.trials[0], " at most"
    else:
        return []
    because = f"{fall.share(lost.value):.0%} of the step is lost to all causes{most}"
    trials = (fall.target.trial_id, subtracted)
    return [
        Suspect(
            bound=Bound.HEALTHY,
            method=Method.ABLATION,
            seconds=lost,
            because=because,
            trials=trials,
        )
    ]


def _least_launching(fall: Waterfall) -> Suspect:
    """Return what limits launching, which alone is left where one replica has no other cause."""
    most_s, method = at_most_launching_s(fall), Method.FIXED
    if most_s is None:
        most_s, method = kernels_s(fall.target.axes) or 0.0, Method.COUNTED
        most_s += max(0.0, fall.calls.seconds.value) if fall.calls else 0.0
    trials: dict[str, None] = {}
    for beside in (fall.calls, fall.fixed, fall.floor):
        if beside is not None:
            trials |= dict.fromkeys(beside.trials)
    return Suspect(
        bound=Bound.COMPUTE,
        method=method,
        seconds=Seconds(value=most_s),
        because=f"launching takes {min(1.0, fall.share(most_s)):.0%} of the step at most",
        trials=tuple(trials) or (fall.target.trial_id,),
    )
