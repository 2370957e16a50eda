"""Are two sides different, as fast as each other, or can nobody tell?"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from analysis.statistics.contradictions import Contradiction, contradiction
from analysis.statistics.ranks import Ranks, ranks
from analysis.statistics.ratios import Ratio, ratio
from analysis.statistics.sample import Sample
from scalemark.stats.welch import Relation, relation_by


class Answer(StrEnum):
    """What may be said."""

    DIFFERENT = "different"
    TIE = "tie"  # as far as the repeats tell
    UNKNOWN = "cannot tell"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """Of one comparison."""

    answer: Answer
    is_sure: bool  # False: of one process alone, by its steps, because the user wanted it so
    ratio: Ratio
    ranks: Ranks | None  # of two or more processes of each side
    contradictions: tuple[tuple[str, Contradiction], ...]  # A or B, and how its repeats disagree
    why: str  # one clause


def judge(a: Sample, b: Sample, *, trust_steps: bool = False) -> Judgement:
    """By the interval over processes alone, as all who judge a pair (`scalemark.stats.welch.relation_by`); the rank
    test is told beside it.

    Repeats that contradict each other are no tie. One process alone tells nothing of others: then
    nobody can tell. Who wants to
    `trust_steps` gets an answer that is not sure.
    """
    found = ratio(a, b)
    contradictions = tuple(
        (label, one)
        for label, side in (("A", a), ("B", b))
        if (one := contradiction(side)) is not None
    )
    ranked = ranks(a.throughput, b.throughput) if found.is_over_processes else None
    answer, why = _answer(found, ranked, contradictions, trust_steps)
    is_sure = found.is_over_processes and answer is not Answer.UNKNOWN
    return Judgement(
        answer=answer,
        is_sure=is_sure,
        ratio=found,
        ranks=ranked,
        contradictions=contradictions,
        why=why,
    )


def _answer(
    found: Ratio,
    ranked: Ranks | None,
    contradictions: tuple[tuple[str, Contradiction], ...],
    trust_steps: bool,
) -> tuple[Answer, str]:
    answer = _ANSWERS[relation_by(found.low, found.high)]
    if answer is Answer.UNKNOWN:
        return Answer.UNKNOWN, found.note
    if ranked is None:
        if not trust_steps:
            return Answer.UNKNOWN, found.note
        return answer, f"by the steps alone: {found.note}"
    if answer is Answer.TIE and contradictions:
        return Answer.UNKNOWN, "; ".join(
            f"the repeats of {label} contradict each other: {one.words}"
            for label, one in contradictions
        )
    if answer is Answer.TIE:
        return answer, "the interval over processes holds 1"
    return answer, f"the interval over processes leaves 1 out; {ranked.words}"


_ANSWERS = {
    Relation.MORE: Answer.DIFFERENT,
    Relation.LESS: Answer.DIFFERENT,
    Relation.TIE: Answer.TIE,
    Relation.UNKNOWN: Answer.UNKNOWN,
}
