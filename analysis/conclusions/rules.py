"""The rule of each published claim: its statements, and which pairs of results each compares.

RULES has them by the ids of `store/published/conclusions.csv`.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

from analysis.results import Result, by_item, examples_per_step
from analysis.tables.axes import axes_of
from scalemark.abilities import precision_of
from scalemark.records.references import Origin
from scalemark.records.trial import STRATEGY_AXES, unusual_axes
from scalemark.stats.welch import Relation, known_ratio_interval, relation_by
from simulator.costs.networks import network

PUBLISHED_MARGIN = 0.02
"""Published figures have no interval: figures closer than this count as the same."""

_MOST = 1_000_000  # GPUs
_GOOD = 0.85  # of the fastest strategy
_NOT_BAD = 0.75
_INPUT_BOUND = 0.9  # real data over synthetic, below
_SATURATED = 1.5  # throughput of twice the hosts, below
_NVLINK = "SXM|DGX|NVLink"  # in the name of a machine
_PCIE_P100 = rf"^(?!.*({_NVLINK})).*P100"
_OF_GUIDE = "P100|Titan X|M40"
_SEVERAL, _FROM_4, _FROM_8 = range(2, _MOST), range(4, _MOST), range(8, _MOST)
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

Results = Sequence[Result]
IsWanted = Callable[[Result], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contrast:
    """Two results, and the ratio of their values."""

    first: Result
    second: Result
    quantity: str  # of the values: a throughput's unit, efficiency, or share of synthetic
    values: tuple[float, float]
    low: float | None  # 95 % CI of the ratio over processes; None where it is not known
    high: float | None

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


Contrasts = Iterable[Contrast | None]


@dataclass(frozen=True, slots=True)
class Statement:
    """One of the statements that a claim makes: a row of RULES."""

    says: str
    contrasts: Callable[[Results], Contrasts]
    wanted: Relation = Relation.MORE  # of the first to `share` of the second
    share: float = 1.0
    tie_holds: bool = False

    def holds(self, contrast: Contrast) -> bool | None:
        """Return None for a tie that decides nothing, and for single runs."""
        relation = contrast.relation(self.share)
        if relation is Relation.UNKNOWN:
            return None
        if relation is Relation.TIE:
            return True if self.tie_holds else None
        return relation is self.wanted


def by_speed(first: Result | None, second: Result | None) -> Contrast | None:
    """Compare throughputs; None where one has no number."""
    if not (first and second and first.throughput and second.throughput):
        return None
    low, high = known_ratio_interval(first.repeats, second.repeats)
    return Contrast(
        first=first,
        second=second,
        quantity=first.unit,
        values=(first.throughput, second.throughput),
        low=low,
        high=high,
    )


def by_efficiency(first: Result, second: Result) -> Contrast | None:
    """Compare efficiencies; None where one has none, for which it needs a baseline."""
    values = first.efficiency, second.efficiency
    if not values[0] or not values[1] or 1 in (first.num_gpus, second.num_gpus):
        return None
    sides = []
    for result in (first, second):
        if result.baseline is None:
            return None
        sides.append((result.repeats, result.baseline.repeats))
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
    contrast = Contrast(
        first=first, second=second, quantity=quantity, values=values, low=None, high=None
    )
    width_squared = 0.0
    for repeats, of_base in sides:
        low, high = known_ratio_interval(repeats, of_base)
        if low is None or high is None:
            return contrast
        width_squared += (math.log(high / low) / 2) ** 2
    width = math.exp(math.sqrt(width_squared))
    return replace(contrast, low=contrast.ratio / width, high=contrast.ratio * width)


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


def fastest(results: Iterable[Result], is_wanted: IsWanted | None = None) -> Result | None:
    """Return the fastest of those whose replicas train one model together."""
    best: Result | None = None
    for result in results:
        is_able = result.throughput and not result.trains_apart
        if not is_able or (is_wanted is not None and not is_wanted(result)):
            continue
        if best is None or (result.throughput or 0.0) > (best.throughput or 0.0):
            best = result
    return best


def against_fastest(
    results: Iterable[Result],
    is_first: IsWanted,
    is_second: IsWanted | None = None,
    free: Sequence[str] = _STRATEGY,
) -> Iterator[Contrast]:
    """Compare the fastest of the first kind with the fastest of the second, in each group that
    differs in the free axes alone; the second kind is all others without one.
    """
    is_other = is_second or (lambda result: not is_first(result))
    for group in alike(results, *free):
        contrast = by_speed(fastest(group, is_first), fastest(group, is_other))
        if contrast:
            yield contrast


def on_most_gpus(contrasts: Contrasts) -> list[Contrast]:
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


def _pairs(
    is_first: IsWanted,
    is_second: IsWanted | None = None,
    *,
    machine: str = "",
    counts: range = _SEVERAL,
    are_few: bool | None = None,
) -> Callable[[Results], Contrasts]:
    """Compare the fastest of two kinds of strategies on machines of such a name, on such numbers of
    GPUs, for models of few or of many parameters per operation.
    """

    def pairs(results: Results) -> Contrasts:
        here = [result for result in _on(results, machine) if result.num_gpus in counts]
        return against_fastest(_of_parameters(here, are_few), is_first, is_second)

    return pairs


def _spread_variables(results: Results) -> Contrasts:
    """Compare within a machine where both were run; else two machines of one source."""
    is_on_gpus, is_on_cpu = _is_strategy("ps_gpu"), _is_strategy("ps_cpu")
    here = [result for result in _on(results, "K80") if result.num_gpus == 8]
    same = list(against_fastest(here, is_on_gpus, is_on_cpu))
    if same:
        return same
    groups: dict[tuple[object, ...], list[Result]] = defaultdict(list)
    for result in here:
        fixed = tuple(result.axes.get(axis) for axis in _OF_SOURCE)
        groups[result.environment.versions, *fixed].append(result)
    return [
        by_speed(fastest(group, is_on_gpus), fastest(group, is_on_cpu)) for group in groups.values()
    ]


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
    return on_most_gpus(contrasts)


def _larger_batch(results: Results) -> Contrasts:
    known = []
    for result in results:
        if result.axes["batch_size"] and result.axes.get("scaling") != "strong":
            known.append(result)
    contrasts = []
    for group in alike(known, "batch_size"):
        small, *_, large = sorted(group, key=_batch)
        contrasts.append(by_efficiency(large, small))
    return on_most_gpus(contrasts)


def _many_gpus(results: Results) -> Contrasts:
    for by_model in _most_efficient([result for result in results if result.num_gpus >= 64]):
        for name in ("inception3", "resnet101"):
            if "vgg16" in by_model and name in by_model:
                yield by_efficiency(by_model[name], by_model["vgg16"])


def _order_of_models(results: Results) -> Contrasts:
    here = []
    for result in _on(_on(results, "P100"), _NVLINK):
        if result.num_gpus == 8 and result.axes["precision"] == "fp32" and _is_synthetic(result):
            here.append(result)
    for by_model in _most_efficient(here):
        for name, other in pairwise([name for name in _ORDER if name in by_model]):
            yield by_efficiency(by_model[name], by_model[other])


def _real_and_synthetic(results: Results) -> Iterator[Contrast]:
    return against_fastest(_on(results, "P100"), _is_real, _is_synthetic, _OF_DATA)


def _lost_to_real_data(results: Results) -> Contrasts:
    """Compare what real data leave of the speed of other models with what they leave of VGG16's."""
    by_batch: dict[tuple[object, ...], dict[str, Contrast]] = defaultdict(dict)
    for contrast in _real_and_synthetic(results):
        first = contrast.first
        if first.num_gpus == 8:
            key = (first.environment.key, first.axes["batch_size"], first.axes["precision"])
            by_batch[key][model(first)] = contrast
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
    return on_most_gpus(each for each in contrasts if model(each.first) == "alexnet")


