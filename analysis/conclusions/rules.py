"""The rule of each published claim: a function from results to statements with pairs of results.

RULES has them by the ids of `store/published/conclusions.csv`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from analysis.conclusions.pairs import (
    PUBLISHED_MARGIN,
    STRATEGY,
    ClaimComparison,
    ClaimPair,
    against_fastest,
    alike,
    by_efficiency,
    by_speed,
    fastest,
    model,
    on_most_gpus,
)
from analysis.results import Result, examples_per_step
from scalemark.abilities import precision_of
from scalemark.records.references import Origin
from scalemark.records.trial import unusual_axes
from scalemark.stats.welch import Relation
from simulator.costs.networks import network

_GOOD = 0.85  # of the fastest strategy
_NOT_BAD = 0.75
_INPUT_BOUND = 0.9  # real data over synthetic, below
_SATURATED = 1.5  # throughput of twice the hosts, below
_NVLINK = "SXM|DGX|NVLink"  # in the name of a machine
# MB of gradients per GFLOP of one image, forward and backward: between ResNet-152 (3.6) and the
# next of the article's models, VGG-16
_FEW_PARAMETERS = 5.0
_ORDER = ("inception3", "resnet50", "resnet152", "vgg16", "alexnet")
_LITTLE = ("inception3", "resnet50", "resnet152")  # real data cost them little
_OF_DATA = ("data", "data_dir", "distortions", "cache")
_OF_PRECISION = ("precision", "loss_scale", "data_format", "batch_size")
# axes that change no efficiency, or that a model alone has
_NEVER_UNUSUAL = ("hosts", "data_dir", "loss_scale", "profile", "seq_len")


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One of the statements that a claim makes, and the pairs that speak for or against it."""

    says: str
    pairs: tuple[ClaimPair, ...]


Statements = tuple[Statement, ...]
Rule = Callable[[Sequence[Result]], Statements]


def _nccl_against_copies(results: Sequence[Result]) -> Statements:
    compared = against_fastest(_on_several(results), _is_nccl, _is_copied)
    few = [pair for pair in compared if pair.first.num_gpus < 8]
    many = [pair for pair in compared if pair.first.num_gpus >= 8]
    return (
        _statement("on fewer than 8 GPUs copies beat NCCL", few, Relation.LESS),
        _statement("on 8 GPUs NCCL beats copies", many),
    )


def _variables_by_model(results: Sequence[Result]) -> Statements:
    here = [one for one in _on(results, "P100|Titan X|M40") if one.num_gpus >= 4]
    on_cpu = against_fastest(_of_few_parameters(here), _is_strategy("ps_cpu"))
    on_gpus = against_fastest(_of_many_parameters(here), _is_nccl)
    says = "with few parameters per operation a parameter server on the CPU is the fastest"
    return (_statement(says, on_cpu), _statement("with many, replicated with NCCL is", on_gpus))


def _spread_variables(results: Sequence[Result]) -> Statements:
    """Compare within a machine where both were run; else two machines of one source."""
    here = [one for one in _on(results, "K80") if one.num_gpus == 8]
    says = "variables spread over the GPUs beat variables on the CPU"
    if same := against_fastest(here, _is_strategy("ps_gpu"), _is_strategy("ps_cpu")):
        return (_statement(says, same),)
    groups: dict[tuple[object, ...], list[Result]] = defaultdict(list)
    for one in here:
        axes = ("model", "batch_size", "data", "precision", "num_gpus", "hosts")
        key = (one.environment.versions, *(one.axes.get(axis) for axis in axes))
        groups[key].append(one)
    across = [
        by_speed(fastest(group, _is_strategy("ps_gpu")), fastest(group, _is_strategy("ps_cpu")))
        for group in groups.values()
    ]
    return (_statement(f"{says} (on two machines of one source)", across),)


def _small_models_on_pcie(results: Sequence[Result]) -> Statements:
    here = _of_few_parameters(_on_pcie_p100(results))
    pscpu = against_fastest(here, _is_strategy("replicated_pscpu"))
    says = "replicated_pscpu is not slower than any other"
    return (_reaching(here, "ps_cpu", _GOOD), _statement(says, pscpu, tie_holds=True))


