"""Judges whether two sides differ, tie, or cannot be decided, by the ratio of their throughputs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from analysis.statistics.contradictions import Contradiction, contradiction
from analysis.statistics.sample import Sample
from scalemark.stats.welch import Relation, known_ratio_interval, relation_by


class Decision(StrEnum):
    """The answer to a comparison."""

    DIFFERENT = "different"
    TIE = "tie"
    UNKNOWN = "not conclusive"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """Throughput of A divided by that of B."""

    ratio: float  # of geometric means over processes
    low: float | None  # 95 % CI over processes; None where a side is a single run
    high: float | None
    num_a: int  # processes
    num_b: int

    @property
    def turned(self) -> Ratio:
        """B divided by A."""
        return Ratio(
            ratio=1 / self.ratio,
            low=None if self.high is None else 1 / self.high,
            high=None if self.low is None else 1 / self.low,
            num_a=self.num_b,
            num_b=self.num_a,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The answer to one comparison, and what it rests on."""

    answer: Decision
    ratio: Ratio
    contradictions: tuple[tuple[str, Contradiction], ...]  # A or B, and how its repeats disagree


def ratio(a: Sample, b: Sample) -> Ratio:
    """Compare over processes. The interval is Student's t (`scalemark.stats.welch`); measured, it
    holds the truth in 93 to 98 % of cases of 2 to 10 processes (`benchmarks/coverage.py`).
    """
    low, high = known_ratio_interval(a.throughput, b.throughput)
    return Ratio(
        ratio=a.typical / b.typical,
        low=low,
        high=high,
        num_a=a.num_processes,
        num_b=b.num_processes,
    )


def judge(a: Sample, b: Sample) -> Judgement:
    """Judge by the interval over processes alone, as all who compare a pair do.

    Repeats that contradict each other are no tie. A single run decides nothing.
    """
    compared = ratio(a, b)
    contradictions = []
    for label, side in (("A", a), ("B", b)):
        camps = contradiction(side)
        if camps:
            contradictions.append((label, camps))
    answer = _DECISIONS[relation_by(compared.low, compared.high)]
    if answer is Decision.TIE and contradictions:
        answer = Decision.UNKNOWN
    return Judgement(answer=answer, ratio=compared, contradictions=tuple(contradictions))


_DECISIONS = {
    Relation.MORE: Decision.DIFFERENT,
    Relation.LESS: Decision.DIFFERENT,
    Relation.TIE: Decision.TIE,
    Relation.UNKNOWN: Decision.UNKNOWN,
}
