"""Explanations on one screen: what holds the trials back, one table, one next step."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from analysis.explanation import text
from analysis.explanation.explanations import Explanation
from analysis.explanation.step_times import Seconds
from analysis.explanation.verdicts import Confidence
from analysis.results import Result
from analysis.text import badges
from analysis.text.numbers import number, with_interval
from analysis.text.one_screen import NextStep, Screen
from scalemark.text.wording import listed

_MOST_ROWS = 12
_MOST_MODELS = 8
_MOST_DOUBTS = 2  # of a row of many, the gravest first


def screen(found: Sequence[Explanation]) -> Screen:
    """Return where the step of one trial goes, or of several the verdicts, the worst first."""
    used = {one for each in found for one in badges.of_environment(each.target.environment)}
    if len(found) == 1:
        (one,) = found
        return Screen(
            headlines=(f"{text.title(one.target)}. {text.verdict(one)}",),
            columns=("where the step goes", "ms [95 % CI]", "share"),
            rows=list(_of_step(one)),
            right=frozenset(("share",)),
            most_rows=_MOST_ROWS,
            next_step=_next_step(found),
            badges=frozenset((*used, *_doubts(one))),
        )
    worst_first = sorted(found, key=_lost, reverse=True)
    used |= {badge for one in worst_first[:_MOST_ROWS] for badge in _doubts(one)[:_MOST_DOUBTS]}
    return Screen(
        headlines=tuple(_by_model(found)),
        columns=("model", "strategy", "GPUs", "lost", "held back by", "doubts"),
        rows=[_of_trial(one) for one in worst_first],
        right=frozenset(("GPUs", "lost")),
        most_rows=_MOST_ROWS,
        next_step=_next_step(worst_first),
        badges=frozenset(used),
    )


def _lost(one: Explanation) -> float:
    efficiency = one.fall.efficiency
    return 0.0 if efficiency is None else 1 - efficiency


def _by_model(found: Sequence[Explanation]) -> Iterator[str]:
    of_models: dict[str, list[Explanation]] = defaultdict(list)
    for one in found:
        of_models[str(one.target.axes["model"])].append(one)
    for model, of_model in list(of_models.items())[:_MOST_MODELS]:
        bounds = Counter(_bound(one) for one in of_model).most_common(2)
        said = [f"{bound} in {num}" for bound, num in bounds]
        lost = f"; {most:.0%} lost at most" if (most := max(map(_lost, of_model))) > 0 else ""
        yield f"{model}: {listed(said)} of {len(of_model)}{lost}."
    if len(of_models) > _MOST_MODELS:
        yield f"And {len(of_models) - _MOST_MODELS} more models."


def _bound(one: Explanation) -> str:
    return str(one.diagnosis.bound or "cannot tell")


def _doubts(one: Explanation) -> list[str]:
    found = badges.of_result(one.target)
    if one.diagnosis.bound is None:
        return ["cannot tell", *found]
    return found if one.diagnosis.confidence is Confidence.SURE else ["likely", *found]


def _of_trial(one: Explanation) -> tuple[str, ...]:
    target: Result = one.target
    lost = "?" if one.fall.efficiency is None else f"{_lost(one):.0%}"
    bound = str(one.diagnosis.bound or "?")
    doubts = ", ".join(_doubts(one)[:_MOST_DOUBTS])
    return str(target.axes["model"]), target.strategy, target.width, lost, bound, doubts


def _of_step(one: Explanation) -> Iterator[tuple[str, ...]]:
    """Yield parts that add up to the step: what overlaps them is for --all."""
    yield _part(one, text.base(one), one.fall.base_s)
    for part in one.fall.parts:
        yield _part(one, " or ".join(part.causes), part.seconds)
    yield _part(one, "= the step", one.fall.step)


def _part(one: Explanation, what: str, seconds: Seconds) -> tuple[str, ...]:
    ms = number(1e3 * seconds.value)
    if seconds.low is not None and seconds.high is not None:
        ms = with_interval(1e3 * seconds.value, 1e3 * seconds.low, 1e3 * seconds.high)
    return what, ms, text.percent(one.fall.share(seconds.value))


def _next_step(found: Sequence[Explanation]) -> NextStep | None:
    """Return the first remedy, else the first trial that is missing."""
    for one in found:
        for remedy in one.remedies:
            if remedy.command:
                why = f"try {remedy.change}, for {remedy.why}"
                return NextStep(why=f"{_which(one, found)}{why}", commands=(remedy.command,))
        for what, command in text.missing(one):
            if command:
                return NextStep(why=f"{_which(one, found)}{what}", commands=(command,))
        if one.measure_all:
            return NextStep(why="measure it on your own machine", commands=(one.measure_all,))
    return None


def _which(one: Explanation, of: Sequence[Explanation]) -> str:
    """Name the trial that a step is for, where it is one of several."""
    if len(of) == 1:
        return ""
    target = one.target
    return f"{target.axes['model']} by {target.strategy} on {target.counted}: "