def _large_models_on_pcie(results: Sequence[Result]) -> Statements:
    here = _of_many_parameters(_on_pcie_p100(results))
    wanted = (("replicated_nccl", _GOOD), ("replicated_pscpu", _GOOD), ("ps_cpu", _NOT_BAD))
    return tuple(_reaching(here, name, share) for name, share in wanted)


def _nccl_by_count(results: Sequence[Result]) -> Statements:
    compared = against_fastest(_on_several(results), _is_nccl, _is_gathered)
    few = [pair for pair in compared if pair.first.num_gpus in (2, 4)]
    replicated = [one for one in results if one.axes["variable_update"] == "replicated"]
    on_eight = [one for one in replicated if one.num_gpus == 8]
    says = "with replicated variables, on 2 and 4 GPUs copies beat NCCL"
    few_statement = _statement(says, few, Relation.LESS)
    return (few_statement, _reaching(on_eight, "replicated_nccl", _GOOD))


def _slower_precision(results: Sequence[Result]) -> Statements:
    """Compare fp32 or tf32 with what is faster, each at its own batch, both with or without XLA."""
    compared = []
    for is_compiled in (False, True):
        known = [
            one
            for one in results
            if _product_bits(one) and ("+XLA" in str(one.axes["precision"])) is is_compiled
        ]
        for group in alike(known, *_OF_PRECISION):
            bits = [_product_bits(one) for one in group]
            slow = [one for one in group if _product_bits(one) == max(bits)]
            fast = [one for one in group if _product_bits(one) == min(bits)]
            if max(bits) > min(bits):
                formats = {_data_format(one) for one in slow} & {_data_format(one) for one in fast}
                pair = (_largest_batch(slow, formats), _largest_batch(fast, formats))
                compared.append(by_efficiency(*pair))
    says = "the slower precision has the higher efficiency"
    return (_statement(says, on_most_gpus(compared)),)


def _larger_batch(results: Sequence[Result]) -> Statements:
    known = [
        one for one in results if one.axes["batch_size"] and one.axes.get("scaling") != "strong"
    ]
    compared = []
    for group in alike(known, "batch_size"):
        small, *_, large = sorted(group, key=_batch)
        compared.append(by_efficiency(large, small))
    return (_statement("the larger batch has the higher efficiency", on_most_gpus(compared)),)


def _many_hosts(results: Sequence[Result]) -> Statements:
    compared = []
    for by_model in _most_efficient([one for one in results if one.num_gpus >= 64]):
        for name in ("inception3", "resnet101"):
            if "vgg16" in by_model and name in by_model:
                compared.append(by_efficiency(by_model[name], by_model["vgg16"]))
    says = "on 64 GPUs or more Inception V3 and ResNet-101 scale better than VGG-16"
    return (_statement(says, compared),)


def _order_of_models(results: Sequence[Result]) -> Statements:
    here = _on(_on(results, "P100"), _NVLINK)
    here = [one for one in here if one.axes["precision"] == "fp32" and _is_synthetic(one)]
    compared = []
    for by_model in _most_efficient([one for one in here if one.num_gpus == 8]):
        for name, other in pairwise([name for name in _ORDER if name in by_model]):
            compared.append(by_efficiency(by_model[name], by_model[other]))
    return (_statement(f"they scale in the order {', '.join(_ORDER)}", compared),)


def _real_data(results: Sequence[Result]) -> Statements:
    compared = against_fastest(_on(results, "P100"), _is_real, _is_synthetic, _OF_DATA)
    by_batch: dict[tuple[object, ...], dict[str, ClaimComparison]] = defaultdict(dict)
    for pair in compared:
        first = pair.first
        if first.num_gpus == 8:
            key = (first.environment.key, first.axes["batch_size"], first.axes["precision"])
            by_batch[key][model(first)] = pair
    lost = []
    for by_model in by_batch.values():
        for name in _LITTLE:
            if "vgg16" in by_model and name in by_model:
                lost.append(_loses_more(by_model["vgg16"], by_model[name]))
    bound = []
    for pair in on_most_gpus(pair for pair in compared if model(pair.first) == "alexnet"):
        is_known = pair.relation in (Relation.LESS, Relation.MORE)
        bound.append(pair.pair(pair.ratio < _INPUT_BOUND if is_known else None))
    return (
        Statement(says="on 8 GPUs VGG16 loses more than the others", pairs=tuple(lost)),
        Statement(says="AlexNet is bound by its input on the most GPUs", pairs=tuple(bound)),
    )


