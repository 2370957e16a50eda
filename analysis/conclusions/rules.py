"""The rules of published claims as a table: which pairs of results each statement compares."""

from __future__ import annotations

import csv
import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import pairwise
from typing import Any

from analysis.labels import axes_of
from analysis.results import Result, by_item, examples_per_step
from scalemark.abilities import precision_of
from scalemark.records.references import Origin
from scalemark.records.trial import STRATEGY_AXES, unusual_axes
from scalemark.stats.welch import Relation, known_ratio_interval, relation_by
from simulator.costs.networks import network

PUBLISHED_MARGIN = 0.02
"""Published figures have no interval: figures closer than this count as the same."""

_NVLINK = "SXM|DGX|NVLink"  # in the name of a machine
# MB of gradients per GFLOP of one image, forward and backward: between ResNet-152 (3.6) and the
# next of the article's models, VGG-16
_FEW_PARAMETERS = 5.0
_ORDER = ("inception3", "resnet50", "resnet152", "vgg16", "alexnet")
_LITTLE = ("inception3", "resnet50", "resnet152")  # real data cost them little
_STRATEGY = ("strategy", *STRATEGY_AXES)
_OF_DATA = ("data", "data_dir", "distortions", "cache")
_OF_SOURCE = ("model", "batch_size", "data", "precision", "num_gpus", "hosts")
_OF_PRECISION = ("precision", "loss_scale", "data_format", "batch_size")
# axes that change no efficiency, or that a model alone has
_NEVER_UNUSUAL = ("hosts", "data_dir", "loss_scale", "profile", "seq_len")
# what may make two results of a pair differ, in the order in which it is named
_NAMED = (
    *("model", "strategy", "num_gpus", "hosts", "batch_size", "precision", "data"),
    *("staged_vars", "gradient_repacking", "compact_gradients"),
)

Results = Sequence[Result]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contrast:
    """Two results, and the ratio of their values."""

    first: Result
    second: Result
    quantity: str  # of the values: a throughput's unit, efficiency, or share of synthetic
    values: tuple[float, float]
    low: float | None  # 95 % CI of the ratio over processes; None where it is not known
    high: float | None
    holds: bool | None = None  # of a statement; None: a tie, or single runs

    @property
    def ratio(self) -> float:
        return self.values[0] / self.values[1]

    def relation(self, share: float = 1.0) -> Relation:
        """Compare the first with a share of the second."""
        if self.low is not None and self.high is not None:
            return relation_by(self.low / share, self.high / share)
        if self.first.environment.origin is not Origin.PUBLISHED:
            return Relation.UNKNOWN
        ratio = self.ratio / share
        if abs(math.log(ratio)) <= math.log1p(PUBLISHED_MARGIN):
            return Relation.TIE
        return Relation.MORE if ratio > 1 else Relation.LESS

    def names(self) -> tuple[str, str, str]:
        """Return what both results have, as `vgg16 on 8`, and what each has alone."""
        shared, own_first, own_second = [], [], []
        for axis in _NAMED:
            value, other = self.first.axes.get(axis), self.second.axes.get(axis)
            if value != other:
                own_first.append(_named(axis, value))
                own_second.append(_named(axis, other))
            elif axis in ("model", "strategy", "num_gpus") or (axis == "batch_size" and value):
                shared.append(_named(axis, value))
        hosts = self.first.environment.host, self.second.environment.host
        if hosts[0] != hosts[1]:
            own_first.append(f"on {hosts[0]}")
            own_second.append(f"on {hosts[1]}")
        return " ".join(shared), ", ".join(own_first), ", ".join(own_second)

    def facts(self) -> dict[str, Any]:
        """Return what --json prints of it."""
        shared, first, second = self.names()
        return {
            "shared": shared,
            "first": first,
            "second": second,
            "quantity": self.quantity,
            "first_value": self.values[0],
            "second_value": self.values[1],
            "ratio": self.ratio,
            "low": self.low,
            "high": self.high,
            "relation": self.relation(),
            "holds": self.holds,
            "host": self.first.environment.host,
            "trials": (self.first.trial_id, self.second.trial_id),
        }


def _named(axis: str, value: object) -> str:
    if axis in ("model", "strategy", "precision"):
        return str(value).rstrip("?")
    words = {"num_gpus": f"on {value}", "data": f"{value} data", "batch_size": f"batch {value}"}
    return words.get(axis, f"{axis} {value}")


