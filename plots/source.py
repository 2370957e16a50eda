"""The results that charts and reports are made from, and how each strategy looks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from analysis import source
from plots.looks import Looks, numbered
from scalemark.records.origin import Origin
from scalemark.text.wording import safe_name


@dataclass(frozen=True, kw_only=True)
class Source(source.Source):
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
        each line over several hosts; see `plots.looks`.
        """
        over_hosts = {
            result.line: result.way
            for result in sorted(self.results, key=lambda one: one.hosts)
            if result.hosts > 1
        }
        names = [name for result in self.results for name in (result.strategy, result.way)]
        return numbered(names, over_hosts)
