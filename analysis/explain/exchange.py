"""Tests how much of a loss other trials of the same box show to be communication.

One replica alone against N leaves contention and communication together. Independent replicas tell
them apart (`analysis.explain.ablations`); where there are none, two tests do:

| test | communication takes |
|---|---|
| losses grow with the bytes sent, over models and batches | what grows with them |
| the same trial, exchanging in another way, is faster | at least the difference |
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from analysis.explain.ablations import COMPARED, AblationFinder, reads
from analysis.explain.links import gradient_bytes
from analysis.explain.waterfall import Seconds, difference, shares_cores, step_s
from analysis.reported_work import is_known
from analysis.results import Result
from scalemark.records.trial import STRATEGY_AXES, free_names
from scalemark.text.wording import as_typed

ALPHA = 0.05
FEWEST = 4  # models and batches: of fewer no order is rarer than 1 in 20
SAME_SHARE = 0.02  # of the compute: figures so near may be of equals
FIGURES_DIFFER_FROM = 0.10  # of the step: two figures without repeats, so far apart, are no noise
NO_STEP_IS_SHORTER = 0.5  # of the step of one replica alone

_OF_EXCHANGE = (*STRATEGY_AXES, "gradient_repacking", "compact_gradients")
"""Axes by which replicas exchange gradients in another way, and compute the same."""
_OF_WORK = (
    *("model", "model_digest", "image_px", "seq_len", "batch_size", "gradient_accumulation"),
    "compact_gradients",
)
"""Axes by which trials differ in what they compute and send, and not in how they send it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeLoss:
    """The loss of one trial that exchanges gradients and reads nothing, against one replica."""

    result: Result
    sent_bytes: float  # gradients of one replica
    alone_s: float  # the step of one replica alone
    lost_s: float  # that the step on all devices takes longer

    @property
    def demand(self) -> float:
        """Bytes for each second of compute: what the links must carry to cost nothing."""
        return self.sent_bytes / self.alone_s

    @property
    def share(self) -> float:
        """The loss for each second of compute."""
        return self.lost_s / self.alone_s


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownExchange:
    """Communication that trials of the box show, beside those that are subtracted."""

    by_bytes: bool  # else by another way of exchange
    seconds: Seconds  # of a step
    because: str  # a part of a sentence
    trials: tuple[str, ...]
    p: float | None = None  # of a test


