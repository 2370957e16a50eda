"""The results that charts and reports are made from, and how each strategy looks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from analysis import source
from analysis.results import Origin
from plots.looks import Looks, numbered
from scalemark.text.file_name import safe_name


@dataclass(frozen=True, kw_only=True)
class Source(source.Source):
    """A source of pictures and pages, which say how they were made."""

    command: str  # which makes the same again; stands in files of pictures
    is_log: bool = False  # charts of curves have logarithmic axes

    def file_name(self, what: str) -> str:
        """Name a file of these results: what is simulated says so, and of which hardware it is
        where it is of one, so that sweeps of several profiles leave all of their files.
        """
        if self.selection.origin is not Origin.SIMULATED:
            return what
        hosts = {result.environment.host for result in self.results}
        return f"{what}-{safe_name(min(hosts)) if len(hosts) == 1 else 'simulated'}"

    @cached_property
    def looks(self) -> Looks:
        """Return the number of the look of each strategy, and of each line of it over several
        hosts; see `plots.looks`.
        """
        over_hosts = {
            result.line: result.strategy
            for result in sorted(self.results, key=lambda one: one.hosts)
            if result.hosts > 1
        }
        return numbered((result.strategy for result in self.results), over_hosts)