def _staged_variables(results: Sequence[Result]) -> Statements:
    known = [one for one in _on_several(results) if "staged_vars" in one.axes]
    compared = []
    for group in alike(known, "staged_vars"):
        by_value = {bool(one.axes["staged_vars"]): one for one in group}
        compared.append(by_speed(by_value.get(True), by_value.get(False)))
    return (_statement("staged variables are faster", compared),)


def _gradients_in_packs(results: Sequence[Result]) -> Statements:
    """Compare packs with one message per tensor, with the same compaction where there is one."""
    known = [one for one in _on_several(results) if "gradient_repacking" in one.axes]
    compared = []
    for group in alike(known, "gradient_repacking", "compact_gradients", "telling"):
        plain = [one for one in group if not one.axes["gradient_repacking"]]
        for packed in group:
            if packed.axes["gradient_repacking"]:
                compact = bool(packed.axes["compact_gradients"])
                same = [one for one in plain if bool(one.axes["compact_gradients"]) is compact]
                compared.append(by_speed(packed, fastest(same or plain)))
    return (_statement("packs are faster than tensor by tensor", compared),)


def _many_servers(results: Sequence[Result]) -> Statements:
    curves: dict[tuple[object, ...], list[Result]] = defaultdict(list)
    for one in sorted(results, key=_hosts):
        is_server = one.axes["variable_update"] == "distributed_parameter_server"
        if one.throughput and is_server and _hosts(one) >= 32:
            per_host = one.num_gpus // _hosts(one)
            curves[one.environment.key, model(one), one.axes["batch_size"], per_host].append(one)
    pairs = []
    for curve in curves.values():
        for less, more in pairwise(curve):
            compared = by_speed(more, less)
            if compared and _hosts(more) >= 2 * _hosts(less):
                relation = compared.against(_SATURATED).relation
                is_known = relation in (Relation.LESS, Relation.MORE)
                pairs.append(compared.pair(relation is Relation.LESS if is_known else None))
    says = f"from 32 hosts on twice as many reach less than {_SATURATED:g}x"
    return (Statement(says=says, pairs=tuple(pairs)),)


RULES: dict[str, Rule] = {
    "C1": _nccl_against_copies,
    "C2": _variables_by_model,
    "C3": _spread_variables,
    "C4": _small_models_on_pcie,
    "C5": _large_models_on_pcie,
    "C6": _nccl_by_count,
    "C7": _slower_precision,
    "C8": _larger_batch,
    "C9": _many_hosts,
    "C10": _order_of_models,
    "C11": _real_data,
    "C12": _staged_variables,
    "C13": _gradients_in_packs,
    "C14": _many_servers,
}


def _statement(
    says: str,
    compared: Iterable[ClaimComparison | None],
    wanted: Relation = Relation.MORE,
    *,
    tie_holds: bool = False,
) -> Statement:
    """Hold each relation against the wanted one; a tie is open unless it holds."""
    pairs = []
    for pair in compared:
        if pair is None:
            continue
        holds: bool | None = pair.relation is wanted
        if pair.relation is Relation.TIE:
            holds = True if tie_holds else None
        elif pair.relation is Relation.UNKNOWN:
            holds = None
        pairs.append(pair.pair(holds))
    return Statement(says=says, pairs=tuple(pairs))


def _reaching(results: Iterable[Result], name: str, share: float) -> Statement:
    """State that a strategy reaches a share of the fastest; an interval around it is open."""
    pairs = []
    for group in alike(results, *STRATEGY):
        compared = by_speed(fastest(group, _is_strategy(name)), fastest(group))
        if compared is None:
            continue
        low, high = compared.low or compared.ratio, compared.high or compared.ratio
        holds = None
        if compared.first is compared.second or low >= share:
            holds = True
        elif high < share:
            holds = False
        pairs.append(compared.pair(holds))
    return Statement(says=f"{name} reaches {share:.0%} of the fastest", pairs=tuple(pairs))