def _staged_variables(results: Results) -> Contrasts:
    known = [result for result in _on_several(results) if "staged_vars" in result.axes]
    for group in alike(known, "staged_vars"):
        by_value = {bool(result.axes["staged_vars"]): result for result in group}
        yield by_speed(by_value.get(True), by_value.get(False))


def _gradients_in_packs(results: Results) -> Contrasts:
    """Compare packs with one message per tensor, with the same compaction where there is one."""
    known = [result for result in _on_several(results) if "gradient_repacking" in result.axes]
    for group in alike(known, "gradient_repacking", "compact_gradients", "telling"):
        plain = [result for result in group if not result.axes["gradient_repacking"]]
        for packed in group:
            if packed.axes["gradient_repacking"]:
                compact = bool(packed.axes["compact_gradients"])
                same = [each for each in plain if bool(each.axes["compact_gradients"]) is compact]
                yield by_speed(packed, fastest(same or plain))


def _many_servers(results: Results) -> Contrasts:
    """Compare parameter servers on 32 hosts or more with those on twice as many."""
    curves: dict[tuple[object, ...], list[Result]] = defaultdict(list)
    for result in sorted(results, key=_hosts):
        is_server = result.axes["variable_update"] == "distributed_parameter_server"
        if result.throughput and is_server and _hosts(result) >= 32:
            per_host = result.num_gpus // _hosts(result)
            key = (result.environment.key, model(result), result.axes["batch_size"], per_host)
            curves[key].append(result)
    for curve in curves.values():
        for less, more in pairwise(curve):
            if _hosts(more) >= 2 * _hosts(less):
                yield by_speed(more, less)


