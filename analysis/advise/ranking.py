"""Rank the choices of a question: which is taken, which are as good, might be, or are worse.

That a race put one out says that it would hardly win the full grid. Some of equals never win, so
that alone makes none worse: its repeats must show it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from analysis.badges import CLOSE
from analysis.judgement import contradiction, pair_level, pair_quantile
from analysis.results import Result
from scalemark.records.references import Origin
from scalemark.records.trial import unusual_axes
from scalemark.stats import welch
from scalemark.stats.distributions import chance_beyond, chance_of_f
from scalemark.stats.welch import LEVEL, Relation, Spread, relation_by, variance_of

PLAUSIBLE = 0.1  # behind: a single run is not expected to be off by so much
_UNKNOWN_DEVIATION = 0.1  # of log scores of processes, where nothing was repeated: rather too much

_MOST_WRONG = 0.2
"""What the chances that single runs called worse are better may add up to, over the number of the
others, since the first of many was lucky. Where `advise` says likely, the first is the best in 86 %
of rankings at least, if processes differ by up to 10 % and choices by up to 30 or 60 %
(`benchmarks/advice.py`).
"""

_ENDLESS = 500.0  # half of an interval of logarithms, which exp() can still take
_CLOSE_AS_PUBLISHED = 1.02

_MOST_FREEDOM = 8
"""Degrees of freedom that the repeats of other choices count for: choices need not spread alike.

Of 20 equals of two repeats one is then called worse in 2 % of rankings, in 4 and 10 % where their
deviations differ (standard deviation of their logarithms 0.25, 0.5); with 20 degrees it would be in
5, 9 and 19 %.
"""

_UNLIKE = 0.02
"""Chance by which two choices that spread more than the others are judged by their own repeats."""

_LEAST_FREEDOM = 4  # repeats beyond the first, before which a race may stop one by chance

_LOOKS = 3
"""How often a choice that a race put out is judged as if looked at: it stopped when it looked slow.

