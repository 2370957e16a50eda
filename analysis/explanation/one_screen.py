"""Explanations on one screen: what holds the trials back, one table, one next step."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from analysis import again
from analysis.explanation import text
from analysis.explanation.explanations import Explanation
from analysis.explanation.step_times import Seconds
from analysis.explanation.suspects import Bound
from analysis.explanation.verdicts import Confidence
from analysis.results import Result, setting
from analysis.selection import Selection
from analysis.suspect_run import is_worth_again
from analysis.text import badges
from analysis.text.numbers import number, with_interval
from analysis.text.one_screen import NextStep, Screen
from analysis.text.titles import named
from scalemark.records.machine import DeviceKind
from scalemark.records.overrides import ID_DIGITS, OF_PRECISION
from scalemark.text.wording import counted, listed_phrases, shortened

_MOST_ROWS = 10
_MOST_MODELS = 8
_MOST_IDEALS = 3
_REPEATS = 3  # of a suspect single run
_MOST_TRIALS = 2  # that a line of evidence names
_MOST_DOUBTS = 2  # of a row of many, the gravest first
_GRAVEST = ("suspect", "cannot tell")


def screen(found: Sequence[Explanation], selection: Selection) -> Screen:
    """Return where the step of one trial goes, or of several the verdicts, the worst first.

    `selection` is what was asked for: commands name its database.
    """
    if len(found) == 1:
        (one,) = found
        marked = [*badges.of_environment(one.target.environment), *badges.of_result(one.target)]
        title = text.title(one.target)
        if marked:
            title = f"{title} ({', '.join(marked)})"
        is_told = one.diagnosis.bound is Bound.SLOW_REPLICA
        slow = list(text.slow_replica(one)) if one.slow_replicas.slow and not is_told else []
        return Screen(
            headlines=(" ".join([f"{title}. {text.verdict(one)}", *slow]), *_evidence(one)),
            columns=("where the step goes", "ms [95 % CI]", "share"),
            rows=list(_of_step(one)),
            right=frozenset(("share",)),
            most_rows=_MOST_ROWS,
            next_step=_next_step(found, None, selection),
            badges=frozenset((*marked, *_of_verdict(one))),
        )
    worst_first = sorted(found, key=_lost, reverse=True)
    used = {badge for one in worst_first[:_MOST_ROWS] for badge in _doubts(one)[:_MOST_DOUBTS]}
    used |= {one for each in found for one in badges.of_environment(each.target.environment)}
    differing = _differing([one.target for one in worst_first[:_MOST_ROWS]])
    devices = _devices(found)
    return Screen(
        headlines=(*_by_model(found), *_evidence_of_first(worst_first, differing)),
        columns=("model", "strategy", devices, "lost", "held back by", "doubts"),
        rows=[_of_trial(one, differing) for one in worst_first],
        right=frozenset((devices, "lost")),
        most_rows=_MOST_ROWS,
        next_step=_next_step([*_best(found), *worst_first], differing, selection),
        badges=frozenset(used),
    )


def _devices(found: Sequence[Explanation]) -> str:
    kinds = {one.target.environment.device_kind for one in found}
    return "devices" if DeviceKind.CPU_DEVICE in kinds else "GPUs"


_Differing = Mapping[str, Sequence[str]]
"""The axes beside strategy and GPUs in which trials of a model differ, by model."""


def _differing(targets: Sequence[Result]) -> _Differing:
    by_model: dict[str, list[Result]] = defaultdict(list)
    for target in targets:
        by_model[str(target.axes["model"])].append(target)
    return {model: _axes_that_differ(of_model) for model, of_model in by_model.items()}


def _axes_that_differ(targets: Sequence[Result]) -> list[str]:
    """Return the axes but for what follows from another, as a loss scale from a precision."""
    found: dict[str, None] = {}
    for target in targets:
        for axis, value in setting(target).items():
            if any(setting(one).get(axis) != value for one in targets):
                found[axis] = None
    if "precision" not in found:
        return list(found)
    rest = [axis for axis in found if axis not in OF_PRECISION]
    named_all, named_rest = (
        {tuple(str(setting(one).get(axis)) for axis in axes) for one in targets}
        for axes in (found, rest)
    )
    return rest if len(named_all) == len(named_rest) else list(found)


def _best(found: Sequence[Explanation]) -> list[Explanation]:
    """Return the fastest of each model whose replicas train together, those that lose most first:
    these are what advice takes.
    """
    fastest: dict[object, Explanation] = {}
    for one in found:
        target = one.target
        key = target.environment.key, target.axes["model"]
        known = fastest.get(key)
        is_faster = known is None or (target.throughput or 0) > (known.target.throughput or 0)
        if is_faster and not target.trains_apart:
            fastest[key] = one
    return sorted(fastest.values(), key=_lost, reverse=True)


def _lost(one: Explanation) -> float:
    efficiency = one.fall.efficiency
    return 0.0 if efficiency is None else 1 - efficiency


def _by_model(found: Sequence[Explanation]) -> Iterator[str]:
    of_models: dict[str, list[Explanation]] = defaultdict(list)
    for one in found:
        of_models[str(one.target.axes["model"])].append(one)
    ideals: dict[str, None] = {}
    for model, of_model in list(of_models.items())[:_MOST_MODELS]:
        bounds = Counter(_bound(one) for one in of_model).most_common()
        said = ", ".join(f"{num} {bound}" for bound, num in bounds)
        worst = max(of_model, key=_lost)
        lost = f"; at worst {_lost(worst):.0%} lost" if _lost(worst) > 0 else ""
        if lost:
            ideals[text.ideal(worst)] = None
        where = [badges.of_environment(one.target.environment) for one in of_model]
        marked = list(dict.fromkeys(badge for of_one in where for badge in of_one))
        name = f"{model} ({', '.join(marked)})" if marked else model
        yield f"{name}: {said}{lost}."
    if ideals:
        yield f"Lost is against {listed_phrases(shortened(list(ideals), _MOST_IDEALS))}."
    if len(of_models) > _MOST_MODELS:
        yield f"And {counted(len(of_models) - _MOST_MODELS, 'more model')}."


def _evidence(one: Explanation) -> list[str]:
    """Return the line of what tells most, if anything does."""
    return list(text.evidence(one, _MOST_TRIALS))[:1]


def _evidence_of_first(found: Sequence[Explanation], differing: _Differing) -> Iterator[str]:
    """Yield the evidence of the first verdict on a loss."""
    for one in found:
        if one.diagnosis.bound not in (None, Bound.HEALTHY):
            why = "; ".join(one.diagnosis.evidence)
            for line in _evidence(one):
                yield f"{_which(one, differing)}{why}. {line}"
            return


def _bound(one: Explanation) -> str:
    return str(one.diagnosis.bound or "cannot tell")


def _doubts(one: Explanation) -> list[str]:
    found = [*_of_verdict(one), *badges.of_result(one.target)]
    return sorted(found, key=lambda badge: badge not in _GRAVEST)


def _of_verdict(one: Explanation) -> list[str]:
    if one.diagnosis.bound is None:
        return ["cannot tell"]
    return [] if one.diagnosis.confidence is Confidence.SURE else ["likely"]


def _of_trial(one: Explanation, differing: _Differing) -> tuple[str, ...]:
    target: Result = one.target
    lost = "?" if one.fall.efficiency is None else f"{_lost(one):.0%}"
    bound = str(one.diagnosis.bound or "?")
    doubts = ", ".join(_doubts(one)[:_MOST_DOUBTS])
    way = _way(target, differing)
    return str(target.axes["model"]), way, target.width, lost, bound, doubts


def _of_step(one: Explanation) -> Iterator[tuple[str, ...]]:
    """Yield parts that add up to the step: what overlaps them is for --all, unless the verdict
    names it.
    """
    yield _part(one, text.base(one), one.fall.base_s)
    for part in one.fall.parts:
        yield _part(one, " or ".join(part.causes), part.seconds)
    yield _part(one, "= the step", one.fall.step)
    for neighbors in text.of_neighbors(one):
        yield _part(one, text.NEIGHBORS, neighbors.seconds)


def _part(one: Explanation, what: str, seconds: Seconds) -> tuple[str, ...]:
    ms = number(1e3 * seconds.value)
    if seconds.low is not None and seconds.high is not None:
        ms = with_interval(1e3 * seconds.value, 1e3 * seconds.low, 1e3 * seconds.high)
    return what, ms, text.percent(one.fall.share(seconds.value))


def _next_step(
    found: Sequence[Explanation], differing: _Differing | None, selection: Selection
) -> NextStep | None:
    """Return the first remedy, else the first trial that is missing; before either the repeats of a
    suspect single run. One of several is named, with the axes in which they are `differing`.
    """
    for one in found:
        step = (
            _measured_again(one, found) or _remedied(one, selection) or _completed(one, selection)
        )
        if step is not None:
            return replace(step, why=f"{_which(one, differing)}{step.why}")
    return None


def _measured_again(one: Explanation, found: Sequence[Explanation]) -> NextStep | None:
    target = one.target
    if not is_worth_again(target, [other.target for other in found]):
        return None
    why = "measure it again, it is one suspect run"
    return NextStep(why=why, commands=(again.again(target, _REPEATS),))


def _remedied(one: Explanation, selection: Selection) -> NextStep | None:
    for remedy in one.remedies:
        if remedy.command:
            trials = [trial_id[:ID_DIGITS] for trial_id in (one.target.trial_id, remedy.trial_id)]
            return NextStep(
                why=f"try {remedy.change}, for {remedy.why}",
                commands=(remedy.command,),
                then=selection.analysis("compare", *trials),
            )
    if one.diagnosis.bound is Bound.SLOW_REPLICA:
        return NextStep(why=f"try {one.remedies[-1].change}, for {one.remedies[-1].why}")
    return None


def _completed(one: Explanation, selection: Selection) -> NextStep | None:
    for what, command in text.missing(one):
        if command:
            then = ""
            if one.target.environment.origin.is_ours:
                then = selection.analysis("explain", "--trial", one.target.trial_id[:ID_DIGITS])
            return NextStep(why=what, commands=(command,), then=then)
    if one.measure_all:
        return NextStep(why="measure it on your own machine", commands=(one.measure_all,))
    return None


def _which(one: Explanation, differing: _Differing | None) -> str:
    if differing is None:
        return ""
    target = one.target
    return f"{target.axes['model']} by {_way(target, differing)} on {target.counted}: "


def _way(target: Result, differing: _Differing) -> str:
    values = setting(target)
    axes = differing.get(str(target.axes["model"]), ())
    return ", ".join([target.strategy, *(named(axis, values.get(axis)) for axis in axes)])
