"""Judges each pair of trials: the rows of the answer of `compare`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from analysis.again import command, repeated
from analysis.compare.pairs import Pair
from analysis.compare.sides import Side
from analysis.results import Result
from analysis.statistics.judgement import Answer, Judgement, judge
from analysis.statistics.planning import RepeatsPlan, plan
from analysis.statistics.sample import Sample
from analysis.text.versions import differing
from scalemark.records.free_axes import INHERITED, bare_name, is_env_variable
from scalemark.records.trial import STRATEGY_AXES
from scalemark.stats.welch import two_modes
from scalemark.text.wording import as_typed

_AT_A_TIME = 100  # pairs whose steps are in memory together
_SPEAKING = ("strategy", "model", "precision", "data")  # axes whose values need no name beside them


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row of the answer."""

    pair: Pair
    name_a: str  # what makes A what it is, as `ps_cpu`
    name_b: str
    sample_a: Sample | None  # None: it has no number
    sample_b: Sample | None
    judgement: Judgement | None  # None where a side has no number
    plan: (
        RepeatsPlan | None
    )  # unless the answer is that they surely differ, or they are no trials of ours
    findings: tuple[str, ...]  # repeats of a side in two modes
    to_run: tuple[str, ...]  # commands that would bring the missing repeats

    @property
    def is_turned(self) -> bool:
        """Return whether its sentence names B first, because B is the faster one."""
        judgement = self.judgement
        if judgement is None or judgement.answer is not Answer.DIFFERENT:
            return False
        return judgement.ratio.ratio < 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One thing in which two trials, their machines or their software differ."""

    what: str  # axis, machine or software
    name: str
    a: object
    b: object


def rows_of(pairs: Sequence[Pair], a: Side, b: Side, *, trust_steps: bool) -> Iterator[Row]:
    for start in range(0, len(pairs), _AT_A_TIME):
        part = pairs[start : start + _AT_A_TIME]
        samples_a = a.samples([pair.a for pair in part])
        samples_b = b.samples([pair.b for pair in part])
        for pair, of_a, of_b in zip(part, samples_a, samples_b, strict=True):
            yield _row(pair, _names(pair, a, b), of_a, of_b, trust_steps=trust_steps)


def differences(pair: Pair) -> Iterator[Difference]:
    """Yield all that differs between the two trials of a pair."""
    for axis in pair.compared:
        yield Difference(what="axis", name=axis, a=pair.a.axes.get(axis), b=pair.b.axes.get(axis))
    a, b = pair.a.environment, pair.b.environment
    for name in ("machine", "shares_host"):
        of_a, of_b = getattr(a, name), getattr(b, name)
        if of_a != of_b:
            yield Difference(what="machine", name=name, a=of_a, b=of_b)
    for name in sorted({*a.software, *b.software}):
        of_a, of_b = a.software.get(name), b.software.get(name)
        if of_a != of_b:
            yield Difference(what="software", name=name, a=of_a, b=of_b)


def _row(
    pair: Pair, names: tuple[str, str], a: Sample | None, b: Sample | None, *, trust_steps: bool
) -> Row:
    judgement, planned = None, None
    to_run: tuple[str, ...] = ()
    if a and b:
        judgement = judge(a, b, trust_steps=trust_steps)
        is_open = judgement.answer is not Answer.DIFFERENT or not judgement.is_sure
        both = (pair.a.environment, pair.b.environment)
        if is_open and all(environment.origin.is_ours for environment in both):
            planned = plan(a, b)
            to_run = tuple(_to_run(pair, a, b, planned))
    return Row(
        pair=pair,
        name_a=names[0],
        name_b=names[1],
        sample_a=a,
        sample_b=b,
        judgement=judgement,
        plan=planned,
        findings=(*_modes("A", a), *_modes("B", b)),
        to_run=to_run,
    )


def _names(pair: Pair, a: Side, b: Side) -> tuple[str, str]:
    """Name both by the axes in which they differ; a strategy stands for its three axes."""
    shown = list(pair.compared)
    if pair.a.is_named_by_free_axes or pair.b.is_named_by_free_axes:
        shown = [axis for axis in shown if axis != "strategy"]
    elif "strategy" in shown:
        shown = [axis for axis in shown if axis not in STRATEGY_AXES]
    if b.is_published:
        return a.text, b.text
    if shown:
        return _name(pair.a, shown), _name(pair.b, shown)
    of_a, of_b = differing([pair.a.environment.software, pair.b.environment.software])
    return f"{a.text} ({of_a})" if of_a else a.text, f"{b.text} ({of_b})" if of_b else b.text


def _name(result: Result, axes: Sequence[str]) -> str:
    names = []
    for axis in axes:
        value, name = result.axes.get(axis), bare_name(axis)
        if value is None and is_env_variable(axis):
            names.append(f"{name} {INHERITED}")
        elif axis in _SPEAKING and value:
            names.append(str(value))
        elif value is not None or not result.environment.origin.is_ours:
            names.append(f"{name}={as_typed(value)}")
    return " ".join(names)


def _modes(label: str, side: Sample | None) -> list[str]:
    modes = two_modes(side.throughput) if side else None
    return [f"{label}: {modes.words}"] if modes else []


def _to_run(pair: Pair, a: Sample, b: Sample, planned: RepeatsPlan) -> Iterator[str]:
    more = 2 if min(a.num_processes, b.num_processes) == 1 else planned.more
    if more:
        for result, side in ((pair.a, a), (pair.b, b)):
            yield command(result.spec, [result], *repeated(side.num_processes + more))
