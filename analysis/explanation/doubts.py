"""Lists why a verdict is not sure."""

from __future__ import annotations

from collections.abc import Iterator

from analysis.explanation.ablations import ABLATION_ORDER, FLOOR, Ablation
from analysis.explanation.case import MATTERS, UNNAMED, Case, apart, at_most
from analysis.explanation.causes import NEIGHBORS_FROM
from analysis.explanation.evidence import Method
from analysis.explanation.launching import at_most_launching_s, shows_fixed
from analysis.explanation.step_times import difference
from analysis.explanation.suspects import Bound, Suspect
from analysis.explanation.waterfall import Cause, shares_cores
from analysis.statistics.contradictions import contradiction
from analysis.statistics.sample import Sample
from scalemark.records.origin import Origin
from scalemark.text.wording import listed

_LOWEST = (Ablation.ALONE, Ablation.INDEPENDENT, Ablation.ALONE_READING)
"""Ablations in which replicas do not communicate."""


def doubts(case: Case, bound: Bound | None) -> Iterator[str]:
    """Yield each reason why the verdict is not sure, as a part of a sentence."""
    yield from _of_trials(case)
    yield from _of_launching(case, bound)
    yield from _of_neighbors(case, bound)
    if bound is None:
        return
    yield from _of_alone(case, bound)
    top = case.top(bound)
    if bound is Bound.HEALTHY:
        yield from _of_health(case)
    elif top is not None:
        yield from _of_top(case, top)
    elif bound is Bound.COMPUTE:
        yield from _of_quiet(case)
    else:
        yield "no cause alone takes 10% of the step"
        if case.found[0].contradicted:
            yield case.found[0].contradicted


def _of_trials(case: Case) -> Iterator[str]:
    """Yield what is wrong with the trials that were subtracted."""
    used = case.fall.ablations.trials
    if case.fall.target.environment.origin is Origin.PUBLISHED:
        yield "published figures have no repeats"
        return
    if any(
        len(result.repeats) < 2 for ablation, result in used.items() if ablation in ABLATION_ORDER
    ):
        yield "single runs: sweep.repeats=3 would show how far others differ"
    for ablation, result in used.items():
        if contradiction(Sample.of(result.repeats)):
            yield f"repeats of {ablation} contradict each other"
    for ablation, seen in case.of_ablations.items():
        if seen.doubts and ablation in used:
            yield f"{ablation} is suspect: {seen.doubts[0]}"


def _of_launching(case: Case, bound: Bound | None) -> Iterator[str]:
    """Yield what launching may take, unless it is little, or less than the verdict's cause."""
    fall = case.fall
    # Nothing unknown takes more than what surely has half of the step.
    if _surely_takes(case, bound, 0.5 * fall.step.value) or case.seen.launch_gap_share is not None:
        return
    if bound is Bound.LAUNCH or fall.target.axes["model"] == FLOOR:
        return
    most_s = at_most_launching_s(fall)
    if most_s is None:
        yield f"without {shows_fixed(fall)} nothing shows what is fixed in a step"
    elif fall.share(most_s) >= MATTERS and not _surely_takes(case, bound, most_s):
        share = min(1.0, fall.share(most_s))
        yield (
            f"up to {share:.0%} of the step may be there whatever the batch: launching, or the "
            "memory of the weights"
        )


def _surely_takes(case: Case, bound: Bound | None, seconds: float) -> bool:
    """Return whether the verdict's cause takes more than so much, by its whole interval."""
    if not case.heavy:
        return False
    top = case.heavy[0]
    is_measured = top.bound is bound and top.seconds.is_conclusive and top.is_direct
    return is_measured and (top.seconds.low or 0.0) > seconds


def _of_neighbors(case: Case, bound: Bound | None) -> Iterator[str]:
    """Yield who takes the cores that make batches and launch kernels, and that CPU devices compute
    on.
    """
    taken = case.seen.cores_taken or 0.0
    is_touched = bound in (Bound.INPUT, Bound.LAUNCH)
    if shares_cores(case.fall.target):
        is_touched = bound not in (None, Bound.CONTENTION)
    if is_touched and taken >= NEIGHBORS_FROM:
        yield f"other programs took {taken:.0%} of the cores"


def _of_alone(case: Case, bound: Bound) -> Iterator[str]:
    """Yield that one replica alone communicates, too, where that is counted as its compute."""
    alone = case.fall.ablations.found.get(Ablation.ALONE)
    if alone is None or shares_cores(alone) or alone.trains_apart or bound is Bound.COMMUNICATION:
        return
    if alone.axes["local_parameter_device"] == "cpu":
        yield "the one replica fetches its variables from the CPU, which counts as its compute"


def _of_top(case: Case, top: Suspect) -> Iterator[str]:
    missing = [
        str(one.ablation) for one in case.fall.ablations.missing if one.ablation in ABLATION_ORDER
    ]
    if missing and not (top.is_direct and _is_whole(case, top)):
        yield f"missing to tell it from other causes: {listed(missing)}"
    if top.method is Method.CORES and not top.is_direct:
        yield "its input may be as slow by itself: again without other programs would tell"
    elif not missing and not top.is_direct:
        yield "nothing measured it for itself"
    if top.contradicted:
        yield top.contradicted
    if top.seconds.is_conclusive and case.fall.share(top.seconds.low or 0.0) < MATTERS:
        yield "its interval reaches below 10% of the step"
    is_of_input = top.bound is Bound.INPUT or top.method is Method.CORES
    if not is_of_input and _waits_for_batches(case):
        yield "it waits for batches, too: mending this alone would make it wait for longer"
    for one in case.heavy:
        if one.bound is not top.bound and not apart(top, one):
            yield f"{one.bound or UNNAMED} may be as large"


def _is_whole(case: Case, top: Suspect) -> bool:
    """Return whether nothing larger may be hidden in what the waterfall stands on."""
    if case.fall.target.num_gpus == 1 or case.fall.base in _LOWEST:
        return True
    return _surely_takes(case, top.bound, 0.5 * case.fall.step.value)


def _waits_for_batches(case: Case) -> bool:
    """Return whether its input surely takes longer than the rest of its step, which it hides."""
    inputs = [one for one in case.fall.parts if {Cause.INPUT, Cause.DISTORTIONS} & set(one.causes)]
    return any(one.seconds.is_conclusive and (one.seconds.low or 0.0) > 0 for one in inputs)


def _of_health(case: Case) -> Iterator[str]:
    fall = case.fall
    if fall.ideal is None:
        yield "one replica was measured with a larger batch alone"
        return
    lost = difference(fall.target, fall.ideal)
    if lost.is_conclusive and fall.share(lost.high or 0.0) > MATTERS:
        yield "the interval of its loss reaches above 10% of the step"
    if Ablation.ALONE_READING in fall.ablations.found:
        yield "one replica was measured with its input alone, which may hold that back, too"


def _of_quiet(case: Case) -> Iterator[str]:
    """Yield causes that seem to take less than what matters, but whose intervals reach it."""
    causes = {}
    for part in case.fall.parts:
        causes[" or ".join(part.causes)] = at_most(part.seconds)
    for one in case.found:
        if one.bound:
            most = max(at_most(one.seconds), causes.get(str(one.bound), 0.0))
            causes[str(one.bound)] = most
    for name, seconds in causes.items():
        if case.fall.share(seconds) >= MATTERS:
            yield f"the interval of {name} reaches 10% of the step"
