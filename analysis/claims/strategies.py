"""C1 to C6: which strategy is how good on how many GPUs of which kind."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from analysis.claims.claim import Case, Part, part
from analysis.conclusions.cases import (
    STRATEGY,
    Compared,
    alike,
    as_run,
    by_speed,
    fastest,
    model,
    on_gpus,
    strategy,
)
from analysis.conclusions.sizes import FEW, MANY, size_class
from analysis.conclusions.strategies import against_copies, is_gathered, is_nccl
from analysis.results import Result
from scalemark.stats.welch import Relation

GOOD = 0.85  # of the fastest strategy
NOT_BAD = 0.75
NVLINK = "SXM|DGX|NVLink"  # in the name of a machine


def c1(results: Sequence[Result]) -> tuple[Part, ...]:
    compared = against_copies(results)
    few = [one for one in compared if one.first.num_gpus < 8]
    many = [one for one in compared if one.first.num_gpus >= 8]
    return (
        part("on fewer than 8 GPUs copies beat NCCL", few, on_gpus, strategy, Relation.LESS),
        part("on 8 GPUs NCCL beats copies", many, on_gpus, strategy),
    )


def c2(results: Sequence[Result]) -> tuple[Part, ...]:
    here = [one for one in results if is_on(one, "P100|Titan X|M40") and one.num_gpus >= 4]
    few, many = _of_size(here, FEW), _of_size(here, MANY)
    on_cpu = "with few parameters per operation a parameter server on the CPU is the fastest"
    return (
        part(on_cpu, _first(few, lambda one: one.strategy == "ps_cpu"), on_gpus, strategy),
        part("with many, replicated with NCCL is", _first(many, is_nccl), on_gpus, strategy),
    )


def c3(results: Sequence[Result]) -> tuple[Part, ...]:
    """Within a machine where both were run; else of two machines of one source, which is weaker."""
    here = [one for one in results if is_on(one, "K80") and one.num_gpus == 8]
    text = "variables spread over the GPUs beat variables on the CPU"
    if same := _spread_against_cpu(alike(here, *STRATEGY)):
        return (part(text, same, model, strategy),)
    across = _spread_against_cpu(_of_one_source(here))
    weaker = f"{text} (on two machines, each with its source's choice of a strategy)"
    return (part(weaker, across, model, lambda one: f"{one.strategy} on {one.environment.host}"),)


def c4(results: Sequence[Result]) -> tuple[Part, ...]:
    here = _of_size(_on_pcie_p100(results), FEW)
    against_others = _first(here, lambda one: one.strategy == "replicated_pscpu")
    says = "replicated_pscpu is not slower than any other"
    return (
        _reaching(here, "ps_cpu", GOOD),
        part(says, against_others, on_gpus, strategy, tie_holds=True),
    )


def c5(results: Sequence[Result]) -> tuple[Part, ...]:
    here = _of_size(_on_pcie_p100(results), MANY)
    wanted = (("replicated_nccl", GOOD), ("replicated_pscpu", GOOD), ("ps_cpu", NOT_BAD))
    return tuple(_reaching(here, name, share) for name, share in wanted)


def c6(results: Sequence[Result]) -> tuple[Part, ...]:
    few = [one for one in against_copies(results, is_gathered) if one.first.num_gpus in (2, 4)]
    says = "with replicated variables, on 2 and 4 GPUs copies beat NCCL"
    replicated = [
        one for one in results if one.axes["variable_update"] == "replicated" and one.num_gpus == 8
    ]
    return (
        part(says, few, on_gpus, strategy, Relation.LESS),
        _reaching(replicated, "replicated_nccl", GOOD),
    )


def _of_size(results: Iterable[Result], size: str) -> list[Result]:
    return [one for one in results if size_class(one) == size]


def _first(results: Iterable[Result], is_named: Callable[[Result], bool]) -> list[Compared]:
    """Compare the named strategy with the fastest other one, for each trial that was run so."""
    found = []
    for group in alike(results, *STRATEGY):
        one = fastest(each for each in group if is_named(each))
        other = fastest(each for each in group if not is_named(each))
        if compared := by_speed(one, other):
            found.append(compared)
    return found


def _reaching(results: Iterable[Result], name: str, share: float) -> Part:
    """Say whether a strategy reaches this share of the fastest."""
    found = []
    for group in alike(results, *STRATEGY):
        one = fastest(each for each in group if each.strategy == name)
        if compared := by_speed(one, fastest(group)):
            found.append(_reaches(compared, share))
    return Part(says=f"{name} reaches {share:.0%} of the fastest", cases=tuple(found))


def _reaches(compared: Compared, share: float) -> Case:
    """An interval on both sides of the share is not conclusive."""
    first, second = compared.first, compared.second
    low, high = compared.low or compared.ratio, compared.high or compared.ratio
    holds = None
    if first is second or low >= share:
        holds = True
    elif high < share:
        holds = False
    text = f"{as_run(first)} {compared.ratio:.0%} of {second.strategy}, {first.environment.host}"
    return Case(holds=holds, text=text, rows=(first, second))


def _spread_against_cpu(groups: Iterable[Sequence[Result]]) -> list[Compared]:
    found = []
    for group in groups:
        spread = fastest(one for one in group if one.strategy == "ps_gpu")
        on_cpu = fastest(one for one in group if one.strategy == "ps_cpu")
        if compared := by_speed(spread, on_cpu):
            found.append(compared)
    return found


def _of_one_source(results: Iterable[Result]) -> list[list[Result]]:
    axes = ("model", "batch_size", "data", "precision", "num_gpus", "hosts")
    groups: dict[tuple[object, ...], list[Result]] = {}
    for one in results:
        fixed = [one.axes.get(axis) for axis in axes]
        groups.setdefault((one.environment.versions, *fixed), []).append(one)
    return list(groups.values())


def _on_pcie_p100(results: Iterable[Result]) -> list[Result]:
    on_pcie = (one for one in results if is_on(one, "P100") and not is_on(one, NVLINK))
    return [one for one in on_pcie if one.num_gpus == 8]


def is_on(result: Result, gpus: str) -> bool:
    return re.search(gpus, result.environment.machine, re.IGNORECASE) is not None
