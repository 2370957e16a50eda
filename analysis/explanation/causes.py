"""Estimates how much of a trial's step each possible bottleneck takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from analysis.explanation.ablations import Ablation, reads
from analysis.explanation.communication.exchange import ExchangeTests
from analysis.explanation.communication.host_links import HostLinks, host_links
from analysis.explanation.communication.links import Links
from analysis.explanation.evidence import Method
from analysis.explanation.launching import computes_almost_nothing, launching
from analysis.explanation.observed import Observed
from analysis.explanation.step_times import about, difference, ms, step_s
from analysis.explanation.suspects import Bound, Suspect, inferred, lost_to, more, observed_in
from analysis.explanation.waterfall import Cause, Part, Waterfall, shares_cores
from analysis.results import Result

NEIGHBORS_FROM = 0.10  # of the cores, that others take
THROTTLED_FROM = 0.10  # of the clock
POWER_SHARED_FROM = 0.05  # of the clock, that a GPU among others lost and one alone did not

_BOUND = {
    Cause.CONTENTION: Bound.CONTENTION,
    Cause.COMMUNICATION: Bound.COMMUNICATION,
    Cause.NETWORK: Bound.COMMUNICATION,
    Cause.INPUT: Bound.INPUT,
    Cause.DISTORTIONS: Bound.INPUT,
}


def suspects(
    fall: Waterfall,
    seen: Observed,
    of_ablations: Mapping[Ablation, Observed],
    links: Links,
    tests: ExchangeTests,
    waiting: Sequence[Suspect],
) -> list[Suspect]:
    """Return suspects, largest first; `seen` of the target, `of_ablations` of all that were found.

    `links` are those that its gradients take, `tests` know the other trials of its box;
    `waiting` for a slow replica is counted, and taken off contention, where trials show it as such.
    """
    waited_s = sum(one.seconds.value for one in waiting)
    fall = _without_contention(fall, waited_s)
    found = [
        *waiting,
        *_of_parts(fall, seen, links, tests),
        *_host_links(fall, seen),
        *_waiting(fall, seen),
        *launching(fall, seen, of_ablations),
        *_neighbors(fall, seen),
    ]
    if not any(Cause.COMMUNICATION in part.causes for part in fall.parts):
        found += _shown(fall.target, fall.step.value, links, tests)
    found = [_without_neighbors(one, fall, seen) for one in found]
    found += _clocks(fall, seen, of_ablations.get(Ablation.ALONE, seen), waited_s)
    return sorted(found, key=lambda one: -one.seconds.value)


def _without_contention(fall: Waterfall, seconds: float) -> Waterfall:
    """Return it with so much less contention, whose cause is known."""
    parts = []
    for part in fall.parts:
        is_contention = Cause.CONTENTION in part.causes
        parts.append(replace(part, seconds=part.seconds.plus(-seconds)) if is_contention else part)
    return replace(fall, parts=tuple(parts))


def _of_parts(
    fall: Waterfall, seen: Observed, links: Links, tests: ExchangeTests
) -> Iterator[Suspect]:
    single: dict[Bound, list[Part]] = {}
    for part in fall.parts:
        bounds = {_BOUND.get(cause) for cause in part.causes}
        known = [bound for bound in bounds if bound is not None]
        if len(bounds) == 1 and known:
            single.setdefault(known[0], []).append(part)
        elif known and part.seconds.value > 0:
            yield from _lump(part, fall, seen, links, tests)
    # Parts of one bound are neighbors on the ablations: reading and distorting are both input.
    for bound, parts in single.items():
        seconds = parts[0].seconds
        if len(parts) > 1:
            seconds = difference(parts[-1].after, parts[0].before)
        if seconds.value <= 0:
            continue
        trials = parts[-1].after, parts[0].before
        causes = [cause for part in parts for cause in part.causes]
        if bound is Bound.INPUT and not fall.target.axes["data"]:
            why = f"{lost_to('input or other data', seconds.value, fall)}: not reported"
            yield inferred(None, seconds, why, trials)
            continue
        contradicted = ""
        if bound is Bound.INPUT:
            contradicted = tests.read_faster(fall.target)
        if bound is Bound.COMMUNICATION:
            contradicted = links.contradict(seconds.value, fall.step.value)
        yield Suspect(
            bound=bound,
            seconds=seconds,
            is_direct=True,
            because=more(" and ".join(causes), seconds),
            method=Method.ABLATION,
            trials=trials,
            contradicted=contradicted,
        )


def _lump(
    part: Part, fall: Waterfall, seen: Observed, links: Links, tests: ExchangeTests
) -> Iterator[Suspect]:
    """Split several causes in one difference, as far as something else is known of them."""
    left_s, causes, trials = part.seconds.value, list(part.causes), (part.after, part.before)
    between = host_links(fall, seen)
    if Cause.NETWORK in causes and between:
        on_links = _of_links(between, fall.target, at_most_s=left_s)
        yield on_links
        left_s -= on_links.seconds.value
        causes.remove(Cause.NETWORK)
    if Cause.INPUT in causes:
        if seen.data_wait_share is None:
            because = lost_to(" or ".join(part.causes), left_s, fall)
            yield inferred(None, part.seconds, because, trials)
            return
        left_s -= _waited_before_distorting_s(fall, seen.data_wait_share)  # which `_waiting` yields
        causes = [cause for cause in causes if _BOUND.get(cause) is not Bound.INPUT]
    if Cause.COMMUNICATION in causes and seen.exposed_share is not None:
        exposed_s = max(0.0, min(left_s, seen.exposed_share * fall.step.value))
        because = (
            f"the profile has gradients reduced with nothing beside for {seen.exposed_share:.0%} "
            "of the step"
        )
        yield observed_in(Bound.COMMUNICATION, about(exposed_s), because, fall, is_direct=False)
        left_s -= exposed_s
        causes.remove(Cause.COMMUNICATION)
        if Cause.CORES in causes:  # the ideal has them, too
            return
    bounds = {_BOUND.get(cause) for cause in causes}
    if Cause.COMMUNICATION in causes and len(bounds) > 1:
        for one in _shown(part.after, left_s, links, tests):
            yield one
            left_s -= one.seconds.value
    if left_s <= 0:
        return
    yield _rest(causes, left_s, part, fall, links, tests)


def _waited_before_distorting_s(fall: Waterfall, share: float) -> float:
    """Return the wait for batches without what distortions add to it, where these were subtracted
    for themselves.
    """
    distorting = [one.seconds.value for one in fall.parts if one.causes == (Cause.DISTORTIONS,)]
    return max(0.0, share * fall.step.value - sum(distorting))


def _shown(
    target: Result, at_most_s: float, links: Links, tests: ExchangeTests
) -> Iterator[Suspect]:
    """Yield communication that other trials of the box show, unless the links deny it."""
    shown = tests.shown(target)
    if shown is None or links.contradict(shown.seconds.value, step_s(target).value):
        return
    seconds = shown.seconds if shown.seconds.value <= at_most_s else about(at_most_s)
    if seconds.value > 0:
        yield Suspect(
            bound=Bound.COMMUNICATION,
            seconds=seconds,
            is_direct=False,
            because=f"{more(Cause.COMMUNICATION, seconds)}, as {shown.because}",
            method=shown.method,
            trials=shown.trials,
            p=shown.p,
        )


def _rest(
    causes: list[Cause],
    left_s: float,
    part: Part,
    fall: Waterfall,
    links: Links,
    tests: ExchangeTests,
) -> Suspect:
    """Return what is left of a difference; it has a bound only where one cause is left."""
    trials = part.after, part.before
    seconds = part.seconds if left_s == part.seconds.value else about(left_s)
    contradicted = ""
    if Cause.COMMUNICATION in causes:
        contradicted = links.contradict(left_s, fall.step.value) or tests.refuted(part.after)
    bounds = {_BOUND.get(cause) for cause in causes}
    if len(bounds) == 1 and None not in bounds and not contradicted:
        return inferred(bounds.pop(), seconds, more(" or ".join(causes), seconds), trials)
    because = lost_to(" or ".join(causes) or "an unknown cause", left_s, fall)
    told_by = ""
    if {Cause.CONTENTION, Cause.COMMUNICATION} <= set(causes):
        told_by = "independent replicas would tell"
    return inferred(None, seconds, because, trials, contradicted=contradicted, told_by=told_by)


def _host_links(fall: Waterfall, seen: Observed) -> Iterator[Suspect]:
    """Yield what links between hosts take, where no subtraction shows communication."""
    causes = {cause for part in fall.parts for cause in part.causes}
    links = host_links(fall, seen)
    if links and causes.isdisjoint((Cause.NETWORK, Cause.COMMUNICATION)):
        yield _of_links(links, fall.target, at_most_s=fall.step.value)


def _of_links(links: HostLinks, target: Result, at_most_s: float) -> Suspect:
    because = (
        f"{links.link_bytes / 1e6:.3g} MB per step over links of {links.bytes_per_s / 1e6:.3g} "
        f"MB/s are {ms(links.seconds)}"
    )
    seconds = about(min(links.seconds, at_most_s))
    return inferred(Bound.COMMUNICATION, seconds, because, (target,), method=Method.LINKS)


def _waiting(fall: Waterfall, seen: Observed) -> Iterator[Suspect]:
    """Yield the wait for batches, where no subtraction shows the input alone."""
    if not reads(fall.target.axes) or not seen.data_wait_share:
        return
    if Cause.INPUT not in {part.causes[0] for part in fall.parts if len(part.causes) == 1}:
        because = f"{seen.data_wait_share:.0%} of the step is spent waiting for batches"
        waited = about(seen.data_wait_share * fall.step.value)
        yield observed_in(Bound.INPUT, waited, because, fall, is_direct=False)


def _neighbors(fall: Waterfall, seen: Observed) -> Iterator[Suspect]:
    """Yield other programs on the cores that CPU devices compute on; GPUs need few of them.

    Computing is slowed, waiting is not. Fixed costs that are slowed still hold back what computes
    almost nothing.
    """
    if shares_cores(fall.target) and seen.cores_taken and not computes_almost_nothing(fall):
        computing_s = fall.step.value
        if fall.ideal:
            computing_s = min(computing_s, step_s(fall.ideal).value)
        seconds = about(seen.cores_taken * computing_s)
        because = f"other programs took {seen.cores_taken:.0%} of the cores"
        yield observed_in(Bound.CONTENTION, seconds, because, fall, method=Method.CORES)


def _without_neighbors(one: Suspect, fall: Waterfall, seen: Observed) -> Suspect:
    """Blame neighbors for batches that would come in time, had others not taken the cores."""
    taken = seen.cores_taken or 0.0
    if one.bound is not Bound.INPUT or taken < NEIGHBORS_FROM or shares_cores(fall.target):
        return one
    busy_s = (1 - (seen.data_wait_share or 0.0)) * fall.step.value
    if reducing := fall.ablations.found.get(Ablation.REDUCING):
        busy_s = step_s(reducing).value
    saved_s = fall.step.value - max(busy_s, (1 - taken) * fall.step.value)
    if saved_s < 0.5 * one.seconds.value:
        return one
    because = f"other programs took {taken:.0%} of the cores that make batches"
    seconds = one.seconds.scaled(saved_s / one.seconds.value)
    return observed_in(
        Bound.CONTENTION, seconds, because, fall, is_direct=False, method=Method.CORES
    )


def _clocks(fall: Waterfall, seen: Observed, alone: Observed, waited_s: float) -> Iterator[Suspect]:
    """Yield GPUs below their clocks: contention for power, unless one alone is slowed, too. What is
    waited for the slowest of them is not theirs.
    """
    lost = seen.clock_loss
    if lost is None or lost < THROTTLED_FROM:
        return
    why = f" ({', '.join(seen.throttled)})" if seen.throttled else ""
    together = alone.clock_loss is not None and lost - alone.clock_loss >= POWER_SHARED_FROM
    base = fall.ablations.found.get(Ablation.ALONE)
    base_s = step_s(base) if base else fall.base_s
    bound = Bound.CONTENTION if together else Bound.COMPUTE
    because = f"GPUs ran {lost:.0%} below their highest clock{why}"
    seconds = about(lost * base_s.value - waited_s)
    if seconds.value > 0:
        yield observed_in(bound, seconds, because, fall)
