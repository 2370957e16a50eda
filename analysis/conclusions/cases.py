"""What conclusions are drawn from: results that differ in one thing, compared as surely as their
repeats allow.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from analysis.pivot import axes_of
from analysis.results import Origin, Result
from analysis.text.numbers import number
from scalemark.records.strategies import STRATEGY_AXES
from scalemark.stats.welch import Relation, known_ratio_interval, relation_by

PUBLISHED_MARGIN = 0.02
"""Single figures of others have no interval: nearer than this they count as the same."""

STRATEGY = ("strategy", *STRATEGY_AXES)
OF_DATA = ("data", "data_dir", "distortions", "cache")
OF_PRECISION = ("precision", "loss_scale", "data_format", "batch_size")


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Two results, by images/s or by efficiency."""

    first: Result
    second: Result
    of_efficiency: bool
    ratio: float  # first / second
    low: float | None  # 95 % interval over processes; None where it is not known
    high: float | None

    @property
    def relation(self) -> Relation:
        found = relation_by(self.low, self.high)
        if found is not Relation.UNKNOWN or self.first.place.origin is not Origin.PUBLISHED:
            return found
        if abs(math.log(self.ratio)) <= math.log1p(PUBLISHED_MARGIN):
            return Relation.TIE
        return Relation.MORE if self.ratio > 1 else Relation.LESS

    @property
    def rows(self) -> tuple[Result, ...]:
        return (self.first, self.second)

    def told(self, subject: Callable[[Result], str], way: Callable[[Result], str]) -> str:
        """What both have in common, and each with its way and number, as `vgg16 on 8: batch 64 87.7
        %, batch 32 71.2 %`.
        """
        first, second = (f"{way(one)} {self._value(one)}" for one in (self.first, self.second))
        return f"{subject(self.first)}: {first}, {second}{self._sureness}"

    def _value(self, result: Result) -> str:
        return percent(result) if self.of_efficiency else number(result.throughput or 0.0)

    @property
    def _sureness(self) -> str:
        return {Relation.TIE: " (a tie)", Relation.UNKNOWN: " (a process alone cannot tell)"}.get(
            self.relation, ""
        )


def percent(result: Result) -> str:
    return f"{100 * (result.efficiency or 0.0):.1f} %"


def by_speed(first: Result, second: Result) -> Compared | None:
    """None where one has no number."""
    if not first.throughput or not second.throughput:
        return None
    low, high = known_ratio_interval(first.repeats, second.repeats)
    ratio = first.throughput / second.throughput
    return Compared(
        first=first, second=second, of_efficiency=False, ratio=ratio, low=low, high=high
    )


def by_efficiency(first: Result, second: Result) -> Compared | None:
    """None where one has none: it needs a baseline on fewer GPUs."""
    if not first.efficiency or not second.efficiency or 1 in (first.num_gpus, second.num_gpus):
        return None
    low, high = _interval_of_efficiencies(first, second)
    ratio = first.efficiency / second.efficiency
    return Compared(first=first, second=second, of_efficiency=True, ratio=ratio, low=low, high=high)


def alike(results: Iterable[Result], *free: str) -> list[list[Result]]:
    """Those of one place that differ in nothing but the free axes; two or more each."""
    groups: dict[tuple[object, ...], list[Result]] = defaultdict(list)
    for result in results:
        fixed = tuple(result.axes.get(axis) for axis in axes_of([result]) if axis not in free)
        groups[result.place.key, *fixed].append(result)
    return [of for of in groups.values() if len(of) > 1]


def with_number(results: Iterable[Result]) -> list[Result]:
    return [result for result in results if result.throughput]


def fastest(results: Sequence[Result]) -> Result | None:
    """Of those that train one model."""
    together = (result for result in with_number(results) if not result.trains_apart)
    return max(together, key=lambda result: result.throughput or 0.0, default=None)


def is_real(result: Result) -> bool:
    """Of published figures only those that say so."""
    data = str(result.axes["data"])
    return (
        data.startswith("real") if result.place.origin is Origin.PUBLISHED else data != "synthetic"
    )


def is_synthetic(result: Result) -> bool:
    return str(result.axes["data"]).startswith("synthetic")


def model(result: Result) -> str:
    return str(result.axes["model"]).rstrip("?")


def strategy(result: Result) -> str:
    return result.strategy


def on_gpus(result: Result) -> str:
    """As `vgg16 on 8`."""
    return f"{model(result)} on {result.width}"


def as_run(result: Result) -> str:
    """As `vgg16 replicated_nccl on 8 at batch size 64`."""
    batch_size = result.axes["batch_size"]
    return (
        f"{model(result)} {result.strategy} on "
        f"{result.width}{f' at batch size {batch_size}' if batch_size else ''}"
    )


def _interval_of_efficiencies(first: Result, second: Result) -> tuple[float | None, float | None]:
    """Of the ratio of two speed-ups: their widths on the logarithmic scale add up like those of
    independent numbers.
    """
    spans = []
    for one in (first, second):
        low, high = (
            known_ratio_interval(one.repeats, one.baseline.repeats)
            if one.baseline
            else (None, None)
        )
        if low is None or high is None:
            return None, None
        spans.append((math.log(low * high) / 2, math.log(high / low) / 2))
    (center, reach), (other_center, other_reach) = spans
    scale = math.log((second.num_gpus / _base(second)) / (first.num_gpus / _base(first)))
    middle, wide = center - other_center + scale, math.hypot(reach, other_reach)
    return math.exp(middle - wide), math.exp(middle + wide)


def _base(result: Result) -> int:
    return result.baseline.num_gpus if result.baseline else 1
