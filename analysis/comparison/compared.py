"""What repeats and steps say of one pair of trials, in figures and in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from analysis.comparison.pairs import Pair
from analysis.comparison.sides import Side
from analysis.results import Result
from analysis.statistics.judgement import Answer, Judgement, judge
from analysis.statistics.outliers import outlying_processes, outlying_steps
from analysis.statistics.planning import Plan, plan
from analysis.statistics.ratios import Ratio
from analysis.statistics.sample import Sample
from analysis.statistics.trends import trend
from analysis.text.numbers import number
from scalemark.records.outcomes import Outcome
from scalemark.records.overrides import command
from scalemark.records.strategies import STRATEGY_AXES

_AT_A_TIME = 100  # pairs whose steps are in memory together
_SPEAKING = ("strategy", "model", "precision", "data")  # axes whose values need no name beside them


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One row of the answer."""

    pair: Pair
    name_a: str  # what makes A what it is, as `ps_cpu`
    name_b: str
    sample_a: Sample | None  # None: it brought no number
    sample_b: Sample | None
    judgement: Judgement | None  # None where a side has no number
    plan: Plan | None  # where the answer is not that they are different for sure
    words: str  # one sentence
    findings: tuple[str, ...]  # drift, outliers and contradictions, each with its attempt
    to_tell: tuple[str, ...]  # commands that would bring the missing repeats


def compared(pairs: Sequence[Pair], a: Side, b: Side, *, trust_steps: bool) -> Iterator[Compared]:
    for start in range(0, len(pairs), _AT_A_TIME):
        some = pairs[start : start + _AT_A_TIME]
        samples = zip(
            a.samples([pair.a for pair in some]), b.samples([pair.b for pair in some]), strict=True
        )
        for pair, (of_a, of_b) in zip(some, samples, strict=True):
            yield _compared(pair, (a, of_a), (b, of_b), trust_steps=trust_steps)


def _compared(
    pair: Pair,
    one: tuple[Side, Sample | None],
    other: tuple[Side, Sample | None],
    *,
    trust_steps: bool,
) -> Compared:
    (a, of_a), (b, of_b) = one, other
    name_a, name_b = _names(pair, a, b)
    judgement = judge(of_a, of_b, trust_steps=trust_steps) if of_a and of_b else None
    is_open = judgement is not None and not (
        judgement.is_sure and judgement.answer is Answer.DIFFERENT
    )
    planned = plan(of_a, of_b) if of_a and of_b and is_open else None
    return Compared(
        pair=pair,
        name_a=name_a,
        name_b=name_b,
        sample_a=of_a,
        sample_b=of_b,
        judgement=judgement,
        plan=planned,
        words=_told(judgement, name_a, name_b)
        if judgement
        else _without_numbers(pair, name_a, name_b),
        findings=tuple(_findings((("A", of_a), ("B", of_b)))),
        to_tell=tuple(_to_tell(pair, of_a, of_b, planned)),
    )


def _names(pair: Pair, a: Side, b: Side) -> tuple[str, str]:
    shown = [
        axis
        for axis in pair.compared
        if axis not in STRATEGY_AXES or "strategy" not in pair.compared
    ]
    if not shown:
        return a.told, b.told
    return _name(pair.a, shown), _name(pair.b, shown)


def _name(result: Result, axes: Sequence[str]) -> str:
    values = ((axis, result.axes[axis]) for axis in axes)
    return " ".join(
        str(value) if axis in _SPEAKING and value else f"{axis}={value}" for axis, value in values
    )


def _told(found: Judgement, a: str, b: str) -> str:
    ratio = found.ratio
    if found.answer is Answer.TIE:
        told = (
            f"{a} and {b} are as fast as each other, as far as {_basis(ratio)} tell: "
            f"{_times(ratio)}"
        )
        return told if found.is_sure else f"{told} ({found.why})"
    if found.answer is Answer.UNKNOWN:
        return f"whether {a} or {b} is faster nobody can tell: {_times(ratio)}; {found.why}"
    first, second, shown = (a, b, ratio) if ratio.ratio >= 1 else (b, a, _turned(ratio))
    told = f"{first} is {_times(shown)} as fast as {second}"
    doubts = "".join(
        f"; the repeats of {label} contradict each other: {one.words}"
        for label, one in found.contradictions
    )
    return f"{told}, over {_basis(ratio)}{doubts}" if found.is_sure else f"{told} ({found.why})"


def _times(ratio: Ratio) -> str:
    if ratio.low is None or ratio.high is None:
        return f"{fold(ratio.ratio)}x"
    return f"{fold(ratio.ratio)}x ({fold(ratio.low)}x to {fold(ratio.high)}x)"


def fold(value: float) -> str:
    """As `1.31`; near 1, where it matters on which side a ratio is, `1.003`."""
    return f"{value:.3f}" if 0.9 < value < 1.1 else number(value)


def _turned(ratio: Ratio) -> Ratio:
    """B / A."""
    low, high = (
        (None, None) if ratio.low is None or ratio.high is None else (1 / ratio.high, 1 / ratio.low)
    )
    return Ratio(
        ratio=1 / ratio.ratio,
        low=low,
        high=high,
        method=ratio.method,
        num_a=ratio.num_b,
        num_b=ratio.num_a,
        note=ratio.note,
    )


def _basis(ratio: Ratio) -> str:
    nums = str(ratio.num_a) if ratio.num_a == ratio.num_b else f"{ratio.num_a} and {ratio.num_b}"
    each = " each" if ratio.num_a == ratio.num_b else ""
    return f"{nums} {'repeats' if max(ratio.num_a, ratio.num_b) > 1 else 'repeat'}{each}"


def _without_numbers(pair: Pair, a: str, b: str) -> str:
    ended = [
        f"{name} {_ended(one)}"
        for name, one in ((a, pair.a), (b, pair.b))
        if one.throughput is None
    ]
    return f"nothing to compare: {' and '.join(ended)}"


def _ended(result: Result) -> str:
    if result.outcome == Outcome.INVALID:
        return "has no number that may be quoted"
    return f"brought no number ({result.outcome.replace('_', ' ')})"


def _findings(sides: Sequence[tuple[str, Sample | None]]) -> Iterator[str]:
    for label, side in sides:
        if side is None:
            continue
        for number_, durations in zip(side.attempt_ids, side.durations_s, strict=False):
            for found in (trend(durations), outlying_steps(durations)):
                if found is not None and getattr(found, "is_drift", True):
                    yield f"{label}, attempt {number_}: {found.words}"
        for process in outlying_processes(side):
            yield f"{label}: {process.words}"


def _to_tell(pair: Pair, a: Sample | None, b: Sample | None, planned: Plan | None) -> Iterator[str]:
    if a is None or b is None or planned is None:
        return
    more = 2 if min(a.num_processes, b.num_processes) == 1 else planned.more
    if not more:
        return
    for result, side in ((pair.a, a), (pair.b, b)):
        yield (
            f"{command(result.spec, result.place.hardware)} "
            f"sweep.repeats={side.num_processes + more}"
        )


def interval_told(ratio: Ratio) -> str:
    """As `0.971..1.043`; empty where there is none."""
    return (
        "" if ratio.low is None or ratio.high is None else f"{fold(ratio.low)}..{fold(ratio.high)}"
    )
