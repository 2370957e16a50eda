"""The choices of a question by their scores: which is taken, which are as good, which might be, and what is behind."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from analysis.advice.aims import Aim, Goal
from analysis.advice.questions import Question
from analysis.results import Origin, Result
from analysis.ties import CLOSE
from store import welch
from store.records import unusual_axes
from store.relation import Relation, relation_by
from store.student import LEVEL

PLAUSIBLE = 0.1  # behind: one process alone is not expected to be off by so much
_CLOSE_AS_PUBLISHED = 1.02

_NOT_APART = (Relation.TIE, Relation.LESS)  # less: its processes were faster on the average, its median was not

Watts = Callable[[Result], Sequence[float | None]]
"""Of each process of a result, of all its GPUs together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A choice with its score."""

    result: Result
    scores: tuple[float, ...]  # of each process, larger is better

    @property
    def score(self) -> float:
        return statistics.median(self.scores)

    @property
    def images_per_second(self) -> float:
        return self.result.images_per_second or 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Behind:
    """A candidate against the one with the highest score."""

    candidate: Candidate
    ratio: float  # of the highest score to its
    low: float | None  # interval over processes, of which 95 % of rankings hold all; None where a side is one process alone
    high: float | None

    @property
    def share(self) -> float:
        """By how much of the highest score it is behind that."""
        return 1 - 1 / self.ratio

    @property
    def share_low(self) -> float | None:
        return None if self.low is None else 1 - 1 / self.low

    @property
    def share_high(self) -> float | None:
        return None if self.high is None else 1 - 1 / self.high


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """Of all that can be judged, at least one."""

    pick: Candidate  # of those that are as good the one with the fewest GPUs, and the plainest
    top: Candidate  # has the highest score
    tied: tuple[Behind, ...]  # as good as the highest, the pick included unless it is the highest
    unclear: tuple[Behind, ...]  # nobody knows yet whether they are as good, or better
    worse: tuple[Behind, ...]  # by score
    misses: bool  # none is in time for the deadline: then images/s are the score
    level: float  # of the interval that each pair is judged by

    @property
    def is_sure(self) -> bool:
        return not self.unclear

    @property
    def judged(self) -> list[Candidate]:
        """All, the highest score first within each kind."""
        return [self.top, *(one.candidate for one in (*self.tied, *self.unclear, *self.worse))]


def rank(question: Question, aim: Aim, watts: Watts) -> Ranking | None:
    """None where there is nothing to judge."""
    found = candidates(question.able, aim, watts)
    needed = aim.needed_images_per_second
    in_time = [one for one in found if needed is None or one.images_per_second >= needed]
    misses = bool(found) and not in_time
    if misses:
        in_time = candidates(question.able, Aim(), watts)
    if not in_time:
        return None
    top, *others = sorted(in_time, key=lambda one: one.score, reverse=True)
    level = _level(len(in_time))
    behind = [_behind(top, one, level) for one in others]
    tied = [one for one in behind if is_tie(one)]
    apart = [one for one in behind if not is_tie(one)]
    pick = min([top, *(one.candidate for one in tied)], key=_plainness)
    return Ranking(
        pick=pick,
        top=top,
        tied=tuple(tied),
        unclear=tuple(one for one in apart if _is_unclear(one)),
        worse=tuple(one for one in apart if not _is_unclear(one)),
        misses=misses and aim.goal is Goal.DEADLINE,
        level=level,
    )


def candidates(results: Sequence[Result], aim: Aim, watts: Watts) -> list[Candidate]:
    scored = ((result, aim.scores(result, watts(result))) for result in results)
    return [Candidate(result=result, scores=scores) for result, scores in scored if scores]


def is_tie(one: Behind) -> bool:
    """Repeats on both sides cannot tell them apart, and they are close."""
    return relation_by(one.low, one.high) in _NOT_APART and one.ratio <= CLOSE


def _level(num: int) -> float:
    """Of each pair, so that in 5 % of rankings at most one of equals is called worse: any two may turn out first and last."""
    return LEVEL / max(1, math.comb(num, 2))


def _behind(top: Candidate, other: Candidate, level: float) -> Behind:
    low, high = welch.known_ratio_interval(top.scores, other.scores, level)
    return Behind(candidate=other, ratio=top.score / other.score, low=low, high=high)


def _is_unclear(one: Behind) -> bool:
    if one.candidate.result.place.origin is Origin.PUBLISHED:
        return one.ratio < _CLOSE_AS_PUBLISHED
    found = relation_by(one.low, one.high)
    return one.share < PLAUSIBLE if found is Relation.UNKNOWN else found in _NOT_APART


def _plainness(candidate: Candidate) -> tuple[float, ...]:
    """Fewest GPUs first, then hosts, then what changes the training least, then what is usual; the higher score of equals."""
    axes = candidate.result.axes
    changes = (bool(axes.get("staged_vars")), bool(axes.get("compact_gradients")), axes["precision"] != "fp32")
    batch_size = axes["batch_size"] or 0
    return (
        candidate.result.num_gpus,
        candidate.result.hosts,
        sum(changes),
        batch_size,
        len(unusual_axes(axes)),
        -candidate.score,
    )