Of two equals of 10 repeats one was called worse in up to 8 % of rankings with one look; with three
and half of the error for single runs, in up to 5 % of any equals (`benchmarks/advice.py`).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A choice with its score."""

    result: Result
    scores: tuple[float, ...]  # throughput of each process
    score: float  # the typical one

    @property
    def spread(self) -> Spread:
        return Spread.of(self.scores)


@dataclass(frozen=True, slots=True, kw_only=True)
class Behind:
    """A candidate against the one with the highest score."""

    candidate: Candidate
    ratio: float  # of the highest score to its
    # CI over processes, so wide that in 95 % of rankings no equal is called worse; None where a
    # side is a single run
    low: float | None
    high: float | None
    level: float  # at which an interval of the two alone would be about as wide
    is_by_all: bool  # by the repeats of all choices; else by their own alone, if they spread more
    # times: so far apart may the two be by chance, if processes differ as all repeats say, and a
    # little of 3 %; infinite where a side is a single run
    explained: float
    chance: float  # of a single run to be better, as far as scores tell; else 0
    is_in_doubt: bool  # a single run: such chances add up to too much, with those farther behind
    is_hopeless: bool  # a single run, farther behind than by the scatter of repeats, and by 10 %
    is_noisy: bool  # the repeats of a side contradict each other, which is no tie
    is_out_of_race: bool  # no sign that it is slower

    @property
    def share(self) -> float:
        """Return how far it is behind, as a share of the highest score."""
        return 1 - 1 / self.ratio

    @property
    def is_proven(self) -> bool:
        """The repeats of both prove it to be behind, or those of others a single run."""
        return self.is_hopeless or (self.low is not None and self.low > 1)

    @property
    def is_tie(self) -> bool:
        """Return whether both are close, and their repeats cannot tell them apart."""
        is_within = relation_by(self.low, self.high) is Relation.TIE
        return is_within and self.ratio <= CLOSE and not self.is_noisy

    @property
    def is_unclear(self) -> bool:
        """Return whether the choice may be as good or better.

        Far behind is worse even where repeats are few, as of a single run, unless the scatter of
        all repeats explains the distance.
        """
        if self.candidate.result.environment.origin is Origin.PUBLISHED:
            return self.ratio < _CLOSE_AS_PUBLISHED
        if self.is_proven:
            return False
        if self.share < PLAUSIBLE:
            return True
        if self.low is None:
            return self.is_in_doubt
        return self.ratio <= self.explained


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """All that can be judged, at least one."""

    pick: Candidate  # of those that are as good the one with the fewest GPUs, and the plainest
    top: Candidate  # has the highest score
    tied: tuple[Behind, ...]  # as good as the highest, the pick included unless it is the highest
    unclear: tuple[Behind, ...]  # not known yet to be worse
    # either of these by their repeats, but a race says that they would hardly win the full grid
    out: tuple[Behind, ...]
    worse: tuple[Behind, ...]  # by score

    @property
    def rivals(self) -> tuple[Behind, ...]:
        """Return what may be as good or better."""
        return (*self.unclear, *self.out)

    @property
    def is_sure(self) -> bool:
        return not self.rivals

    @property
    def certainty(self) -> str:
        """Return how sure it is that nothing is better; a suspect number proves nothing."""
        if not self.is_sure or not self.pick.result.is_valid:
            return "unsure"
        if self.unproven is None:
            return "surely best"
        return "likely best"

    @property
    def unproven(self) -> Behind | None:
        """Return the nearest that is worse, but not proven so; None where all are."""
        return next((behind for behind in self.worse if not behind.is_proven), None)

    @property
    def standings(self) -> list[tuple[Candidate, Behind | None]]:
        """All candidates by score, each with its distance."""
        others = sorted((*self.tied, *self.rivals, *self.worse), key=lambda behind: behind.ratio)
        return [(self.top, None), *((behind.candidate, behind) for behind in others)]


def rank(able: Sequence[Result]) -> Ranking | None:
    """Rank results that have a number; None without any."""
    candidates = []
    for result in able:
        if result.repeats:
            score = welch.typical(result.repeats)
            candidates.append(Candidate(result=result, scores=result.repeats, score=score))
    if not candidates:
        return None
    top, *others = sorted(candidates, key=lambda candidate: candidate.score, reverse=True)
    tied, unclear, out, worse = [], [], [], []
    for behind in _all_behind(top, others):
        if not behind.is_tie and not behind.is_unclear:
            worse.append(behind)
        elif behind.is_out_of_race:
            out.append(behind)
        elif behind.is_tie:
            tied.append(behind)
        else:
            unclear.append(behind)
    return Ranking(
        pick=min([top, *(behind.candidate for behind in tied)], key=_plainness),
        top=top,
        tied=tuple(tied),
        unclear=tuple(unclear),
        out=tuple(out),
        worse=tuple(worse),
    )


def _all_behind(top: Candidate, others: Sequence[Candidate]) -> list[Behind]:
    """Judge all others, sorted by score, each by Tukey's studentized range.

    Any two of equals may turn out first and last, so all pairs count. The farthest behind is judged
    first; once it is proven, the first and last of one choice fewer are asked for (as Newman 1939
    and Keuls 1952 do, but against the first alone, which keeps the 5 %).
    """
    num = 1 + len(others)
    spread = Spread.sum(candidate.spread for candidate in (top, *others))
    behind: list[Behind] = []
    are_proven, wrong = True, 0.0
    for place in range(num, 1, -1):
        num_compared = place if are_proven else num
        farthest = _behind(top, others[place - 2], num_compared, num, spread)
        if farthest.low is None:
            wrong += farthest.chance
            # any of all may have come first in a race that put this one out
            most_wrong = LEVEL / (2 * num) if farthest.is_out_of_race else _MOST_WRONG
            farthest = replace(farthest, is_in_doubt=wrong > most_wrong / (num - 1))
        elif farthest.is_by_all:
            are_proven = are_proven and farthest.is_proven
        behind.append(farthest)
    behind.reverse()
    return behind


def _behind(
    top: Candidate, other: Candidate, num_compared: int, num: int, spread: Spread
) -> Behind:
    own = Spread.sum((top.spread, other.spread))
    others = spread.without(own)
    nums = len(top.scores), len(other.scores)
    ratio = top.score / other.score
    low, high, chance, level = None, None, 0.0, LEVEL
    is_by_all = is_hopeless = False
    if min(nums) > 1:
        is_by_all = others.freedom > 0 and not _spreads_more(own, others)
        reach, level = _reach(top, other, others if is_by_all else None, num_compared)
        low, high = ratio / _factor(reach), ratio * _factor(reach)
    else:
        is_well_known = own.freedom + others.freedom >= _LEAST_FREEDOM
        is_known = is_well_known or (spread.freedom > 0 and not other.result.out_of_race)
        chance = _chance(ratio, nums, own, others, is_known=is_known)
        if is_well_known and len(top.scores) > 1:
            most = max(chance, _chance(ratio, nums, own, others, is_known=False))
            is_hopeless = most <= LEVEL / (2 * num * (num - 1))
    explained = math.inf  # of two choices, or of few in a race, their own interval says all
    looks, least_freedom = (_LOOKS, _MOST_FREEDOM) if other.result.out_of_race else (1, 0)
    if num > 2 and min(nums) > 1 and others.freedom >= least_freedom:
        known, freedom = variance_of(own, others, prior_freedom=1, most_freedom=_MOST_FREEDOM)
        explained = _factor(_error(known, nums) * pair_quantile(num, freedom, LEVEL / looks))
    return Behind(
        candidate=other,
        ratio=ratio,
        low=low,
        high=high,
        level=level,
        is_by_all=is_by_all,
        explained=explained,
        chance=chance,
        is_in_doubt=False,
        is_hopeless=is_hopeless,
        is_noisy=bool(contradiction(top.scores) or contradiction(other.scores)),
        is_out_of_race=bool(other.result.out_of_race),
    )


def _reach(
    top: Candidate, other: Candidate, others: Spread | None, num_compared: int
) -> tuple[float, float]:
    """Return half the CI of the distance of log scores of two that were repeated, and the level at
    which an interval of two alone would be as wide. `others`: what all other choices show of the
    variance; None where the repeats of the two alone count.
    """
    nums = len(top.scores), len(other.scores)
    own = Spread.sum((top.spread, other.spread))
    was_raced = bool(other.result.out_of_race or top.result.out_of_race)
    level = LEVEL / _LOOKS if was_raced else LEVEL
    if others is not None:
        variance, freedom = variance_of(own, others, prior_freedom=0, most_freedom=_MOST_FREEDOM)
        quantile = pair_quantile(num_compared, freedom, level)
        return _error(variance, nums) * quantile, pair_level(num_compared, freedom, level)
    variances = welch.log_variance(top.scores), welch.log_variance(other.scores)
    level = pair_level(num_compared, own.freedom, level)
    return welch.reach_of_ratio(variances, nums, level), level


def _chance(
    ratio: float, nums: tuple[int, int], own: Spread, others: Spread, *, is_known: bool
) -> float:
    """Return the chance that the one behind is better. `is_known`: repeats tell the scatter."""
    if is_known:
        variance, freedom = variance_of(own, others, prior_freedom=1, most_freedom=_MOST_FREEDOM)
        return chance_beyond(math.log(ratio) / _error(variance, nums), freedom)
    return chance_beyond(math.log(ratio) / _error(_UNKNOWN_DEVIATION**2, nums), math.inf)


def _spreads_more(own: Spread, others: Spread) -> bool:
    """Test by F whether the two spread more than what is known of the others."""
    if not others.squares:
        return own.squares > 0
    ratio = (own.squares / own.freedom) / (others.squares / others.freedom)
    return chance_of_f(ratio, own.freedom, others.freedom) < _UNLIKE


def _factor(reach: float) -> float:
    return math.exp(min(reach, _ENDLESS))


def _error(variance: float, nums: tuple[int, int]) -> float:
    """Return the error of a distance of log scores, of processes with this variance."""
    return math.sqrt(variance * (1 / nums[0] + 1 / nums[1]))


def _plainness(candidate: Candidate) -> tuple[float, ...]:
    """Sort by fewest GPUs and hosts, then by the least change of the training, then by score."""
    axes = candidate.result.axes
    num_changes = (
        bool(axes.get("staged_vars"))
        + bool(axes.get("compact_gradients"))
        + (axes["precision"] not in ("fp32", None))
    )
    return (
        candidate.result.num_gpus,
        candidate.result.hosts,
        num_changes,
        axes["batch_size"] or 0,
        len(unusual_axes(axes)),
        -candidate.score,
    )
