"""Collects what a verdict rests on: its suspects, or how little there is to blame."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from analysis.explanation.communication.links import Links
from analysis.explanation.evidence import Evidence, Method
from analysis.explanation.launching import at_most_launching_s, kernels_s
from analysis.explanation.step_times import about, difference
from analysis.explanation.suspects import Bound, Suspect
from analysis.explanation.waterfall import Waterfall


def grounds(
    bound: Bound | None,
    fall: Waterfall,
    found: Sequence[Suspect],
    heavy: Sequence[Suspect],
    links: Links,
) -> Iterator[Evidence]:
    """Yield the evidence of a verdict, of all that was `found` and what is `heavy` of it; where it
    cannot tell, of whatever is heavy.
    """
    if bound is Bound.HEALTHY:
        yield from _of_health(fall)
        return
    of_bound = heavy if bound is None else [one for one in found if one.bound is bound]
    chosen = [one for one in of_bound if one in heavy] or of_bound[:1]
    for one in chosen:
        yield one.evidence(links)
    if bound is Bound.COMPUTE and not chosen:
        yield _of_launching(fall)


def _of_health(fall: Waterfall) -> Iterator[Evidence]:
    """Yield how little is lost against the ideal, or at most where a larger batch stands for it."""
    if fall.ideal is not None:
        lost, subtracted, most = difference(fall.target, fall.ideal), fall.ideal, ""
    elif (larger := fall.larger_alone) is not None:
        lost = about(fall.step.value - larger.seconds.value)
        subtracted, most = larger.trials[0], " at most"
    else:
        return
    yield Evidence(
        method=Method.ABLATION,
        seconds=lost,
        because=f"{fall.share(lost.value):.0%} of the step is lost to all causes{most}",
        trials=(fall.target.trial_id, subtracted.trial_id),
    )


def _of_launching(fall: Waterfall) -> Evidence:
    """Return what limits launching, which alone is left where one replica has no other cause."""
    beside = [one for one in (fall.calls, fall.fixed, fall.floor) if one is not None]
    most_s, method = at_most_launching_s(fall), Method.FIXED
    if most_s is None:
        most_s, method = kernels_s(fall.target.axes) or 0.0, Method.COUNTED
        most_s += max(0.0, fall.calls.seconds.value) if fall.calls else 0.0
    trials = [trial.trial_id for one in beside for trial in one.trials]
    return Evidence(
        method=method,
        seconds=about(most_s),
        because=f"launching takes {min(1.0, fall.share(most_s)):.0%} of the step at most",
        trials=tuple(dict.fromkeys(trials)) or (fall.target.trial_id,),
    )
