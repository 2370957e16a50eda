"""NCCL against copies, and a parameter server on the CPU against the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from analysis.conclusions.cases import STRATEGY, Compared, alike, by_speed, fastest, model, strategy
from analysis.conclusions.conclusion import Conclusion, by_environment, how_often, listed, shares
from analysis.results import Result
from scalemark.stats.welch import Relation


def nccl(results: Sequence[Result]) -> Iterator[Conclusion]:
    def say(of: list[Compared]) -> str:
        where = of[0].first.environment.counted(of[0].first.num_gpus)
        return (
            f"On {where} NCCL beats the fastest way of copying {how_often(of)}: "
            f"{listed(of, model, strategy)}."
        )

    compared = against_copies(results)
    for num_gpus in sorted({one.first.num_gpus for one in compared}):
        yield from by_environment(
            "nccl", [one for one in compared if one.first.num_gpus == num_gpus], say
        )


def against_copies(
    results: Sequence[Result], is_copy: Callable[[Result], bool] | None = None
) -> list[Compared]:
    """Compare NCCL with the fastest way of copying (None: any) on 2 GPUs or more."""
    found = []
    for group in alike([one for one in results if one.num_gpus > 1], *STRATEGY):
        with_nccl = fastest(one for one in group if is_nccl(one))
        copied = fastest(one for one in group if (is_copy or is_copied)(one))
        if compared := by_speed(with_nccl, copied):
            found.append(compared)
    return found


def is_nccl(result: Result) -> bool:
    is_replicated = bool(result.axes["variable_update"] == "replicated")
    return is_replicated and result.axes["all_reduce"] == "nccl"


def is_copied(result: Result) -> bool:
    """Say whether TensorFlow's own copies carry variables or gradients."""
    is_server = bool(result.axes["variable_update"] == "parameter_server")
    return (is_server and result.axes["all_reduce"] == "none") or is_gathered(result)


def is_gathered(result: Result) -> bool:
    """Say whether every GPU has the variables, and copied gradients meet on one device."""
    is_replicated = bool(result.axes["variable_update"] == "replicated")
    return is_replicated and result.axes["all_reduce"] in ("none", "pscpu", "psgpu")


def parameter_server(results: Sequence[Result]) -> Iterator[Conclusion]:
    """Say how close it comes to the fastest other strategy on the most GPUs."""

    def say(of: list[Compared]) -> str:
        where = of[0].first.environment.counted(of[0].first.num_gpus)
        return (
            f"On {where} a parameter server on the CPU reaches {shares(of)} of the "
            "fastest other strategy, and is slower "
            f"{how_often(of, Relation.LESS)}: {listed(of, model, strategy)}."
        )

    compared = []
    for group in alike([one for one in results if one.num_gpus > 1], *STRATEGY):
        server = next((one for one in group if one.strategy == "ps_cpu"), None)
        other = fastest(one for one in group if one is not server)
        if one := by_speed(server, other):
            compared.append(one)
    yield from by_environment("parameter_server", _widest(compared), say)


def _widest(compared: Sequence[Compared]) -> list[Compared]:
    """Keep of each environment the comparisons on its largest number of GPUs."""
    most: dict[str, int] = {}
    for one in compared:
        key = one.first.environment.key
        most[key] = max(most.get(key, 0), one.first.num_gpus)
    return [one for one in compared if one.first.num_gpus == most[one.first.environment.key]]
