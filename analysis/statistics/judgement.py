"""Judges whether two sides differ, tie, or cannot be decided."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from analysis.statistics.contradictions import Contradiction, contradiction
from analysis.statistics.ranks import Ranks, ranks
from analysis.statistics.ratios import Ratio, ratio
from analysis.statistics.sample import Sample
from scalemark.stats.welch import Relation, relation_by


class Answer(StrEnum):
    """The answer to a comparison."""

    DIFFERENT = "different"
    TIE = "tie"
    UNKNOWN = "not conclusive"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The answer to one comparison, and what it rests on."""

    answer: Answer
    is_sure: bool  # False: not conclusive, or decided by the steps of single runs
    ratio: Ratio
    ranks: Ranks | None  # of two or more processes of each side
    contradictions: tuple[tuple[str, Contradiction], ...]  # A or B, and how its repeats disagree
    why: str  # one clause

    @property
    def doubts(self) -> tuple[str, ...]:
        """Sides whose repeats contradict each other, in words."""
        return _doubts(self.contradictions)


def judge(a: Sample, b: Sample, *, trust_steps: bool = False) -> Judgement:
    """Judge by the interval over processes alone, as all who compare a pair do.

    The rank test is reported beside it. Repeats that contradict each other are no tie. A single
    run is not conclusive; with `trust_steps` its steps decide, and the answer is not sure.
    """
    found = ratio(a, b)
    contradictions = []
    for label, side in (("A", a), ("B", b)):
        if camps := contradiction(side):
            contradictions.append((label, camps))
    ranked = ranks(a.throughput, b.throughput) if found.is_over_processes else None
    answer = _ANSWERS[relation_by(found.low, found.high)]
    if ranked is None:
        why = found.note
        if answer is not Answer.UNKNOWN and trust_steps:
            why = f"by the steps alone: {why}"
        else:
            answer = Answer.UNKNOWN
    elif answer is Answer.DIFFERENT:
        why = f"the 95 % CI over processes excludes 1; {ranked.words}"
    elif contradictions:
        answer, why = Answer.UNKNOWN, "; ".join(_doubts(tuple(contradictions)))
    else:
        why = "the 95 % CI over processes contains 1"
    return Judgement(
        answer=answer,
        is_sure=ranked is not None and answer is not Answer.UNKNOWN,
        ratio=found,
        ranks=ranked,
        contradictions=tuple(contradictions),
        why=why,
    )


def _doubts(contradictions: tuple[tuple[str, Contradiction], ...]) -> tuple[str, ...]:
    return tuple(
        f"the repeats of {label} contradict each other: {camps.words}"
        for label, camps in contradictions
    )


_ANSWERS = {
    Relation.MORE: Answer.DIFFERENT,
    Relation.LESS: Answer.DIFFERENT,
    Relation.TIE: Answer.TIE,
    Relation.UNKNOWN: Answer.UNKNOWN,
}
