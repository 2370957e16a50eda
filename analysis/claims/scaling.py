"""C7 to C14: what precision, batch, model, data, switches and parameter servers do to scaling."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from analysis.claims.claim import Case, Part, part
from analysis.claims.strategies import NVLINK, is_on
from analysis.conclusions import efficiency, switches
from analysis.conclusions.cases import (
    PUBLISHED_MARGIN,
    Compared,
    as_run,
    by_efficiency,
    by_speed,
    is_synthetic,
    model,
    on_gpus,
    on_most_gpus,
)
from analysis.conclusions.models import scaled
from analysis.results import Origin, Result
from scalemark.stats.welch import Relation

_ORDER = ("inception3", "resnet50", "resnet152", "vgg16", "alexnet")
_LITTLE = ("inception3", "resnet50", "resnet152")  # real data cost them little
_INPUT_BOUND = 0.9  # real over synthetic, below
_SATURATED = 1.5  # throughput of twice the hosts, below


def c7(results: Sequence[Result]) -> tuple[Part, ...]:
    found = efficiency.slower_precision(results)
    says = "the slower precision has the higher efficiency"
    return (part(says, found, on_gpus, efficiency.in_precision),)


def c8(results: Sequence[Result]) -> tuple[Part, ...]:
    found = efficiency.larger_batch(results)
    says = "the larger batch has the higher efficiency"
    return (part(says, found, efficiency.batch_subject, efficiency.at_batch),)


def c9(results: Sequence[Result]) -> tuple[Part, ...]:
    found = []
    for best in scaled([one for one in results if one.num_gpus >= 64]):
        of = {model(one): one for one in best}
        for name in ("inception3", "resnet101"):
            if "vgg16" in of and name in of:
                found.append(by_efficiency(of[name], of["vgg16"]))
    says = "on 64 GPUs or more Inception V3 and ResNet-101 scale better than VGG-16"
    return (part(says, [one for one in found if one], _on_how_many, model),)


def c10(results: Sequence[Result]) -> tuple[Part, ...]:
    here = [
        one
        for one in results
        if is_on(one, "P100") and is_on(one, NVLINK) and one.axes["precision"] == "fp32"
    ]
    found = []
    for best in scaled([one for one in here if is_synthetic(one)], 8):
        of = {model(one): one for one in best}
        for name, other in pairwise([name for name in _ORDER if name in of]):
            found.append(by_efficiency(of[name], of[other]))
    says = f"they scale in the order {', '.join(_ORDER)}"
    return (part(says, [one for one in found if one], _on_how_many, model),)


def c11(results: Sequence[Result]) -> tuple[Part, ...]:
    compared = switches.real_against_synthetic([one for one in results if is_on(one, "P100")])
    by_batch: dict[tuple[object, ...], dict[str, Compared]] = defaultdict(dict)
    for one in compared:
        first = one.first
        if first.num_gpus == 8:
            key = (first.environment.key, first.axes["batch_size"], first.axes["precision"])
            by_batch[key][model(first)] = one
    lost = []
    for of in by_batch.values():
        others = [of[name] for name in _LITTLE if name in of]
        if "vgg16" in of:
            lost += [_loses_more(of["vgg16"], other) for other in others]
    alexnet = on_most_gpus(one for one in compared if model(one.first) == "alexnet")
    return (
        Part(says="on 8 GPUs VGG16 loses more than the others", cases=tuple(lost)),
        Part(
            says="AlexNet is bound by its input on the most GPUs",
            cases=tuple(_input_bound(one) for one in alexnet),
        ),
    )


def c12(results: Sequence[Result]) -> tuple[Part, ...]:
    found = switches.with_staged_vars(results)
    return (part("staged variables are faster", found, as_run, switches.staged),)


def c13(results: Sequence[Result]) -> tuple[Part, ...]:
    found = switches.repacked(results)
    return (part("packs are faster than tensor by tensor", found, as_run, switches.packs),)


def c14(results: Sequence[Result]) -> tuple[Part, ...]:
    curves: dict[tuple[object, ...], list[Result]] = defaultdict(list)
    for one in sorted(results, key=_hosts):
        is_server = one.axes["variable_update"] == "distributed_parameter_server"
        if one.throughput and is_server and _hosts(one) >= 32:
            per_host = one.num_gpus // _hosts(one)
            curves[one.environment.key, model(one), one.axes["batch_size"], per_host].append(one)
    found = []
    for curve in curves.values():
        for less, more in pairwise(curve):
            compared = by_speed(more, less)
            if compared and _hosts(more) >= 2 * _hosts(less):
                found.append(_saturated(compared))
    says = f"from 32 hosts on twice as many bring less than {_SATURATED:g}x"
    return (Part(says=says, cases=tuple(found)),)


def _saturated(compared: Compared) -> Case:
    more, less = compared.first, compared.second
    low, high = (None if end is None else end / _SATURATED for end in (compared.low, compared.high))
    against = replace(compared, ratio=compared.ratio / _SATURATED, low=low, high=high).relation
    is_known = against in (Relation.LESS, Relation.MORE)
    return Case(
        holds=against is Relation.LESS if is_known else None,
        text=f"{as_run(more)}: {compared.ratio:.2f}x of {less.width}, {more.environment.host}",
        rows=(more, less),
    )


def _loses_more(one: Compared, other: Compared) -> Case:
    """Say whether the first of two ratios of real to synthetic is the smaller one."""
    first = one.first
    ratios = f"{one.ratio:.3f}, {model(other.first)} {other.ratio:.3f} of synthetic"
    return Case(
        holds=_is_below(one, other),
        text=f"{as_run(first)} {ratios}, {first.environment.host}",
        rows=(first, one.second, other.first, other.second),
    )


def _is_below(one: Compared, other: Compared) -> bool | None:
    if one.first.environment.origin is Origin.PUBLISHED:
        near = max(one.ratio, other.ratio) <= (1 + PUBLISHED_MARGIN) * min(one.ratio, other.ratio)
        return None if near else one.ratio < other.ratio
    if one.low is None or one.high is None or other.low is None or other.high is None:
        return None
    if one.high < other.low:
        return True
    return False if one.low > other.high else None


def _input_bound(compared: Compared) -> Case:
    is_known = compared.relation in (Relation.LESS, Relation.MORE)
    run, host = as_run(compared.first), compared.first.environment.host
    return Case(
        holds=compared.ratio < _INPUT_BOUND if is_known else None,
        text=f"{run} {compared.ratio:.3f} of synthetic, {host}",
        rows=(compared.first, compared.second),
    )


def _on_how_many(result: Result) -> str:
    return f"{result.counted}, {result.axes['data']} data"


def _hosts(result: Result) -> int:
    return int(result.axes.get("hosts") or result.num_gpus)
