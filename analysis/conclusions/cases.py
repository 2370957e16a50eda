"""Results that differ in one thing, compared by throughput or by efficiency."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from analysis.results import Origin, Result, by_item
from analysis.tables.axes import axes_of
from analysis.text.numbers import number
from analysis.text.ties import SINGLE_RUN
from scalemark.records.strategies import STRATEGY_AXES
from scalemark.stats.welch import Relation, known_ratio_interval, relation_by

# Published figures have no interval: figures closer than this count as the same.
PUBLISHED_MARGIN = 0.02

STRATEGY = ("strategy", *STRATEGY_AXES)
_DOUBT = {Relation.TIE: " (a tie)", Relation.UNKNOWN: f" ({SINGLE_RUN})"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Two results, and the ratio of their throughputs or efficiencies."""

    first: Result
    second: Result
    of_efficiency: bool
    ratio: float  # first / second
    low: float | None  # 95 % CI over processes; None where it is not known
    high: float | None

    @property
    def relation(self) -> Relation:
        found = relation_by(self.low, self.high)
        if found is not Relation.UNKNOWN or self.first.environment.origin is not Origin.PUBLISHED:
            return found
        if abs(math.log(self.ratio)) <= math.log1p(PUBLISHED_MARGIN):
            return Relation.TIE
        return Relation.MORE if self.ratio > 1 else Relation.LESS

    def text(self, subject: Callable[[Result], str], way: Callable[[Result], str]) -> str:
        """Return both in words, as `vgg16 on 8: batch 64 87.7 %, batch 32 71.2 %`."""
        value = percent if self.of_efficiency else throughput_text
        first, second = (f"{way(one)} {value(one)}" for one in (self.first, self.second))
        return f"{subject(self.first)}: {first}, {second}{_DOUBT.get(self.relation, '')}"


def percent(result: Result) -> str:
    return f"{100 * (result.efficiency or 0.0):.1f} %"


def throughput_text(result: Result) -> str:
    return number(result.throughput or 0.0)


def by_speed(first: Result | None, second: Result | None) -> Compared | None:
    """Compare throughputs; None where one has no number."""
    if not (first and second and first.throughput and second.throughput):
        return None
    low, high = known_ratio_interval(first.repeats, second.repeats)
    ratio = first.throughput / second.throughput
    return Compared(
        first=first, second=second, of_efficiency=False, ratio=ratio, low=low, high=high
    )


def by_efficiency(first: Result, second: Result) -> Compared | None:
    """Compare efficiencies; None where one has none, for which it needs a baseline."""
    if not first.efficiency or not second.efficiency or 1 in (first.num_gpus, second.num_gpus):
        return None
    low, high = _interval_of_efficiencies(first, second)
    ratio = first.efficiency / second.efficiency
    return Compared(first=first, second=second, of_efficiency=True, ratio=ratio, low=low, high=high)


def alike(results: Iterable[Result], *free: str) -> list[list[Result]]:
    """Return groups of two or more results of one environment that differ in the free axes
    alone."""
    groups: dict[tuple[object, ...], list[Result]] = defaultdict(list)
    for result in results:
        # with the strategy, the free axes that it is the name of
        varied = {*free, *result.named_axes} if "strategy" in free else set(free)
        fixed = tuple(result.axes.get(axis) for axis in axes_of([result]) if axis not in varied)
        groups[result.environment.key, *fixed].append(result)
    found = [of for group in groups.values() for of in by_item(group)]
    return [of for of in found if len(of) > 1]


def on_most_gpus(compared: Iterable[Compared]) -> list[Compared]:
    """Keep of each curve the comparison on the most GPUs."""
    most: dict[tuple[object, ...], Compared] = {}
    for one in compared:
        curve = (one.first.environment.key, one.first.curve, one.first.hosts)
        if curve not in most or most[curve].first.num_gpus < one.first.num_gpus:
            most[curve] = one
    return list(most.values())


def fastest(results: Iterable[Result]) -> Result | None:
    """Return the fastest of those whose replicas train one model together."""
    able = [one for one in results if one.throughput and not one.trains_apart]
    return max(able, key=lambda one: one.throughput or 0.0, default=None)


def is_real(result: Result) -> bool:
    """Published figures count only where their source says so."""
    data = str(result.axes["data"])
    if result.environment.origin is Origin.PUBLISHED:
        return data.startswith("real")
    return data != "synthetic"


def is_synthetic(result: Result) -> bool:
    return str(result.axes["data"]).startswith("synthetic")


def model(result: Result) -> str:
    return str(result.axes["model"]).rstrip("?")


def strategy(result: Result) -> str:
    return result.strategy


def on_gpus(result: Result) -> str:
    """Return `vgg16 on 8`."""
    return f"{model(result)} on {result.width}"


def as_run(result: Result) -> str:
    """Return `vgg16 replicated_nccl on 8 at batch size 64`."""
    batch_size = result.axes["batch_size"]
    batch = f" at batch size {batch_size}" if batch_size else ""
    return f"{model(result)} {result.strategy} on {result.width}{batch}"


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
