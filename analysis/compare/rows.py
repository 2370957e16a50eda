"""Judges each pair of trials: the rows of the answer of `compare`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from analysis.again import command, repeated
from analysis.compare.pairs import TrialPair
from analysis.compare.sides import ComparedSide
from analysis.results import Result
from analysis.statistics.judgement import Decision, Judgement, judge
from analysis.statistics.planning import more_repeats
from analysis.statistics.sample import Sample
from analysis.text.versions import differing
from scalemark.records.free_axes import INHERITED, bare_name, is_env_variable
from scalemark.records.trial import STRATEGY_AXES
from scalemark.text.wording import as_typed

_SPEAKING = ("strategy", "model", "precision", "data")  # axes whose values need no name beside them


@dataclass(frozen=True, slots=True, kw_only=True)
class PairRow:
    """One row of the answer."""

    pair: TrialPair
    name_a: str  # what makes A what it is, as `ps_cpu`
    name_b: str
    judgement: Judgement | None  # None where a side has no number
    # of each side, that would show the difference seen; None where that is known, or takes too many
    more_repeats: int | None
    to_run: tuple[str, ...]  # commands that would bring them

    @property
    def is_turned(self) -> bool:
        """Return whether its sentence names B first, because B is the faster one."""
        judgement = self.judgement
        if judgement is None or judgement.answer is not Decision.DIFFERENT:
            return False
        return judgement.ratio.ratio < 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One thing in which two trials, their machines or their software differ."""

    what: str  # axis, machine or software
    name: str
    a: object
    b: object


def rows_of(pairs: Sequence[TrialPair], a: ComparedSide, b: ComparedSide) -> list[PairRow]:
    return [_row(pair, a, b) for pair in pairs]


def differences(pair: TrialPair) -> Iterator[Difference]:
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


def _row(pair: TrialPair, a: ComparedSide, b: ComparedSide) -> PairRow:
    judgement, more = None, None
    to_run: list[str] = []
    if pair.a.throughput is not None and pair.b.throughput is not None:
        samples = (Sample.of(pair.a.repeats, pair.a.unit), Sample.of(pair.b.repeats, pair.b.unit))
        judgement = judge(*samples)
        are_ours = pair.a.environment.origin.is_ours and pair.b.environment.origin.is_ours
        if judgement.answer is not Decision.DIFFERENT and are_ours:
            is_single = min(judgement.ratio.num_a, judgement.ratio.num_b) == 1
            more = 2 if is_single else more_repeats(*samples)
            for result in (pair.a, pair.b) if more else ():
                wanted = repeated(len(result.repeats) + (more or 0))
                to_run.append(command(result.spec, [result], *wanted))
    name_a, name_b = _names(pair, a, b)
    return PairRow(
        pair=pair,
        name_a=name_a,
        name_b=name_b,
        judgement=judgement,
        more_repeats=more,
        to_run=tuple(to_run),
    )


def _names(pair: TrialPair, a: ComparedSide, b: ComparedSide) -> tuple[str, str]:
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
