"""C1 to C6: which strategy is how good on how many GPUs of which kind."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from analysis.claims.claim import Case, Part, case, cases
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
from analysis.conclusions.nccl import against_copies, is_gathered, is_nccl
from analysis.conclusions.sizes import few_per_gflop, network_of
from analysis.results import Result
from scalemark.stats.welch import Relation

GOOD = 0.85  # of the fastest strategy
NOT_BAD = 0.75
NVLINK = "SXM|DGX|NVLink"  # in the name of a machine


def c1(results: Sequence[Result]) -> tuple[Part, ...]:
    compared = against_copies(results)
    return (
        _copies_win([one for one in compared if one.first.num_gpus < 8], "on fewer than 8"),
        Part(
            says="on 8 GPUs NCCL beats copies",
            cases=cases([one for one in compared if one.first.num_gpus >= 8], on_gpus, strategy),
        ),
    )


def c2(results: Sequence[Result]) -> tuple[Part, ...]:
    here = [
        result for result in results if is_on(result, "P100|Titan X|M40") and result.num_gpus >= 4
    ]
    return (
        Part(
            says="with few parameters per operation a parameter server on the CPU is the fastest",
            cases=_first(here, is_dense, lambda one: one.strategy == "ps_cpu"),
        ),
        Part(
            says="with many, replicated with NCCL is",
            cases=_first(here, is_sparse, is_nccl),
        ),
    )


def c3(results: Sequence[Result]) -> tuple[Part, ...]:
    """Within a machine where both were run; else as a source chose for two machines of its own,
    which is weaker.

    Replicated variables are not spread over the GPUs: each GPU has all of them.
    """
    here = [one for one in results if is_on(one, "K80") and one.num_gpus == 8]
    same = [pair for group in alike(here, *STRATEGY) if (pair := _spread_against_cpu(group))]
    across = (
        []
        if same
        else [pair for group in _of_one_source(here) if (pair := _spread_against_cpu(group))]
    )
    text = "variables spread over the GPUs beat variables on the CPU"
    return (
        Part(says=text, cases=cases(same, model, strategy))
        if same
        else Part(
            says=(
                f"{text} (of two machines, each with the source's choice for it: not the "
                "strategy alone differs)"
            ),
            cases=cases(across, model, lambda one: f"{one.strategy} on {one.place.host}"),
        ),
    )


def c4(results: Sequence[Result]) -> tuple[Part, ...]:
    here = [one for one in _on_pcie_p100(results) if is_dense(one)]
    return (
        Part(
            says=f"ps_cpu reaches {GOOD:.0%} of the fastest", cases=_at_least(here, "ps_cpu", GOOD)
        ),
        Part(
            says="replicated_pscpu is not slower than any other",
            cases=_first(
                here,
                lambda one: True,
                lambda one: one.strategy == "replicated_pscpu",
                tie_holds=True,
            ),
        ),
    )


def c5(results: Sequence[Result]) -> tuple[Part, ...]:
    here = [one for one in _on_pcie_p100(results) if is_sparse(one)]
    wanted = (("replicated_nccl", GOOD), ("replicated_pscpu", GOOD), ("ps_cpu", NOT_BAD))
    return tuple(
        Part(says=f"{name} reaches {share:.0%} of the fastest", cases=_at_least(here, name, share))
        for name, share in wanted
    )


def c6(results: Sequence[Result]) -> tuple[Part, ...]:
    few = [one for one in against_copies(results, is_gathered) if one.first.num_gpus in (2, 4)]
    replicated = [
        one for one in results if one.axes["variable_update"] == "replicated" and one.num_gpus == 8
    ]
    good = Part(
        says=f"on 8 GPUs NCCL reaches {GOOD:.0%} of the fastest",
        cases=_at_least(replicated, "replicated_nccl", GOOD),
    )
    return _copies_win(few, "with replicated variables, on 2 and 4"), good


def is_dense(result: Result) -> bool:
    """Few bytes of parameters per operation: Inception and ResNet of ImageNet."""
    net = network_of(result)
    return net is not None and few_per_gflop(net)


def is_sparse(result: Result) -> bool:
    """Many: AlexNet and VGG."""
    net = network_of(result)
    return net is not None and not few_per_gflop(net)


def _copies_win(compared: Sequence[Compared], where: str) -> Part:
    return Part(
        says=f"{where} GPUs copies beat NCCL",
        cases=cases(compared, on_gpus, strategy, Relation.LESS),
    )


def _first(
    results: Iterable[Result],
    wanted: Callable[[Result], bool],
    named: Callable[[Result], bool],
    *,
    tie_holds: bool = False,
) -> tuple[Case, ...]:
    """Of each trial that was run with several strategies: the named one against the fastest
    other.
    """
    found = []
    for group in alike(filter(wanted, results), *STRATEGY):
        one, other = (
            fastest(list(filter(named, group))),
            fastest([each for each in group if not named(each)]),
        )
        if one and other and (compared := by_speed(one, other)):
            found.append(case(compared, on_gpus, strategy, tie_holds=tie_holds))
    return tuple(found)


def _at_least(results: Iterable[Result], name: str, share: float) -> tuple[Case, ...]:
    """Whether the strategy reaches this share of the fastest; where an interval lies on both sides
    nobody can tell.
    """
    found = []
    for group in alike(results, *STRATEGY):
        one, best = fastest([each for each in group if each.strategy == name]), fastest(group)
        if one and best and (compared := by_speed(one, best)):
            found.append(_reaches(compared, share))
    return tuple(found)


def _reaches(compared: Compared, share: float) -> Case:
    low, high = compared.low or compared.ratio, compared.high or compared.ratio
    holds = (
        True
        if compared.first is compared.second or low >= share
        else False
        if high < share
        else None
    )
    text = (
        f"{as_run(compared.first)} {compared.ratio:.0%} of {compared.second.strategy}, "
        f"{compared.first.place.host}"
    )
    return Case(holds=holds, text=text, rows=compared.rows)


def _spread_against_cpu(group: Sequence[Result]) -> Compared | None:
    spread = fastest([one for one in group if one.strategy == "ps_gpu"])
    on_cpu = fastest([one for one in group if one.strategy == "ps_cpu"])
    return by_speed(spread, on_cpu) if spread and on_cpu else None


def _of_one_source(results: Iterable[Result]) -> list[list[Result]]:
    groups: dict[tuple[object, ...], list[Result]] = {}
    for one in results:
        fixed = [
            one.axes.get(axis)
            for axis in ("model", "batch_size", "data", "precision", "num_gpus", "hosts")
        ]
        groups.setdefault((one.place.versions, *fixed), []).append(one)
    return list(groups.values())


def _on_pcie_p100(results: Iterable[Result]) -> list[Result]:
    return [
        one
        for one in results
        if is_on(one, "P100") and not is_on(one, NVLINK) and one.num_gpus == 8
    ]


def is_on(result: Result, gpus: str) -> bool:
    return re.search(gpus, result.place.machine, re.IGNORECASE) is not None
