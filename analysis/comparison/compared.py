"""Words the evidence of repeats and steps about one pair of trials, with its figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from analysis.again import command, repeated
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
from analysis.text.versions import differing
from scalemark.records.environment_axes import INHERITED, is_variable
from scalemark.records.free_axes import bare_name
from scalemark.records.outcomes import Outcome
from scalemark.records.strategies import STRATEGY_AXES
from scalemark.stats.two_modes import two_modes
from scalemark.text.wording import as_typed, counted

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
    plan: Plan | None  # unless the answer is that they surely differ, or they are no trials of ours
    words: str  # one sentence
    findings: tuple[str, ...]  # drift and outliers, each with its attempt, and two modes
    to_run: tuple[str, ...]  # commands that would bring the missing repeats

    @property
    def is_turned(self) -> bool:
        """Say whether its sentence names B first, for B is the faster one."""
        return self.judgement is not None and _is_turned(self.judgement)


def compared(pairs: Sequence[Pair], a: Side, b: Side, *, trust_steps: bool) -> Iterator[Compared]:
    for start in range(0, len(pairs), _AT_A_TIME):
        some = pairs[start : start + _AT_A_TIME]
        of_a, of_b = a.samples([pair.a for pair in some]), b.samples([pair.b for pair in some])
        for pair, one, other in zip(some, of_a, of_b, strict=True):
            name_a, name_b = _names(pair, a, b)
            yield _compared(pair, name_a, name_b, one, other, trust_steps=trust_steps)


def _compared(
    pair: Pair, name_a: str, name_b: str, a: Sample | None, b: Sample | None, *, trust_steps: bool
) -> Compared:
    judgement, planned = None, None
    to_run: tuple[str, ...] = ()
    words = _without_numbers(pair, name_a, name_b)
    if a and b:
        judgement = judge(a, b, trust_steps=trust_steps)
        # a step may hold more work on more GPUs
        in_steps = pair.a.counts_steps and "num_gpus" in pair.compared
        words = _words(judgement, name_a, name_b, in_steps=in_steps)
        is_open = judgement.answer is not Answer.DIFFERENT or not judgement.is_sure
        if is_open and pair.a.environment.origin.is_ours:  # others' programs cannot be run here
            planned = plan(a, b)
            to_run = tuple(_to_run(pair, a, b, planned))
    return Compared(
        pair=pair,
        name_a=name_a,
        name_b=name_b,
        sample_a=a,
        sample_b=b,
        judgement=judgement,
        plan=planned,
        words=words,
        findings=(*_findings("A", a), *_findings("B", b)),
        to_run=to_run,
    )


def _names(pair: Pair, a: Side, b: Side) -> tuple[str, str]:
    """Name both by the axes in which they differ; a strategy stands for its three axes."""
    shown = list(pair.compared)
    if pair.a.is_named_by_free_axes or pair.b.is_named_by_free_axes:
        shown = [axis for axis in shown if axis != "strategy"]
    elif "strategy" in shown:
        shown = [axis for axis in shown if axis not in STRATEGY_AXES]
    if not shown:
        of_a, of_b = differing([pair.a.environment.software, pair.b.environment.software])
        return f"{a.text} ({of_a})" if of_a else a.text, f"{b.text} ({of_b})" if of_b else b.text
    return _name(pair.a, shown), _name(pair.b, shown)


def _name(result: Result, axes: Sequence[str]) -> str:
    names = []
    for axis in axes:
        value, name = result.axes.get(axis), bare_name(axis)
        if value is None and is_variable(axis):
            names.append(f"{name} {INHERITED}")
            continue
        if value is None and result.environment.origin.is_ours:
            continue
        names.append(str(value) if axis in _SPEAKING and value else f"{name}={as_typed(value)}")
    return " ".join(names)


def _words(found: Judgement, a: str, b: str, *, in_steps: bool) -> str:
    ratio = found.ratio
    if found.answer is Answer.UNKNOWN:
        return f"{a} against {b} is not conclusive: {_times(ratio)}; {found.why}"
    if found.answer is Answer.TIE:
        words = f"{a} and {b} tie over {_basis(ratio)}: {_times(ratio)}"
        return words if found.is_sure else f"{words} ({found.why})"
    first, second, shown = (b, a, ratio.turned) if _is_turned(found) else (a, b, ratio)
    words = f"{first} is {_times(shown)} as fast as {second}"
    if in_steps:
        words = f"{first} does {_times(shown)} the steps/s of {second}"
    if not found.is_sure:
        return f"{words} ({found.why})"
    doubts = "".join(f"; {one}" for one in found.doubts)
    return f"{words}, over {_basis(ratio)}{doubts}"


def _is_turned(found: Judgement) -> bool:
    return found.answer is Answer.DIFFERENT and found.ratio.ratio < 1


def _times(ratio: Ratio) -> str:
    if ratio.low is None or ratio.high is None:
        return f"{fold(ratio.ratio)}x, interval unknown"
    return f"{fold(ratio.ratio)}x {interval_text(ratio)}"


def fold(value: float) -> str:
    """Return `1.31`; near 1, where it matters on which side a ratio is, `1.003`."""
    return f"{value:.3f}" if 0.9 < value < 1.1 else number(value)


def interval_text(ratio: Ratio) -> str:
    """Return `[0.971, 1.043]`; `[unknown]` where a single run has too few steps."""
    if ratio.low is None or ratio.high is None:
        return "[unknown]"
    return f"[{fold(ratio.low)}, {fold(ratio.high)}]"


def _basis(ratio: Ratio) -> str:
    if ratio.num_a == ratio.num_b:
        return f"{counted(ratio.num_a, 'repeat')} each"
    return f"{ratio.num_a} and {ratio.num_b} repeats"


def _without_numbers(pair: Pair, a: str, b: str) -> str:
    ended = []
    for name, result in ((a, pair.a), (b, pair.b)):
        if result.outcome == Outcome.INVALID:
            ended.append(f"{name} has no number that may be quoted")
        elif result.throughput is None:
            ended.append(f"{name} brought no number ({result.ended})")
    return f"nothing to compare: {' and '.join(ended)}"


def _findings(label: str, side: Sample | None) -> Iterator[str]:
    if side is None:
        return
    for attempt, durations in zip(side.attempt_ids, side.durations_s, strict=False):
        drift, outliers = trend(durations), outlying_steps(durations)
        if drift is not None and drift.is_drift:
            yield f"{label}, attempt {attempt}: {drift.words}"
        if outliers is not None:
            yield f"{label}, attempt {attempt}: {outliers.words}"
    for process in outlying_processes(side):
        yield f"{label}: {process.words}"
    if modes := two_modes(side.throughput):
        yield f"{label}: {modes.words}"


def _to_run(pair: Pair, a: Sample, b: Sample, planned: Plan) -> Iterator[str]:
    more = 2 if min(a.num_processes, b.num_processes) == 1 else planned.more
    if not more:
        return
    for result, side in ((pair.a, a), (pair.b, b)):
        yield command(result.spec, [result], *repeated(side.num_processes + more))