def _is_strategy(name: str) -> IsWanted:
    return lambda result: result.strategy == name


def _is_replicated(result: Result) -> bool:
    return bool(result.axes["variable_update"] == "replicated")


def _is_nccl(result: Result) -> bool:
    return _is_replicated(result) and result.axes["all_reduce"] == "nccl"


def _is_copied(result: Result) -> bool:
    """Return whether TensorFlow's own copies carry variables or gradients."""
    is_server = result.axes["variable_update"] == "parameter_server"
    return bool(is_server and result.axes["all_reduce"] == "none") or _is_gathered(result)


def _is_gathered(result: Result) -> bool:
    """Return whether every GPU has the variables, and copied gradients meet on one device."""
    return _is_replicated(result) and result.axes["all_reduce"] in ("none", "pscpu", "psgpu")


def _is_real(result: Result) -> bool:
    """Published figures count only where their source says so."""
    data = str(result.axes["data"])
    if result.environment.origin is Origin.PUBLISHED:
        return data.startswith("real")
    return data != "synthetic"


def _is_synthetic(result: Result) -> bool:
    return str(result.axes["data"]).startswith("synthetic")


def _reaching(
    name: str,
    share: float,
    pairs: Callable[..., Callable[[Results], Contrasts]],
    is_rival: IsWanted = lambda _: True,
) -> Statement:
    """State that a strategy reaches a share of the fastest of its rivals."""
    says = f"{name} reaches {share:.0%} of the fastest"
    return Statement(says, pairs(_is_strategy(name), is_rival), share=share, tie_holds=True)


_few_on_pcie = partial(_pairs, machine=_PCIE_P100, counts=range(8, 9), are_few=True)
_many_on_pcie = partial(_pairs, machine=_PCIE_P100, counts=range(8, 9), are_few=False)
_LESS = Relation.LESS

RULES: dict[str, tuple[Statement, ...]] = {
    "C1": (
        Statement(
            "on fewer than 8 GPUs copies beat NCCL",
            _pairs(_is_nccl, _is_copied, counts=range(2, 8)),
            _LESS,
        ),
        Statement("on 8 GPUs NCCL beats copies", _pairs(_is_nccl, _is_copied, counts=_FROM_8)),
    ),
    "C2": (
        Statement(
            "with few parameters per operation a parameter server on the CPU is the fastest",
            _pairs(_is_strategy("ps_cpu"), machine=_OF_GUIDE, counts=_FROM_4, are_few=True),
        ),
        Statement(
            "with many, replicated with NCCL is",
            _pairs(_is_nccl, machine=_OF_GUIDE, counts=_FROM_4, are_few=False),
        ),
    ),
    "C3": (
        Statement("variables spread over the GPUs beat variables on the CPU", _spread_variables),
    ),
    "C4": (
        _reaching("ps_cpu", _GOOD, _few_on_pcie),
        Statement(
            "replicated_pscpu is not slower than any other",
            _few_on_pcie(_is_strategy("replicated_pscpu")),
            tie_holds=True,
        ),
    ),
    "C5": (
        _reaching("replicated_nccl", _GOOD, _many_on_pcie),
        _reaching("replicated_pscpu", _GOOD, _many_on_pcie),
        _reaching("ps_cpu", _NOT_BAD, _many_on_pcie),
    ),
    "C6": (
        Statement(
            "with replicated variables, on 2 and 4 GPUs copies beat NCCL",
            _pairs(_is_nccl, _is_gathered, counts=range(2, 6, 2)),
            _LESS,
        ),
        _reaching("replicated_nccl", _GOOD, partial(_pairs, counts=range(8, 9)), _is_replicated),
    ),
    "C7": (Statement("the slower precision has the higher efficiency", _slower_precision),),
    "C8": (Statement("the larger batch has the higher efficiency", _larger_batch),),
    "C9": (
        Statement(
            "on 64 GPUs or more Inception V3 and ResNet-101 scale better than VGG-16", _many_gpus
        ),
    ),
    "C10": (Statement(f"they scale in the order {', '.join(_ORDER)}", _order_of_models),),
    "C11": (
        Statement("on 8 GPUs VGG16 loses more than the others", _lost_to_real_data, _LESS),
        Statement(
            "AlexNet is bound by its input on the most GPUs",
            _alexnet_on_real_data,
            _LESS,
            share=_INPUT_BOUND,
        ),
    ),
    "C12": (Statement("staged variables are faster", _staged_variables),),
    "C13": (Statement("packs are faster than tensor by tensor", _gradients_in_packs),),
    "C14": (
        Statement(
            f"from 32 hosts on twice as many reach less than {_SATURATED:g}x",
            _many_servers,
            _LESS,
            share=_SATURATED,
        ),
    ),
}