Contrasts = Iterable[Contrast | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A row of `store/published/statements.csv`. Of results that differ in one axis alone, the
    fastest of one kind reaches more (or less) than a share of the fastest of another.
    """

    claim: str  # its id
    says: str
    by: str  # the axis that tells the kinds apart
    # patterns: of its values, of a machine's name, of numbers of GPUs
    first: str
    second: str  # empty: what the first does not match
    machine: str
    gpus: str
    parameters: str  # per operation of the model: few or many; empty: any model
    pairs: str  # a name of _PAIRS
    wanted: Relation  # of the first to `share` of the second
    share: float
    tie_holds: bool

    def contrasts(self, results: Results) -> Contrasts:
        """Return the pairs that speak for or against it; None for a pair without a number."""
        if self.pairs:
            return _PAIRS[self.pairs](results)
        chosen = []
        for result in _on(results, self.machine):
            if re.fullmatch(self.gpus, str(result.num_gpus)) and self._is_about(result):
                chosen.append(result)
        free = _STRATEGY if self.by == "strategy" else (self.by,)
        return against_fastest(chosen, self.by, self.first, self.second, free)

    def _is_about(self, result: Result) -> bool:
        if not self.parameters:
            return True
        size = mb_per_gflop(result)
        return size is not None and (size < _FEW_PARAMETERS) is (self.parameters == "few")

    def holds(self, contrast: Contrast) -> bool | None:
        """Return None for a tie that decides nothing, and for single runs."""
        relation = contrast.relation(self.share)
        if relation is Relation.UNKNOWN:
            return None
        if relation is Relation.TIE:
            return True if self.tie_holds else None
        return relation is self.wanted


@cache
def statements() -> tuple[Statement, ...]:
    """Return the statements of all claims, in their order."""
    made = []
    for row in read_published("statements.csv"):
        typed: dict[str, Any] = dict(row)
        typed["wanted"] = Relation(row["wanted"])
        typed["share"] = float(row["share"])
        typed["tie_holds"] = bool(row["tie_holds"])
        made.append(Statement(**typed))
    return tuple(made)


def read_published(name: str) -> list[dict[str, str]]:
    """Return the rows of a file that is shipped with the store."""
    text = files("store").joinpath("published", name).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def by_speed(first: Result | None, second: Result | None) -> Contrast | None:
    """Compare throughputs; None where one has no number."""
    if not (first and second and first.throughput and second.throughput):
        return None
    low, high = known_ratio_interval(first.repeats, second.repeats)
    values = first.throughput, second.throughput
    return Contrast(
        first=first, second=second, quantity=first.unit, values=values, low=low, high=high
    )


def by_efficiency(first: Result, second: Result) -> Contrast | None:
    """Compare efficiencies; None where one has none, for which it needs a baseline."""
    values = first.efficiency, second.efficiency
    if not values[0] or not values[1] or 1 in (first.num_gpus, second.num_gpus):
        return None
    if first.baseline is None or second.baseline is None:
        return None
    sides = ((first.repeats, first.baseline.repeats), (second.repeats, second.baseline.repeats))
    return _of_shares(first, second, "efficiency", (values[0], values[1]), sides)


def _of_shares(
    first: Result,
    second: Result,
    quantity: str,
    values: tuple[float, float],
    sides: Sequence[tuple[Sequence[float], Sequence[float]]],
) -> Contrast:
    """Compare two ratios, each of the repeats of two results: the widths of their intervals add up
    on the logarithmic scale, as those of independent numbers.
    """
    width_squared: float | None = 0.0
    for repeats, of_base in sides:
        low, high = known_ratio_interval(repeats, of_base)
        if low is None or high is None or width_squared is None:
            width_squared = None
        else:
            width_squared += (math.log(high / low) / 2) ** 2
    low, high = None, None
    if width_squared is not None:
        width, ratio = math.exp(math.sqrt(width_squared)), values[0] / values[1]
        low, high = ratio / width, ratio * width
    return Contrast(
        first=first, second=second, quantity=quantity, values=values, low=low, high=high
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
    parts = []
    for group in groups.values():
        parts += [part for part in by_item(group) if len(part) > 1]
    return parts


def _fastest(results: Iterable[Result]) -> Result | None:
    """Return the fastest of those whose replicas train one model together."""
    able = [result for result in results if result.throughput and not result.trains_apart]
    return max(able, key=lambda result: result.throughput or 0.0, default=None)


def against_fastest(
    results: Iterable[Result], by: str, first: str, second: str, free: Sequence[str]
) -> Iterator[Contrast]:
    """Compare the fastest of two kinds in each group that differs in the free axes alone. Patterns
    of the values of an axis name the kinds; the second is all others without a pattern.
    """
    for group in alike(results, *free):
        of_first, of_second = [], []
        for result in group:
            value = str(result.axes.get(by))
            if re.fullmatch(first, value):
                of_first.append(result)
            if re.fullmatch(second, value) if second else not re.fullmatch(first, value):
                of_second.append(result)
        contrast = by_speed(_fastest(of_first), _fastest(of_second))
        if contrast:
            yield contrast


def _on_most_gpus(contrasts: Contrasts) -> list[Contrast]:
    """Keep of each curve the contrast on the most GPUs."""
    most: dict[tuple[object, ...], Contrast] = {}
    for contrast in contrasts:
        if contrast is None:
            continue
        first = contrast.first
        curve = (first.environment.key, first.curve, first.hosts)
        if curve not in most or most[curve].first.num_gpus < first.num_gpus:
            most[curve] = contrast
    return list(most.values())


def _spread_variables(results: Results) -> Contrasts:
    """Compare within a machine where both were run; else two machines of one source."""
    here = [result for result in _on(results, "K80") if result.num_gpus == 8]
    same = list(against_fastest(here, "strategy", "ps_gpu", "ps_cpu", _STRATEGY))
    if same:
        return same
    groups: dict[tuple[object, ...], list[Result]] = defaultdict(list)
    for result in here:
        fixed = tuple(result.axes.get(axis) for axis in _OF_SOURCE)
        groups[result.environment.versions, *fixed].append(result)
    contrasts = []
    for group in groups.values():
        on_gpus = _fastest(result for result in group if result.strategy == "ps_gpu")
        on_cpu = _fastest(result for result in group if result.strategy == "ps_cpu")
        contrasts.append(by_speed(on_gpus, on_cpu))
    return contrasts


def _slower_precision(results: Results) -> Contrasts:
    """Compare fp32 or tf32 with what is faster, each at its own batch, both with or without XLA."""
    by_compiler: dict[bool, list[Result]] = {False: [], True: []}
    for result in results:
        if _product_bits(result):
            by_compiler["+XLA" in str(result.axes["precision"])].append(result)
    contrasts = []
    for known in by_compiler.values():
        for group in alike(known, *_OF_PRECISION):
            bits = [_product_bits(result) for result in group]
            slow = [result for result in group if _product_bits(result) == max(bits)]
            fast = [result for result in group if _product_bits(result) == min(bits)]
            if max(bits) > min(bits):
                formats = set(map(_data_format, slow)) & set(map(_data_format, fast))
                pair = (_largest_batch(slow, formats), _largest_batch(fast, formats))
                contrasts.append(by_efficiency(*pair))
    return _on_most_gpus(contrasts)


def _larger_batch(results: Results) -> Contrasts:
    known = []
    for result in results:
        if result.axes["batch_size"] and result.axes.get("scaling") != "strong":
            known.append(result)
    contrasts = []
    for group in alike(known, "batch_size"):
        small, *_, large = sorted(group, key=_batch)
        contrasts.append(by_efficiency(large, small))
    return _on_most_gpus(contrasts)


def _order_of_models(results: Results) -> Contrasts:
    """Compare the most efficient result of each model, at its largest batch, with the next's."""
    grouped: dict[tuple[object, ...], list[Result]] = defaultdict(list)
    for result in _on(_on(results, "P100"), _NVLINK):
        if result.num_gpus != 8 or result.axes["precision"] != "fp32":
            continue
        if str(result.axes["data"]).startswith("synthetic") and not result.trains_apart:
            fixed: list[object] = [result.axes["data"]]
            if result.environment.origin.is_ours:  # sources report nothing unusual
                names = [axis for axis in unusual_axes(result.axes) if axis not in _NEVER_UNUSUAL]
                fixed += [(axis, result.axes[axis]) for axis in names]
            grouped[result.environment.key, result.hosts, *fixed].append(result)
    for group in grouped.values():
        by_model = {_model(result): result for result in sorted(group, key=_batch_and_efficiency)}
        for name, other in pairwise([name for name in _ORDER if name in by_model]):
            yield by_efficiency(by_model[name], by_model[other])


def _real_and_synthetic(results: Results) -> Iterator[Contrast]:
    """Compare real data with synthetic data; published figures say which they used."""
    known = _on(results, "P100")
    return against_fastest(known, "data", r"(?!synthetic)\w.*", "synthetic.*", _OF_DATA)


def _lost_to_real_data(results: Results) -> Contrasts:
    """Compare what real data leave of the speed of other models with what they leave of VGG16's."""
    by_batch: dict[tuple[object, ...], dict[str, Contrast]] = defaultdict(dict)
    for contrast in _real_and_synthetic(results):
        first = contrast.first
        if first.num_gpus == 8:
            key = (first.environment.key, first.axes["batch_size"], first.axes["precision"])
            by_batch[key][_model(first)] = contrast
    for by_model in by_batch.values():
        for name in _LITTLE:
            if "vgg16" in by_model and name in by_model:
                pair = (by_model["vgg16"], by_model[name])
                shares = (pair[0].ratio, pair[1].ratio)
                sides = [(each.first.repeats, each.second.repeats) for each in pair]
                results_of = (pair[0].first, pair[1].first)
                yield _of_shares(*results_of, "share of synthetic", shares, sides)


def _alexnet_on_real_data(results: Results) -> Contrasts:
    contrasts = _real_and_synthetic(results)
    return _on_most_gpus(each for each in contrasts if _model(each.first) == "alexnet")


def _gradients_in_packs(results: Results) -> Contrasts:
    """Compare packs with one message per tensor, with the same compaction where there is one."""
    known = [result for result in results if "gradient_repacking" in result.axes]
    known = [result for result in known if result.num_gpus > 1]
    for group in alike(known, "gradient_repacking", "compact_gradients", "telling"):
        plain = [result for result in group if not result.axes["gradient_repacking"]]
        for packed in group:
            if packed.axes["gradient_repacking"]:
                compact = bool(packed.axes["compact_gradients"])
                same = [each for each in plain if bool(each.axes["compact_gradients"]) is compact]
                yield by_speed(packed, _fastest(same or plain))


def mb_per_gflop(result: Result) -> float | None:
    """Return the gradients that a model shares per operation of one example; None of an unknown
    model, and of an image too small for its layers.
    """
    sizes = (result.axes.get(axis) for axis in ("image_px", "num_classes", "seq_len"))
    try:
        layers = network(_model(result), *sizes)
    except ValueError:
        return None
    return (layers.num_parameters * 4 / 1e6) / (3 * layers.forward_flops / 1e9)


def _on(results: Iterable[Result], machine: str) -> list[Result]:
    pattern = re.compile(machine, re.IGNORECASE)
    return [result for result in results if pattern.search(result.environment.machine)]


def _model(result: Result) -> str:
    return str(result.axes["model"]).rstrip("?")


def _batch(result: Result) -> int:
    return int(result.axes["batch_size"] or 0)


def _batch_and_efficiency(result: Result) -> tuple[int, float]:
    return examples_per_step(result) // result.num_gpus, result.efficiency or 0.0


def _largest_batch(results: Results, data_formats: set[str]) -> Result:
    """Return the result of the largest batch, in one of these data formats if there is any."""
    able = [result for result in results if _data_format(result) in data_formats] or results
    return max(able, key=lambda result: (_batch(result), _data_format(result)))


def _data_format(result: Result) -> str:
    return str(result.axes.get("data_format", ""))  # sources report it in notes alone


def _product_bits(result: Result) -> int:
    """The fewer, the faster; 0 of a precision that is not one of ours."""
    name = str(result.axes["precision"]).partition("+")[0].rstrip("?")
    abilities = precision_of(name)
    return abilities.product_bits if abilities else 0


_PAIRS: dict[str, Callable[[Results], Contrasts]] = {
    "spread_variables": _spread_variables,
    "slower_precision": _slower_precision,
    "larger_batch": _larger_batch,
    "order_of_models": _order_of_models,
    "lost_to_real_data": _lost_to_real_data,
    "alexnet_on_real_data": _alexnet_on_real_data,
    "gradients_in_packs": _gradients_in_packs,
}
"""Other pairs than the fastest of two kinds, by their names in `statements.csv`."""
