"""Asks for a verdict on every published figure of several GPUs, beside the rule that calls every
efficiency below 0.90 communication-bound.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from analysis.explain.ablations import AblationFinder
from analysis.explain.causes import Bound
from analysis.explain.explanations import Explanation, explain_all
from analysis.explain.verdicts import HEALTHY_FROM, Confidence
from analysis.explain.waterfall import NOTHING
from analysis.results import Result, items_per_step
from analysis.selection import Selection, load
from scalemark.records.references import Origin
from simulator.costs.networks import UnknownNetworkError, network

NOISE = 0.02  # of efficiency: figures so near are of equals


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """Counts of the answers of one rule about all figures."""

    rule: str
    bounds: list[Bound | None]
    num_sure: int
    num_contradicted: int  # of those that are called communication-bound


def figures() -> list[Result]:
    """Return every published figure whose step is known."""
    found = load(Selection(db="none.db", origin=Origin.PUBLISHED))
    return [one for one in found if one.throughput and items_per_step(one)]


def said_of_all(results: Sequence[Result]) -> list[Said]:
    """Ask each figure of several GPUs, with the whole box and with its own curve alone."""
    targets = [one for one in results if one.num_gpus > 1]
    of_curve: dict[object, list[Result]] = defaultdict(list)
    for one in results:
        of_curve[one.environment.key, one.curve].append(one)
    boxes = _explained(targets, lambda _: results)
    series = _explained(targets, lambda one: of_curve[one.environment.key, one.curve])
    contradicted = contradictions(results)
    return [
        _of_rule(targets, contradicted),
        _said("explain, its own curve alone", series, contradicted),
        _said("explain, its whole box", boxes, contradicted),
    ]


def contradictions(results: Sequence[Result]) -> dict[str, Result]:
    """Return, by identity, figures of which another of the same box, way, data and number of GPUs
    sends as many bytes per second of compute or more, and scales better.
    """
    groups: dict[object, list[tuple[float, float, Result]]] = defaultdict(list)
    for one in results:
        baseline, sent = one.baseline, _sent_bytes(one)
        if one.num_gpus > 1 and baseline is not None and one.efficiency and sent:
            per_gpu = items_per_step(one) / one.num_gpus
            demand = sent * baseline.throughput / per_gpu
            way = one.environment.key, one.strategy, one.axes["data"], one.num_gpus
            groups[way].append((demand, one.efficiency, one))
    found: dict[str, Result] = {}
    for group in groups.values():
        for demand, efficiency, one in group:
            for other_demand, other_efficiency, other in group:
                if other_demand >= demand and other_efficiency > efficiency + NOISE:
                    found[one.trial_id] = other
    return found


def _sent_bytes(result: Result) -> float:
    try:
        return 4.0 * network(str(result.axes["model"]).rstrip("?")).num_parameters
    except UnknownNetworkError:
        return 0.0


def _explained(
    targets: Sequence[Result], among: Callable[[Result], Sequence[Result]]
) -> list[Explanation]:
    """Explain each, by what `among` has beside it; figures that share it are asked together."""
    shared: dict[int, list[Result]] = defaultdict(list)
    beside: dict[int, Sequence[Result]] = {}
    for one in targets:
        shared[id(among(one))].append(one)
        beside[id(among(one))] = among(one)
    found: list[Explanation] = []
    for key, asked in shared.items():
        finder = AblationFinder(beside[key])
        found += explain_all(asked, finder, lambda _: NOTHING)
    return found


def _said(rule: str, found: Sequence[Explanation], contradicted: Mapping[str, Result]) -> Said:
    communicating = [one for one in found if one.diagnosis.bound is Bound.COMMUNICATION]
    return Said(
        rule=rule,
        bounds=[one.diagnosis.bound for one in found],
        num_sure=sum(one.diagnosis.confidence is Confidence.SURE for one in found),
        num_contradicted=sum(one.target.trial_id in contradicted for one in communicating),
    )


def _of_rule(targets: Sequence[Result], contradicted: Mapping[str, Result]) -> Said:
    """Apply the rule; where there is no efficiency it says nothing."""
    bounds: list[Bound | None] = []
    num_contradicted = 0
    for one in targets:
        if one.efficiency is None:
            bounds.append(None)
        elif one.efficiency >= HEALTHY_FROM:
            bounds.append(Bound.HEALTHY)
        else:
            bounds.append(Bound.COMMUNICATION)
            num_contradicted += one.trial_id in contradicted
    return Said(
        rule="efficiency below 0.90",
        bounds=bounds,
        num_sure=0,
        num_contradicted=num_contradicted,
    )
