"""Tests how much of a loss other trials of the same box show to be communication.

One replica alone against N leaves contention and communication together. Independent replicas tell
them apart (`analysis.explanation.ablations`); where there are none, two tests do:

| test | communication takes |
|---|---|
| losses grow with the bytes sent, over models and batches | what grows with them |
| the same trial, exchanging in another way, is faster | at least the difference |
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from analysis.explanation.ablations import COMPARED, AblationFinder
from analysis.explanation.communication.growth import growth
from analysis.explanation.communication.losses import BoxLosses, Loss
from analysis.explanation.evidence import Method
from analysis.explanation.faster_readers import FasterReaders
from analysis.explanation.step_times import Seconds, about, difference, step_s
from analysis.explanation.waterfall import shares_cores
from analysis.reported_work import is_known
from analysis.results import Result
from scalemark.records.strategies import STRATEGY_AXES
from scalemark.records.trial import free_names
from scalemark.text.wording import as_typed

SAME_SHARE = 0.02  # of the compute: figures so near may be of equals
FIGURES_DIFFER_FROM = 0.10  # of the step: two figures without repeats, so far apart, are no noise

_OF_EXCHANGE = (*STRATEGY_AXES, "gradient_repacking", "compact_gradients")
"""Axes by which replicas exchange gradients in another way, and compute the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """Communication that trials of the box show, beside those that are subtracted."""

    method: Method
    seconds: Seconds  # of a step
    because: str  # a part of a sentence
    trials: tuple[Result, ...]
    p: float | None = None  # of a test


class ExchangeTests:
    """Tests results against all that a finder has."""

    def __init__(self, finder: AblationFinder) -> None:
        self._finder = finder
        self._losses = BoxLosses(finder)
        self._readers = FasterReaders(finder.results)
        self._other_ways: dict[object, list[Result]] = defaultdict(list)
        for result in finder.results:
            if result.num_gpus > 1 and not result.trains_apart and is_known(result.axes):
                self._other_ways[_but_for_exchange(result)].append(result)

    def shown(self, target: Result) -> Shown | None:
        """Return what shows most communication of a result on several devices."""
        found = [one for one in (self._by_bytes(target), self._by_other_way(target)) if one]
        return max(found, key=lambda one: one.seconds.value, default=None)

    def contradicting(self, result: Result) -> list[Result]:
        """Return rows of the same work with other figures, see `AblationFinder`."""
        return self._finder.contradicting(result)

    def read_faster(self, target: Result) -> str:
        """Return which trial reads the same data faster, see `FasterReaders`."""
        return self._readers.than(target)

    def refuted(self, target: Result) -> str:
        """Return which trial shows that bytes are not what a result loses by; empty without one."""
        own = self._losses.of(target)
        if own is None:
            return ""
        better = [one for one in self._losses.like(target) if _carries_more_for_less(one, own)]
        if not better:
            return ""
        best = min(better, key=lambda one: one.point.share)
        times = best.point.demand / own.point.demand
        return (
            f"{best.result.axes['model']} (batch_size {best.result.axes['batch_size']}) sends "
            f"{times:.3g} times the bytes per second of compute the same way, and reaches "
            f"{best.point.efficiency:.0%} of the ideal where this one reaches "
            f"{own.point.efficiency:.0%}"
        )

    def _by_bytes(self, target: Result) -> Shown | None:
        if shares_cores(target):
            return None  # one replica has the cores of all: what more of them lose is no loss
        own, like = self._losses.of(target), self._losses.like(target)
        if own is None or target.trial_id not in [one.result.trial_id for one in like]:
            return None
        found = growth([one.point for one in like])
        if found is None or not found.is_shown or self.refuted(target):
            return None
        grown_s = min(own.point.lost_s, found.s_per_byte * own.point.sent_bytes)
        if grown_s <= 0:
            return None
        because = (
            f"losses of {found.num} models and batches grow with their bytes at "
            f"{1e-9 / found.s_per_byte:.3g} GB/s, p = {found.p:.2g}"
        )
        return Shown(
            method=Method.BYTES,
            seconds=about(grown_s),
            because=because,
            trials=tuple(one.result for one in like),
            p=found.p,
        )

    def _by_other_way(self, target: Result) -> Shown | None:
        if target.trains_apart or not is_known(target.axes):
            return None
        others = [
            one
            for one in self._other_ways.get(_but_for_exchange(target), ())
            if not self._finder.contradicting(one)
        ]
        fastest = min(others, key=lambda one: step_s(one).value, default=target)
        if fastest.trial_id == target.trial_id or self._finder.contradicting(target):
            return None
        seconds = difference(target, fastest)
        least_s = 0.0 if seconds.is_conclusive else FIGURES_DIFFER_FROM * step_s(target).value
        if seconds.value <= least_s or (seconds.low is not None and seconds.low <= 0):
            return None
        return Shown(
            method=Method.OTHER_WAY,
            seconds=seconds,
            because=f"{_named(fastest, target)} takes so much less",
            trials=(target, fastest),
        )


def _carries_more_for_less(other: Loss, own: Loss) -> bool:
    return (
        other.point.demand >= own.point.demand and other.point.share < own.point.share - SAME_SHARE
    )


def _named(other: Result, target: Result) -> str:
    """Return the other's strategy, with the axes in which the two differ beside it."""
    words = [other.strategy]
    for name in _OF_EXCHANGE:
        if name not in STRATEGY_AXES and other.axes.get(name) != target.axes.get(name):
            words.append(f"{name}={as_typed(other.axes.get(name))}")
    return " ".join(words)


def _but_for_exchange(result: Result) -> tuple[object, ...]:
    axes = result.axes
    compared = [name for name in COMPARED if name in axes and name not in _OF_EXCHANGE]
    same = [(name, axes[name]) for name in (*compared, *free_names(axes))]
    return result.environment.key, result.item, *same
