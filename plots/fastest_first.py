"""Orders results so that of each model the first picture is of the setting that is fastest."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest

from analysis.results import Result
from analysis.selection import load
from plots.source import Source


@dataclass(frozen=True, kw_only=True)
class FastestFirst(Source):
    """A source for whoever takes a few pictures only: charts draw in the order of the results."""

    @cached_property
    def results(self) -> list[Result]:
        return fastest_first(load(self.selection))


def fastest_first(results: Sequence[Result]) -> list[Result]:
    """Return the fastest result of each model, then the second of each, and so on.

    Replicas that train apart come behind those that train together, as advice takes none of them.
    """
    by_model: dict[object, list[Result]] = defaultdict(list)
    for result in results:
        by_model[result.axes.get("model")].append(result)
    ordered = [sorted(of_model, key=_place) for of_model in by_model.values()]
    return [one for of_place in zip_longest(*ordered) for one in of_place if one is not None]


def _place(result: Result) -> tuple[bool, float]:
    return result.trains_apart, -(result.throughput or 0.0)