class ExchangeTests:
    """Tests results against all that a finder has."""

    def __init__(self, finder: AblationFinder) -> None:
        self._finder = finder
        self.contradicting = finder.contradicting
        self._same_way: dict[object, list[Result]] = defaultdict(list)
        self._other_ways: dict[object, list[Result]] = defaultdict(list)
        self._losses: dict[object, list[ExchangeLoss]] = {}
        self._growths: dict[object, Growth | None] = {}
        for result in finder.results:
            if result.num_gpus == 1 or result.trains_apart:
                continue
            if not reads(result.axes):
                self._same_way[_same(result, but_for=_OF_WORK)].append(result)
            if is_known(result.axes):
                self._other_ways[_same(result, but_for=_OF_EXCHANGE)].append(result)

    def shown(self, target: Result) -> ShownExchange | None:
        """Return what shows most communication of a result on several devices."""
        tests = [self._by_bytes(target), self._by_other_way(target)]
        known = [test for test in tests if test is not None]
        return max(known, key=lambda test: test.seconds.value, default=None)

    def refuted(self, target: Result) -> str:
        """Return which trial shows that bytes are not what a result loses by; empty without one."""
        own = self._loss(target)
        if own is None:
            return ""
        better = []
        for other in self._like(target):
            if other.demand >= own.demand and other.share < own.share - SAME_SHARE:
                better.append(other)
        if not better:
            return ""
        best = min(better, key=lambda loss: loss.share)
        return (
            f"{best.result.axes['model']} (batch_size {best.result.axes['batch_size']}) sends "
            f"{best.demand / own.demand:.3g} times the bytes per second of compute the same way, "
            f"and reaches {1 / (1 + best.share):.0%} of the ideal where this one reaches "
            f"{1 / (1 + own.share):.0%}"
        )

    def _like(self, result: Result) -> list[ExchangeLoss]:
        """Return the losses on as many devices that exchange in the same way, its own among them.

        Each model and batch is there once, and none of which two rows contradict each other.
        """
        way = _same(result, but_for=_OF_WORK)
        if way not in self._losses:
            by_work = {}
            for other in self._same_way[way]:
                by_work[tuple(other.axes.get(name) for name in _OF_WORK)] = other
            losses = []
            for other in by_work.values():
                loss = None if self.contradicting(other) else self._loss(other)
                if loss is not None:
                    losses.append(loss)
            self._losses[way] = losses
        return self._losses[way]

    def _loss(self, result: Result) -> ExchangeLoss | None:
        """Return None without one replica alone, of a model whose gradients were not counted, and
        where the step is so short that one of the two figures is wrong.
        """
        alone = self._finder.alone(result)
        sent = gradient_bytes(result.axes)
        if alone is None or sent is None:
            return None
        alone_s = step_s(alone).value
        lost_s = step_s(result).value - alone_s
        if lost_s < -NO_STEP_IS_SHORTER * alone_s:
            return None
        return ExchangeLoss(result=result, sent_bytes=sent, alone_s=alone_s, lost_s=lost_s)

    def _by_bytes(self, target: Result) -> ShownExchange | None:
        if shares_cores(target):
            return None  # one replica has the cores of all: what more of them lose is no loss
        own, like = self._loss(target), self._like(target)
        if own is None or target.trial_id not in [loss.result.trial_id for loss in like]:
            return None
        way = _same(target, but_for=_OF_WORK)
        if way not in self._growths:
            self._growths[way] = grows_with_bytes(like)
        growth = self._growths[way]
        if growth is None or self.refuted(target):
            return None
        grown_s = min(own.lost_s, growth.s_per_byte * own.sent_bytes)
        if grown_s <= 0:
            return None
        because = (
            f"losses of {len(like)} models and batches grow with their bytes at "
            f"{1e-9 / growth.s_per_byte:.3g} GB/s, p = {growth.p:.2g}"
        )
        return ShownExchange(
            by_bytes=True,
            seconds=Seconds(value=grown_s),
            because=because,
            trials=tuple(loss.result.trial_id for loss in like),
            p=growth.p,
        )

    def _by_other_way(self, target: Result) -> ShownExchange | None:
        if target.trains_apart or not is_known(target.axes):
            return None
        others = []
        for other in self._other_ways.get(_same(target, but_for=_OF_EXCHANGE), ()):
            if not self.contradicting(other):
                others.append(other)
        fastest = min(others, key=lambda other: step_s(other).value, default=target)
        if fastest.trial_id == target.trial_id or self.contradicting(target):
            return None
        seconds = difference(target, fastest)
        least_s = 0.0
        if not seconds.is_conclusive:
            least_s = FIGURES_DIFFER_FROM * step_s(target).value
        if seconds.value <= least_s or (seconds.low is not None and seconds.low <= 0):
            return None
        names = [fastest.strategy]
        for axis in ("gradient_repacking", "compact_gradients"):
            value = fastest.axes.get(axis)
            if value != target.axes.get(axis):
                names.append(f"{axis}={as_typed(value)}")
        return ShownExchange(
            by_bytes=False,
            seconds=seconds,
            because=f"{' '.join(names)} takes that much less",
            trials=(target.trial_id, fastest.trial_id),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """The growth of losses with bytes."""

    s_per_byte: float  # Theil and Sen's slope
    p: float  # chance of so rising an order, or more so, where bytes do not matter


def grows_with_bytes(losses: Sequence[ExchangeLoss]) -> Growth | None:
    """Test by Kendall's tau, one-sided, of the loss against the bytes per second of compute; None
    where that shows no growth.

    Contention for power or memory takes a share of the compute: then the order is by chance. What
    the host takes of each step is fixed, and weighs more where compute is short, which the demand
    rises with, too: so bytes must order the losses better than 1 / compute does. Of trials that
    lose by such causes at most 1 % are taken for communication (`benchmarks/verdicts.py`).
    """
    demands = [loss.demand for loss in losses]
    shares = [loss.share for loss in losses]
    sizes = {loss.sent_bytes for loss in losses}
    if len(losses) < FEWEST or len(sizes) < 2:
        return None
    p = chance_of_order(demands, shares)
    # a fixed time per step would explain the order as well
    of_fixed_time = _agreement([1 / loss.alone_s for loss in losses], shares)
    if p > ALPHA or _agreement(demands, shares) <= of_fixed_time:
        return None
    slopes = []
    for (x, y), (other_x, other_y) in combinations(zip(demands, shares, strict=True), 2):
        if x != other_x:
            slopes.append((other_y - y) / (other_x - x))
    return Growth(s_per_byte=statistics.median(slopes), p=p)


def _agreement(xs: Sequence[float], ys: Sequence[float]) -> int:
    """Return the pairs that both order alike, less all others: ties are no evidence."""
    agreement = 0
    for (x, y), (other_x, other_y) in combinations(zip(xs, ys, strict=True), 2):
        agreement += 1 if (x - other_x) * (y - other_y) > 0 else -1
    return agreement


def chance_of_order(xs: Sequence[float], ys: Sequence[float]) -> float:
    """Return the chance that so many pairs or more agree where neither order says anything of the
    other: the exact law of Kendall's tau. Importing scipy would take longer than the command.
    """
    num = len(xs)
    unlike = (math.comb(num, 2) - _agreement(xs, ys)) // 2
    orders = [1]  # of the values so far, by the number of pairs that they order unlike
    for length in range(2, num + 1):
        longer = [0] * (len(orders) + length - 1)
        for place, ways in enumerate(orders):
            for moved in range(length):
                longer[place + moved] += ways
        orders = longer
    return sum(orders[: unlike + 1]) / math.factorial(num)


def _same(result: Result, *, but_for: Sequence[str]) -> tuple[object, ...]:
    """Return what is the same of trials of one environment that differ in these axes alone."""
    axes, same = result.axes, []
    for name in (*COMPARED, *free_names(axes)):
        if name in axes and name not in but_for:
            same.append((name, axes[name]))
    return result.environment.key, result.item, *same