def _loses_more(one: ClaimComparison, other: ClaimComparison) -> ClaimPair:
    """Say whether the first of two ratios of real to synthetic data is the smaller one."""
    holds: bool | None = None
    if one.first.environment.origin is Origin.PUBLISHED:
        near = max(one.ratio, other.ratio) <= (1 + PUBLISHED_MARGIN) * min(one.ratio, other.ratio)
        holds = None if near else one.ratio < other.ratio
    elif one.low and one.high and other.low and other.high:
        if one.high < other.low:
            holds = True
        elif one.low > other.high:
            holds = False
    pair = one.pair(holds)
    return replace(
        pair,
        shared=f"on {one.first.num_gpus}",
        first=model(one.first),
        second=model(other.first),
        quantity="share of synthetic",
        first_value=one.ratio,
        second_value=other.ratio,
        ratio=one.ratio / other.ratio,
        low=None,
        high=None,
        trials=(*pair.trials, other.first.trial_id, other.second.trial_id),
    )


def _most_efficient(results: Sequence[Result]) -> list[dict[str, Result]]:
    """Return the most efficient result of each model at its largest batch, for each environment,
    number of hosts, data, precision and unusual setting, on the most GPUs that two models ran on.
    """
    grouped: dict[tuple[object, ...], dict[int, list[Result]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for one in results:
        if not one.efficiency or one.trains_apart or one.num_gpus == 1:
            continue
        fixed = [one.axes["data"], one.axes["precision"], _is_synthetic(one)]
        if one.environment.origin.is_ours:  # sources report nothing unusual
            names = [axis for axis in unusual_axes(one.axes) if axis not in _NEVER_UNUSUAL]
            fixed += [(axis, one.axes[axis]) for axis in names]
        grouped[one.environment.key, one.hosts, *fixed][one.num_gpus].append(one)
    best = []
    for by_count in grouped.values():
        able = [num for num, group in by_count.items() if len(set(map(model, group))) > 1]
        if able:
            ordered = sorted(by_count[max(able)], key=_preference)
            best.append({model(one): one for one in ordered})  # the last of each is preferred
    return best


def _preference(result: Result) -> tuple[int, float]:
    return examples_per_step(result) // result.num_gpus, result.efficiency or 0.0


def _on_several(results: Sequence[Result]) -> list[Result]:
    return [one for one in results if one.num_gpus > 1]


def _on(results: Iterable[Result], gpus: str) -> list[Result]:
    return [one for one in results if re.search(gpus, one.environment.machine, re.IGNORECASE)]


def _on_pcie_p100(results: Iterable[Result]) -> list[Result]:
    with_nvlink = {id(one) for one in _on(results, _NVLINK)}
    on_p100 = _on(results, "P100")
    return [one for one in on_p100 if id(one) not in with_nvlink and one.num_gpus == 8]


def _of_few_parameters(results: Iterable[Result]) -> list[Result]:
    return [one for one in results if (mb_per_gflop(one) or _FEW_PARAMETERS) < _FEW_PARAMETERS]


def _of_many_parameters(results: Iterable[Result]) -> list[Result]:
    return [one for one in results if (mb_per_gflop(one) or 0.0) >= _FEW_PARAMETERS]


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


def _is_strategy(name: str) -> Callable[[Result], bool]:
    return lambda result: result.strategy == name


def _is_nccl(result: Result) -> bool:
    is_replicated = result.axes["variable_update"] == "replicated"
    return bool(is_replicated and result.axes["all_reduce"] == "nccl")


def _is_copied(result: Result) -> bool:
    """Return whether TensorFlow's own copies carry variables or gradients."""
    is_server = result.axes["variable_update"] == "parameter_server"
    return bool(is_server and result.axes["all_reduce"] == "none") or _is_gathered(result)


def _is_gathered(result: Result) -> bool:
    """Return whether every GPU has the variables, and copied gradients meet on one device."""
    is_replicated = result.axes["variable_update"] == "replicated"
    return bool(is_replicated and result.axes["all_reduce"] in ("none", "pscpu", "psgpu"))


def _is_real(result: Result) -> bool:
    """Published figures count only where their source says so."""
    data = str(result.axes["data"])
    if result.environment.origin is Origin.PUBLISHED:
        return data.startswith("real")
    return data != "synthetic"


def _is_synthetic(result: Result) -> bool:
    return str(result.axes["data"]).startswith("synthetic")


def _largest_batch(results: Sequence[Result], data_formats: set[str]) -> Result:
    """Return the one of the largest batch, in one of these data formats if there is any."""
    able = [one for one in results if _data_format(one) in data_formats] or results
    return max(able, key=lambda one: (_batch(one), _data_format(one)))


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
