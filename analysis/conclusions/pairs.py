"""Pairs of results that differ in one thing, compared by throughput or by efficiency."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from analysis.results import Result, by_item
from analysis.tables.axes import axes_of
from scalemark.records.references import Origin
from scalemark.records.trial import STRATEGY_AXES
from scalemark.stats.welch import Relation, known_ratio_interval, relation_by

PUBLISHED_MARGIN = 0.02
"""Published figures have no interval: figures closer than this count as the same."""

STRATEGY = ("strategy", *STRATEGY_AXES)
# what may make two results of a pair differ, in the order in which it is named
_NAMED = (
    *("model", "strategy", "num_gpus", "hosts", "batch_size", "precision", "data"),
    *("staged_vars", "gradient_repacking", "compact_gradients"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimPair:
    """Two results, the ratio of their values, and what that says to a statement."""

    shared: str  # what both have, as `vgg16 on 8`
    first: str  # what the first has alone, as `replicated_nccl`
    second: str
    quantity: str  # of the values: throughput, efficiency, share of synthetic
    first_value: float
    second_value: float
    ratio: float  # first_value / second_value
    low: float | None  # 95 % CI over processes; None where it is not known
    high: float | None
    relation: Relation
    holds: bool | None  # None: a tie, or single runs
    host: str
    trials: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimComparison:
    """Two results before anything is said of them."""

    first: Result
    second: Result
    quantity: str
    ratio: float
    low: float | None
    high: float | None

    @property
    def relation(self) -> Relation:
        relation = relation_by(self.low, self.high)
        is_published = self.first.environment.origin is Origin.PUBLISHED
        if relation is not Relation.UNKNOWN or not is_published:
            return relation
        if abs(math.log(self.ratio)) <= math.log1p(PUBLISHED_MARGIN):
            return Relation.TIE
        return Relation.MORE if self.ratio > 1 else Relation.LESS

    def against(self, share: float) -> ClaimComparison:
        """Return it with the ratio to a share of the second instead of the whole."""
        ends = [None if end is None else end / share for end in (self.low, self.high)]
        return replace(self, ratio=self.ratio / share, low=ends[0], high=ends[1])

    def pair(self, holds: bool | None) -> ClaimPair:
        first, second = self.first, self.second
        values = [_value(result, self.quantity) for result in (first, second)]
        shared, names = _names(first, second)
        return ClaimPair(
            shared=shared,
            first=names[0],
            second=names[1],
            quantity=self.quantity,
            first_value=values[0],
            second_value=values[1],
            ratio=self.ratio,
            low=self.low,
            high=self.high,
            relation=self.relation,
            holds=holds,
            host=first.environment.host,
            trials=(first.trial_id, second.trial_id),
        )


def by_speed(first: Result | None, second: Result | None) -> ClaimComparison | None:
    """Compare throughputs; None where one has no number."""
    if not (first and second and first.throughput and second.throughput):
        return None
    low, high = known_ratio_interval(first.repeats, second.repeats)
    ratio = first.throughput / second.throughput
    return ClaimComparison(
        first=first, second=second, quantity=first.unit, ratio=ratio, low=low, high=high
    )


def by_efficiency(first: Result, second: Result) -> ClaimComparison | None:
    """Compare efficiencies; None where one has none, for which it needs a baseline."""
    if not first.efficiency or not second.efficiency or 1 in (first.num_gpus, second.num_gpus):
        return None
    low, high = _interval_of_efficiencies(first, second)
    ratio = first.efficiency / second.efficiency
    return ClaimComparison(
        first=first, second=second, quantity="efficiency", ratio=ratio, low=low, high=high
    )


def alike(results: Iterable[Result], *free: str) -> list[list[Result]]:
    """Return groups of two or more results of one environment that differ in the free axes
    alone.
    """
    groups: dict[tuple[object, ...], list[Result]] = defaultdict(list)
    for result in results:
        # with the strategy, the free axes that it is the name of
        varied = {*free, *result.named_axes} if "strategy" in free else set(free)
        fixed = tuple(result.axes.get(axis) for axis in axes_of([result]) if axis not in varied)
        groups[result.environment.key, *fixed].append(result)
    parts = [part for group in groups.values() for part in by_item(group)]
    return [part for part in parts if len(part) > 1]


def fastest(
    results: Iterable[Result], wanted: Callable[[Result], bool] | None = None
) -> Result | None:
    """Return the fastest of those whose replicas train one model together."""
    able = [one for one in results if one.throughput and not one.trains_apart]
    if wanted is not None:
        able = [one for one in able if wanted(one)]
    return max(able, key=lambda one: one.throughput or 0.0, default=None)


def against_fastest(
    results: Iterable[Result],
    first: Callable[[Result], bool],
    second: Callable[[Result], bool] | None = None,
    free: Sequence[str] = STRATEGY,
) -> list[ClaimComparison]:
    """Compare the fastest of the first kind with the fastest of the second, in each group that
    differs in the free axes alone; the second kind is all others without one.
    """
    compared = []
    for group in alike(results, *free):
        one = fastest(group, first)
        others = [other for other in group if not first(other)] if second is None else group
        if pair := by_speed(one, fastest(others, second)):
            compared.append(pair)
    return compared


def on_most_gpus(compared: Iterable[ClaimComparison | None]) -> list[ClaimComparison]:
    """Keep of each curve the comparison on the most GPUs."""
    most: dict[tuple[object, ...], ClaimComparison] = {}
    for pair in compared:
        if pair is None:
            continue
        curve = (pair.first.environment.key, pair.first.curve, pair.first.hosts)
        if curve not in most or most[curve].first.num_gpus < pair.first.num_gpus:
            most[curve] = pair
    return list(most.values())


def model(result: Result) -> str:
    return str(result.axes["model"]).rstrip("?")


def _value(result: Result, quantity: str) -> float:
    value = result.efficiency if quantity == "efficiency" else result.throughput
    return value or 0.0


def _names(first: Result, second: Result) -> tuple[str, tuple[str, str]]:
    """Return what both share, and what each has alone."""
    shared, own = [], ([], [])  # type: tuple[list[str], tuple[list[str], list[str]]]
    for axis in _NAMED:
        values = [result.axes.get(axis) for result in (first, second)]
        if values[0] != values[1]:
            for words, value in zip(own, values, strict=True):
                words.append(_named(axis, value))
        elif axis in ("model", "strategy", "num_gpus") or (axis == "batch_size" and values[0]):
            shared.append(_named(axis, values[0]))
    if first.environment.host != second.environment.host:
        for words, result in zip(own, (first, second), strict=True):
            words.append(f"on {result.environment.host}")
    return " ".join(shared), (", ".join(own[0]), ", ".join(own[1]))


def _named(axis: str, value: object) -> str:
    if axis == "num_gpus":
        return f"on {value}"
    if axis in ("model", "strategy", "precision"):
        return str(value).rstrip("?")
    if axis == "data":
        return f"{value} data"
    if axis == "batch_size":
        return f"batch {value}"
    return f"{axis} {value}"


def _interval_of_efficiencies(
    first: Result, second: Result
) -> tuple[float, float] | tuple[None, None]:
    """Add the widths of two speed-ups on the logarithmic scale, as of independent numbers."""
    middle = width_squared = 0.0
    for one, sign in ((first, 1), (second, -1)):
        if one.baseline is None:
            return None, None
        low, high = known_ratio_interval(one.repeats, one.baseline.repeats)
        if low is None or high is None:
            return None, None
        per_gpu = math.log(one.baseline.num_gpus / one.num_gpus)
        middle += sign * (math.log(low * high) / 2 + per_gpu)
        width_squared += (math.log(high / low) / 2) ** 2
    width = math.sqrt(width_squared)
    return math.exp(middle - width), math.exp(middle + width)
