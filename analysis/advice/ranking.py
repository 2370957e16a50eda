"""The choices of a question by their scores: which is taken, which are as good, which might be, and
what is behind.

That a race put one out says that it would hardly win the full grid. Of equals some always do not
win, so that alone never makes one worse: its repeats must tell.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from analysis.advice.aims import Aim, Goal
from analysis.advice.questions import Question
from analysis.results import Origin, Result
from analysis.text.ties import CLOSE
from scalemark.records.trial import unusual_axes
from scalemark.stats import welch
from scalemark.stats.spread import Spread, variance_of
from scalemark.stats.student import LEVEL, upper_quantile
from scalemark.stats.welch import Relation, relation_by

PLAUSIBLE = 0.1  # behind: one process alone is not expected to be off by so much
_ENDLESS = 500.0  # half of an interval of logarithms
_CLOSE_AS_PUBLISHED = 1.02

_MOST_FREEDOM = 6
"""What the repeats of other choices show of how far processes differ counts for no more degrees:
choices need not spread alike. Of 20 equals of two repeats, whose deviations differ (standard
deviation of their logarithms 0.5), one is then called worse in 1 to 3 % of rankings; with 20
degrees it would be in 12 %."""

_LOOKS = 2
"""What a race put out stopped where it looked slow: its interval is judged as if it had been looked
at so often. Of two equals of 10 repeats one was called worse in up to 8 % of rankings with one
look, in up to 5 % with two (`benchmarks/raced_advice.py`)."""

Watts = Callable[[Result], Sequence[float | None]]
"""Of each process of a result, of all its GPUs together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A choice with its score."""

    result: Result
    scores: tuple[float, ...]  # of each process, larger is better

    @property
    def score(self) -> float:
        """To be told, as all tables have it."""
        return statistics.median(self.scores)

    @property
    def typical(self) -> float:
        """Geometric mean over processes: what is compared, as `analysis.statistics.ratios` does."""
        return self.scores[0] if len(self.scores) == 1 else statistics.geometric_mean(self.scores)

    @property
    def spread(self) -> Spread:
        return Spread.of(self.scores)

    @property
    def throughput(self) -> float:
        return self.result.throughput or 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Behind:
    """A candidate against the one with the highest score."""

    candidate: Candidate
    ratio: float  # of the highest score to its
    # interval over processes, of which 95 % of rankings hold all; None where a side is one process
    # alone
    low: float | None
    high: float | None
    # as `low`, of the 95 % interval of the two by themselves, as `compare` has it
    alone: float | None
    variance: float  # of log scores of a process, drawn towards what the other choices show
    # of it; 0: no other choice was repeated, and the two are judged by their own repeats
    freedom: int
    # times: so far apart may the two be by chance, if processes differ as all repeats say, and a
    # little of 3 %
    explained: float
    # of log scores, that would do if it were known for sure that processes differ as they seem to
    distance_if_known: float
    # a race of images/s put it out, and that is the goal; no sign that it is slower
    is_out_of_race: bool

    @property
    def share(self) -> float:
        """By how much of the highest score it is behind that."""
        return 1 - 1 / self.ratio

    @property
    def is_proven(self) -> bool:
        """To be behind, by repeats of both."""
        return self.low is not None and self.low > 1

    @property
    def is_of_too_few(self) -> bool:
        """Whether as far apart they would be told apart, were it but known how far processes
        differ: it is no scatter then.
        """
        return self.low is not None and math.log(self.ratio) > self.distance_if_known

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
    # either of these by their repeats, but a race says that they would hardly win the full grid
    out: tuple[Behind, ...]
    worse: tuple[Behind, ...]  # by score
    misses: bool  # none is in time for the deadline: then images/s are the score
    level: float  # of the interval that each pair is judged by

    @property
    def is_sure(self) -> bool:
        return not self.unclear and not self.out

    @property
    def judged(self) -> list[Candidate]:
        """All, the highest score first within each kind."""
        return [
            self.top,
            *(one.candidate for one in (*self.tied, *self.unclear, *self.out, *self.worse)),
        ]


def rank(question: Question, aim: Aim, watts: Watts) -> Ranking | None:
    """None where there is nothing to judge."""
    found = candidates(question.able, aim, watts)
    needed = aim.needed_throughput
    in_time = [one for one in found if needed is None or one.throughput >= needed]
    misses = bool(found) and not in_time
    if misses:
        in_time = candidates(question.able, Aim(), watts)
    if not in_time:
        return None
    top, *others = sorted(in_time, key=lambda one: one.typical, reverse=True)
    level = _level(len(in_time))
    spread = Spread.sum(one.spread for one in in_time)
    races = misses or aim.goal is Goal.THROUGHPUT
    behind = [_behind(top, one, level, spread, races=races) for one in others]
    by_standing = {
        standing: tuple(one for one in behind if _standing(one) is standing)
        for standing in _Standing
    }
    tied = by_standing[_Standing.TIED]
    pick = min([top, *(one.candidate for one in tied)], key=_plainness)
    return Ranking(
        pick=pick,
        top=top,
        tied=tied,
        unclear=by_standing[_Standing.UNCLEAR],
        out=by_standing[_Standing.OUT],
        worse=by_standing[_Standing.WORSE],
        misses=misses and aim.goal is Goal.DEADLINE,
        level=level,
    )


def candidates(results: Sequence[Result], aim: Aim, watts: Watts) -> list[Candidate]:
    scored = ((result, aim.scores(result, watts(result))) for result in results)
    return [Candidate(result=result, scores=scores) for result, scores in scored if scores]


class _Standing(Enum):
    """Of a candidate against the best; see Ranking."""

    TIED = auto()
    UNCLEAR = auto()
    OUT = auto()
    WORSE = auto()


def _standing(one: Behind) -> _Standing:
    tied = _is_tie(one)
    if not tied and not _is_unclear(one):
        return _Standing.WORSE
    if one.is_out_of_race:
        return _Standing.OUT
    return _Standing.TIED if tied else _Standing.UNCLEAR


def _is_tie(one: Behind) -> bool:
    """Repeats on both sides cannot tell them apart, and they are close."""
    return relation_by(one.low, one.high) is Relation.TIE and one.ratio <= CLOSE


def _level(num: int) -> float:
    """Of each pair, so that in 5 % of rankings at most one of equals is called worse: any two may
    turn out first and last.
    """
    return LEVEL / max(1, math.comb(num, 2))


def _behind(
    top: Candidate, other: Candidate, level: float, spread: Spread, *, races: bool
) -> Behind:
    own = Spread.sum((top.spread, other.spread))
    others = spread.without(own)
    nums = len(top.scores), len(other.scores)
    ratio = top.typical / other.typical
    known, freedom_of_known = variance_of(own, others, prior_freedom=1, most_freedom=_MOST_FREEDOM)
    # of two their own interval says all
    explained = _reach(known, freedom_of_known, nums, level) if level < LEVEL else math.inf
    raced_level = level / _LOOKS if other.result.out_of_race or top.result.out_of_race else level
    variance, freedom, reach = 0.0, 0, None
    if min(nums) > 1 and others.freedom:
        variance, freedom = variance_of(own, others, prior_freedom=0, most_freedom=_MOST_FREEDOM)
        reach = _reach(variance, freedom, nums, raced_level)
    elif min(nums) > 1:
        variances = welch.log_variance(top.scores), welch.log_variance(other.scores)
        reach = welch.reach_of_ratio(variances, (nums[0], nums[1]), raced_level)
    factor = None if reach is None else math.exp(min(reach, _ENDLESS))
    return Behind(
        candidate=other,
        ratio=ratio,
        low=None if factor is None else ratio / factor,
        high=None if factor is None else ratio * factor,
        alone=welch.known_ratio_interval(top.scores, other.scores)[0],
        variance=variance,
        freedom=freedom,
        explained=math.exp(min(explained, _ENDLESS)),
        distance_if_known=_reach(variance or _own_variance(own), math.inf, nums, level),
        is_out_of_race=races and bool(other.result.out_of_race),
    )


def _own_variance(own: Spread) -> float:
    return own.squares / own.freedom if own.freedom else 0.0


def _reach(variance: float, freedom: float, nums: tuple[int, int], level: float) -> float:
    """Half the interval of a distance of log scores, where processes of both sides have this
    variance.
    """
    return upper_quantile(level / 2, freedom) * math.sqrt(variance * (1 / nums[0] + 1 / nums[1]))


def _is_unclear(one: Behind) -> bool:
    """Of so few repeats that their interval says nothing, who is far behind is worse, as of one
    process alone.
    """
    if one.candidate.result.place.origin is Origin.PUBLISHED:
        return one.ratio < _CLOSE_AS_PUBLISHED
    if one.is_proven:
        return False
    return one.share < PLAUSIBLE or (one.low is not None and one.ratio <= one.explained)


def _plainness(candidate: Candidate) -> tuple[float, ...]:
    """Fewest GPUs first, then hosts, then what changes the training least, then what is usual; the
    higher score of equals.
    """
    axes = candidate.result.axes
    changes = (
        bool(axes.get("staged_vars")),
        bool(axes.get("compact_gradients")),
        axes["precision"] != "fp32",
    )
    batch_size = axes["batch_size"] or 0
    return (
        candidate.result.num_gpus,
        candidate.result.hosts,
        sum(changes),
        batch_size,
        len(unusual_axes(axes)),
        -candidate.score,
    )
