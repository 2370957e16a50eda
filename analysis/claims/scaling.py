"""C7 to C11 and C14: what precision, batch, model, data and parameter servers do to scaling."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from analysis.claims.claim import Case, Part, case, cases
from analysis.claims.strategies import NVLINK, is_on
from analysis.conclusions import batch_size, precision
from analysis.conclusions.cases import (
    PUBLISHED_MARGIN,
    Compared,
    as_run,
    by_efficiency,
    by_speed,
    is_synthetic,
    model,
    on_gpus,
)
from analysis.conclusions.models import scaled
from analysis.conclusions.real_data import real_against_synthetic
from analysis.results import Origin, Result
from scalemark.stats.welch import Relation

_ORDER = ("inception3", "resnet50", "resnet152", "vgg16", "alexnet")
_LITTLE = ("inception3", "resnet50", "resnet152")  # of real data's costs
_INPUT_BOUND = 0.9  # real over synthetic, below
_SATURATED = 1.5  # images/s of twice the hosts, below


def c7(results: Sequence[Result]) -> tuple[Part, ...]:
    found = precision.slower(results)
    return (
        Part(
            says="the slower precision has the higher efficiency",
            cases=cases(found, on_gpus, precision.named),
        ),
    )


def c8(results: Sequence[Result]) -> tuple[Part, ...]:
    found = batch_size.larger(results)
    return (
        Part(
            says="the larger batch has the higher efficiency",
            cases=cases(found, batch_size.subject, batch_size.named),
        ),
    )


def c9(results: Sequence[Result]) -> tuple[Part, ...]:
    found = []
    for best in scaled([one for one in results if one.num_gpus >= 64]):
        of = {model(one): one for one in best}
        for name in ("inception3", "resnet101"):
            if "vgg16" in of and name in of and (compared := by_efficiency(of[name], of["vgg16"])):
                found.append(case(compared, _on_how_many, model))
    return (
        Part(
            says="on 64 GPUs or more Inception V3 and ResNet-101 scale better than VGG-16",
            cases=tuple(found),
        ),
    )


def c10(results: Sequence[Result]) -> tuple[Part, ...]:
    found = []
    here = [
        one for one in results if is_on(one, "P100") and is_on(one, NVLINK) and is_synthetic(one)
    ]
    here = [one for one in here if one.axes["precision"] == "fp32"]
    for best in scaled(here, 8):
        of = {model(one): one for one in best}
        for name, other in pairwise([name for name in _ORDER if name in of]):
            if compared := by_efficiency(of[name], of[other]):
                found.append(case(compared, _on_how_many, model))
    return (Part(says=f"they scale in the order {', '.join(_ORDER)}", cases=tuple(found)),)


def c11(results: Sequence[Result]) -> tuple[Part, ...]:
    here = [one for one in results if is_on(one, "P100")]
    by_batch: dict[tuple[object, ...], dict[str, Compared]] = defaultdict(dict)
    for one in real_against_synthetic(here, 8):
        by_batch[one.first.place.key, one.first.axes["batch_size"], one.first.axes["precision"]][
            model(one.first)
        ] = one
    lost = [
        _loses_more(of["vgg16"], of[name])
        for of in by_batch.values()
        for name in _LITTLE
        if "vgg16" in of and name in of
    ]
    alexnet = [
        _input_bound(one)
        for one in real_against_synthetic([one for one in here if model(one) == "alexnet"])
    ]
    return (
        Part(says="on 8 GPUs VGG16 loses more than the others", cases=tuple(lost)),
        Part(says="AlexNet is bound by its input on the most GPUs", cases=tuple(alexnet)),
    )


def c14(results: Sequence[Result]) -> tuple[Part, ...]:
    curves: dict[tuple[str, object], list[Result]] = defaultdict(list)
    for one in results:
        if (
            one.throughput
            and one.axes["variable_update"] == "distributed_parameter_server"
            and _hosts(one) >= 32
        ):
            curves[
                one.place.key, (model(one), one.axes["batch_size"], one.num_gpus // _hosts(one))
            ].append(one)
    found = []
    for curve in curves.values():
        for less, more in pairwise(sorted(curve, key=_hosts)):
            if _hosts(more) >= 2 * _hosts(less) and (compared := by_speed(more, less)):
                text = f"{as_run(more)}: {compared.ratio:.2f}x of {less.width}, {more.place.host}"
                found.append(
                    Case(holds=_is_less(compared, _SATURATED), text=text, rows=compared.rows)
                )
    return (
        Part(
            says=f"from 32 hosts on twice as many bring less than {_SATURATED:g}x",
            cases=tuple(found),
        ),
    )


def _is_less(compared: Compared, than: float) -> bool | None:
    """Whether the ratio is; None where nobody knows, or it may be either."""
    low, high = (None if end is None else end / than for end in (compared.low, compared.high))
    relation = replace(compared, ratio=compared.ratio / than, low=low, high=high).relation
    return relation is Relation.LESS if relation in (Relation.LESS, Relation.MORE) else None


def _loses_more(one: Compared, other: Compared) -> Case:
    """Of two ratios of real to synthetic, whether the first is the smaller."""
    text = (
        f"{as_run(one.first)} {one.ratio:.3f}, {model(other.first)} {other.ratio:.3f} of "
        f"synthetic, {one.first.place.host}"
    )
    return Case(holds=_is_below(one, other), text=text, rows=(*one.rows, *other.rows))


def _is_below(one: Compared, other: Compared) -> bool | None:
    if one.first.place.origin is Origin.PUBLISHED:
        near = max(one.ratio, other.ratio) <= (1 + PUBLISHED_MARGIN) * min(one.ratio, other.ratio)
        return None if near else one.ratio < other.ratio
    if one.low is None or one.high is None or other.low is None or other.high is None:
        return None
    return True if one.high < other.low else False if one.low > other.high else None


def _input_bound(compared: Compared) -> Case:
    sure = compared.relation in (Relation.LESS, Relation.MORE)
    text = (
        f"{as_run(compared.first)} {compared.ratio:.3f} of synthetic, {compared.first.place.host}"
    )
    return Case(
        holds=compared.ratio < _INPUT_BOUND if sure else None, text=text, rows=compared.rows
    )


def _on_how_many(result: Result) -> str:
    return f"{result.counted}, {result.axes['data']} data"


def _hosts(result: Result) -> int:
    return int(result.axes.get("hosts") or result.num_gpus)
