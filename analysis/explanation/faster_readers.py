"""Finds trials of one box that read the same data faster, where an input seems to be too slow."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from analysis.explanation.ablations import SYNTHETIC, reads
from analysis.results import Result

_MUCH_FASTER = 2.0  # times: the input is then no limit, whatever else it costs


class FasterReaders:
    """Holds the trials that read, by box and by how they read."""

    def __init__(self, results: Iterable[Result]) -> None:
        self._alike: dict[object, list[Result]] = defaultdict(list)
        for result in results:
            if reads(result.axes) and result.axes["data"]:
                self._alike[_way(result)].append(result)

    def than(self, target: Result) -> str:
        """Return which trial reads items as large at more than twice the rate, as a part of a
        sentence; empty without one.
        """
        size = target.axes.get("image_px") or 0
        alike = self._alike.get(_way(target), ())
        others = [one for one in alike if (one.axes.get("image_px") or 0) >= size]
        fastest = max(others, key=lambda one: one.throughput or 0.0, default=target)
        rate, own_rate = fastest.throughput or 0.0, target.throughput or 0.0
        if rate <= _MUCH_FASTER * own_rate:
            return ""
        return (
            f"{fastest.axes['model']} reads {rate:,.0f} {target.unit} of the same data there, and "
            f"this one {own_rate:,.0f}: batches could come in time"
        )


def _way(result: Result) -> tuple[object, ...]:
    axes = result.axes
    how = [(name, axes.get(name)) for name in (*SYNTHETIC, "seq_len", "hosts", "injected")]
    return result.environment.key, result.item, *how
