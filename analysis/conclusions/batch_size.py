"""What a larger batch does to efficiency."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from analysis.conclusions.cases import Compared, alike, by_efficiency, on_gpus
from analysis.conclusions.conclusion import Conclusion, by_place, counted, listed, rows_of
from analysis.results import Result


def conclude(results: Sequence[Result]) -> Iterator[Conclusion]:
    for of in by_place(larger(results)).values():
        place = of[0].first.place
        yield Conclusion(
            topic="batch_size",
            place=place,
            sentence=(
                f"The larger batch has the higher efficiency on the most GPUs {counted(of)}: "
                f"{listed(of, subject, named)}."
            ),
            rows=rows_of(of),
        )


def larger(results: Sequence[Result]) -> list[Compared]:
    """The largest batch against the smallest, on the most GPUs that both were run on; nothing else
    differs.
    """
    told = [
        result
        for result in results
        if result.axes["batch_size"] and result.axes.get("scaling") != "strong"
    ]
    most: dict[tuple[object, ...], Compared] = {}
    for group in alike(told, "batch_size"):
        small, large = min(group, key=_batch), max(group, key=_batch)
        if one := by_efficiency(large, small):
            curve = (large.place.key, large.curve, large.hosts)
            if curve not in most or most[curve].first.num_gpus < large.num_gpus:
                most[curve] = one
    return list(most.values())


def _batch(result: Result) -> int:
    return int(result.axes["batch_size"])


def subject(result: Result) -> str:
    return f"{on_gpus(result)} ({result.strategy}, {result.axes['data']} data)"


def named(result: Result) -> str:
    return f"at {result.axes['batch_size']}"
