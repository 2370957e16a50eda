"""Does NCCL beat copies, on few GPUs and on many?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from analysis.conclusions.cases import STRATEGY, Compared, alike, by_speed, fastest, model, strategy
from analysis.conclusions.conclusion import Conclusion, by_place, counted, listed, rows_of
from analysis.results import Result


def conclude(results: Sequence[Result]) -> Iterator[Conclusion]:
    compared = against_copies(results)
    for num_gpus in sorted({one.first.num_gpus for one in compared}):
        for of in by_place([one for one in compared if one.first.num_gpus == num_gpus]).values():
            place = of[0].first.place
            yield Conclusion(
                topic="nccl",
                place=place,
                sentence=f"On {place.counted(num_gpus)} NCCL beats the fastest way of copying {counted(of)}: "
                f"{listed(of, model, strategy)}.",
                rows=rows_of(of),
            )


def against_copies(
    results: Sequence[Result], copies: Callable[[Result], bool] | None = None
) -> list[Compared]:
    """NCCL against the fastest of these ways without it (None: of all), of the same trial, on 2
    GPUs or more.
    """
    found = []
    for group in alike([result for result in results if result.num_gpus > 1], *STRATEGY):
        nccl, other = (
            fastest(list(filter(is_nccl, group))),
            fastest(list(filter(copies or is_copied, group))),
        )
        if nccl and other and (one := by_speed(nccl, other)):
            found.append(one)
    return found


def is_nccl(result: Result) -> bool:
    return result.axes["all_reduce"] == "nccl" and _update(result) == "replicated"


def is_copied(result: Result) -> bool:
    """Variables or gradients travel by TensorFlow's own copies."""
    return (
        _update(result) == "parameter_server" and result.axes["all_reduce"] == "none"
    ) or is_gathered(result)


def is_gathered(result: Result) -> bool:
    """Every GPU has its variables; copied gradients meet on one device."""
    return _update(result) == "replicated" and result.axes["all_reduce"] in (
        "none",
        "pscpu",
        "psgpu",
    )


def _update(result: Result) -> str:
    return str(result.axes["variable_update"])
