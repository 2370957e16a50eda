"""Ideal lines of the page's charts: what perfect scaling from the first number on would bring."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from analysis.results import Result

Line = list[tuple[int, float]]
"""Number of GPUs, and what would be ideal there; empty with fewer than two."""


def of_images(results: Sequence[Result]) -> Line:
    """The best on the fewest GPUs that anything completed on, times the GPUs more."""
    able = [(one.num_gpus, one.throughput) for one in results if one.throughput is not None]
    if not able:
        return []
    fewest, best = min(able, key=lambda one: (one[0], -one[1]))
    return _line(results, fewest, lambda num_gpus: best * num_gpus / fewest)


def of_speed_up(results: Sequence[Result]) -> Line:
    """From 1 on the fewest GPUs that a baseline has: `--baseline fewest` need not begin at 1
    GPU.
    """
    fewest = _fewest(results)
    return [] if fewest is None else _line(results, fewest, lambda num_gpus: num_gpus / fewest)


def of_efficiency(results: Sequence[Result]) -> Line:
    fewest = _fewest(results)
    return [] if fewest is None else _line(results, fewest, lambda _: 1.0)


def _fewest(results: Sequence[Result]) -> int | None:
    return min((one.baseline.num_gpus for one in results if one.baseline), default=None)


def _line(results: Sequence[Result], fewest: int, value: Callable[[int], float]) -> Line:
    counts = sorted({one.num_gpus for one in results if one.num_gpus >= fewest})
    return [(num_gpus, value(num_gpus)) for num_gpus in counts] if len(counts) > 1 else []
