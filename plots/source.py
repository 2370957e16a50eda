"""The results that charts and reports are made from, their order, and how each line looks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count, zip_longest

from analysis import selection
from analysis.results import Result
from analysis.selection import load
from scalemark.records.references import Origin
from scalemark.records.trial import STRATEGY_COLUMNS
from scalemark.text.wording import natural, safe_name

Looks = Mapping[str, int]
"""By name the number of its color, marker and dashes, for `Palette.style`."""

NUM_COLORS = 7  # of pictures and pages; behind them the same ones begin again

_ARTICLE = tuple(STRATEGY_COLUMNS.values())


def numbered(names: Iterable[str], over_hosts: Mapping[str, str] | None = None) -> Looks:
    """Number the strategies of the article first, always alike; others follow by name. `over_hosts`
    are lines of strategies over several hosts: each has the color of its strategy, with another
    marker and other dashes.
    """
    lines = over_hosts or {}
    others = sorted({*names, *lines.values()} - set(_ARTICLE) - set(lines), key=natural)
    found = {name: number for number, name in enumerate([*_ARTICLE, *others])}
    for line, strategy in lines.items():
        found[line] = next(
            number
            for number in count(found[strategy] + NUM_COLORS, NUM_COLORS)
            if number not in found.values()
        )
    return found


@dataclass(frozen=True, kw_only=True)
class PlotSource(selection.Source):
    """A source of pictures and pages, which say how they were made."""

    command: str  # which makes the same again; stands in files of pictures
    is_log: bool = False  # charts of curves have logarithmic axes
    names_sweep: bool = False  # files have the name of the sweep in theirs

    def file_name(self, what: str) -> str:
        """Name a file of these results: what was not measured here says so. What is simulated says
        of which hardware it is where it is of one, so that sweeps of several profiles leave all of
        their files.
        """
        origin, name = self.selection.origin, what
        if origin is Origin.SIMULATED:
            hosts = {result.environment.host for result in self.results}
            name = f"{what}-{safe_name(min(hosts)) if len(hosts) == 1 else origin}"
        elif origin is not Origin.MEASURED:
            name = f"{what}-{origin}"
        return f"{name}-{safe_name(self.selection.sweep or '')}" if self.names_sweep else name

    @cached_property
    def looks(self) -> Looks:
        """Return the number of the look of each strategy, of each with variables of its own, and of
        each line over several hosts; see `plots.source`.
        """
        over_hosts = {
            result.line: result.way
            for result in sorted(self.results, key=lambda one: one.hosts)
            if result.hosts > 1
        }
        names = [name for result in self.results for name in (result.strategy, result.way)]
        return numbered(names, over_hosts)


@dataclass(frozen=True, kw_only=True)
class FastestFirst(PlotSource):
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
