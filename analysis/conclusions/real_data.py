"""What real data cost against synthetic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from analysis.conclusions.cases import (
    OF_DATA,
    Compared,
    alike,
    as_run,
    by_speed,
    fastest,
    is_real,
    is_synthetic,
)
from analysis.conclusions.conclusion import Conclusion, by_place, counted, listed, rows_of, shares
from analysis.results import Result
from scalemark.stats.welch import Relation


def conclude(results: Sequence[Result]) -> Iterator[Conclusion]:
    for of in by_place(real_against_synthetic(results)).values():
        place = of[0].first.place
        yield Conclusion(
            topic="real_data",
            place=place,
            sentence=f"On the most GPUs real data reach {shares(of)} of synthetic, "
            f"and are slower {counted(of, Relation.LESS)}: {listed(of, as_run, _way)}.",
            rows=rows_of(of),
        )


def real_against_synthetic(
    results: Sequence[Result], num_gpus: int | None = None
) -> list[Compared]:
    """On so many GPUs; None = on the most of each curve that both were run on."""
    most: dict[tuple[object, ...], Compared] = {}
    for group in alike([one for one in results if num_gpus in (None, one.num_gpus)], *OF_DATA):
        real, synthetic = (
            fastest(list(filter(is_real, group))),
            fastest(list(filter(is_synthetic, group))),
        )
        if real and synthetic and (one := by_speed(real, synthetic)):
            curve = (real.place.key, real.curve, real.hosts)
            if curve not in most or most[curve].first.num_gpus < real.num_gpus:
                most[curve] = one
    return list(most.values())


def _way(result: Result) -> str:
    return str(result.axes["data"])