def model(result: Result) -> str:
    return str(result.axes["model"]).rstrip("?")


def mb_per_gflop(result: Result) -> float | None:
    """Return the gradients that a model shares per operation of one example; None of an unknown
    model, and of an image too small for its layers.
    """
    sizes = (result.axes.get(axis) for axis in ("image_px", "num_classes", "seq_len"))
    try:
        layers = network(model(result), *sizes)
    except ValueError:
        return None
    return (layers.num_parameters * 4 / 1e6) / (3 * layers.forward_flops / 1e9)


def _most_efficient(results: Results) -> list[dict[str, Result]]:
    """Return the most efficient result of each model at its largest batch, for each environment,
    number of hosts, data, precision and unusual setting, on the most GPUs that two models ran on.
    """
    grouped: dict[tuple[object, ...], dict[int, list[Result]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for result in results:
        if not result.efficiency or result.trains_apart or result.num_gpus == 1:
            continue
        fixed = [result.axes["data"], result.axes["precision"], _is_synthetic(result)]
        if result.environment.origin.is_ours:  # sources report nothing unusual
            names = [axis for axis in unusual_axes(result.axes) if axis not in _NEVER_UNUSUAL]
            fixed += [(axis, result.axes[axis]) for axis in names]
        grouped[result.environment.key, result.hosts, *fixed][result.num_gpus].append(result)
    best = []
    for by_count in grouped.values():
        able = [num for num, group in by_count.items() if len(set(map(model, group))) > 1]
        if able:
            ordered = sorted(by_count[max(able)], key=_preference)
            best.append({model(result): result for result in ordered})  # the last is preferred
    return best


def _preference(result: Result) -> tuple[int, float]:
    return examples_per_step(result) // result.num_gpus, result.efficiency or 0.0


def _on_several(results: Results) -> list[Result]:
    return [result for result in results if result.num_gpus > 1]


def _on(results: Iterable[Result], gpus: str) -> list[Result]:
    pattern = re.compile(gpus, re.IGNORECASE)
    return [result for result in results if pattern.search(result.environment.machine)]


def _of_parameters(results: list[Result], are_few: bool | None) -> list[Result]:
    """Return those of models with few, or with many, parameters per operation; None: all."""
    if are_few is None:
        return results
    chosen = []
    for result in results:
        share = mb_per_gflop(result)
        if share is not None and (share < _FEW_PARAMETERS) is are_few:
            chosen.append(result)
    return chosen


def _largest_batch(results: Results, data_formats: set[str]) -> Result:
    """Return the one of the largest batch, in one of these data formats if there is any."""
    able = [result for result in results if _data_format(result) in data_formats] or results
    return max(able, key=lambda result: (_batch(result), _data_format(result)))


def _batch(result: Result) -> int:
    return int(result.axes["batch_size"] or 0)


def _data_format(result: Result) -> str:
    return str(result.axes.get("data_format", ""))  # sources report it in notes alone


def _product_bits(result: Result) -> int:
    """The fewer, the faster; 0 of a precision that is not one of ours."""
    name = str(result.axes["precision"]).partition("+")[0].rstrip("?")
    abilities = precision_of(name)
    return abilities.product_bits if abilities else 0


def _hosts(result: Result) -> int:
    return int(result.axes.get("hosts") or result.num_gpus)
