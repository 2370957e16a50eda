"""How many regressions `guard` finds within three nights, and how often it alarms for nothing.

`python -m benchmarks.guard [YEARS]` draws so many years (50) of each kind: 365 nights x 50 trials,
3 % noise between processes, drift, a season, and six regressions of 3 to 10 %
(`benchmarks/guarding/years.py`). `false` are alarms a
year that no regression explains (alarms of one night, of however many trials, are one; an alarm up
to 30 nights after a regression in the same trials is none), `at most 1` is the share of years that
have so few. Of `guard` also how often the 95 % intervals of date and size hold the truth.
Other rules were measured once in the same years: 5 % below the last night gave 190 alarms a year or
more, E-divisive with a t-test (Hunter) 110, and Perfherder's t of 12 + 12 nights needed 12 nights.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

sys.path[0] = str(Path(__file__).resolve().parent.parent)  # beside this file lies another `trainer`

from analysis.guard.changes import Change, changes
from benchmarks.asking import head, parser, row
from benchmarks.guarding.years import FIRST, SIZES, Hit, Kind, Year, year

NUM_YEARS = 50
SOON = 3  # nights, the first with the regression included
LATE = 30
LEAST = 0.02

KINDS = (
    Kind(name="a cause hits a group; 3 processes a night"),
    Kind(name="a cause hits a group; 1 process a night", num_repeats=1),
    Kind(name="10 trials at most are hit; 3 processes", most_cells=10),
    Kind(name="10 trials at most are hit; 1 process", most_cells=10, num_repeats=1),
    Kind(name="one trial alone is hit; 3 processes", hits_one=True),
    Kind(name="one trial alone is hit; 1 process", hits_one=True, num_repeats=1),
    Kind(name="nothing happens; 1 process", sizes=(), num_repeats=1),
)
HARDER = (
    Kind(name="all trials share 1 % of noise a night", common=0.01),
    Kind(name="drift walks 0.15 % a night", walk=0.0015),
    Kind(name="drift walks 0.3 % a night", walk=0.003),
    Kind(name="heavy tails (t with 4 degrees of freedom)", heavy_tails=True),
    Kind(
        name="1 % of values 20 % lower, 1 % of nights 10 % lower", bad_cells=0.01, bad_nights=0.01
    ),
    Kind(name="20 % of values and of nights missing", missing=0.2),
)


@dataclass(slots=True)
class Alarm:
    """An alarm after a night, for some cells."""

    night: int
    cells: Sequence[int]


@dataclass(slots=True)
class Score:
    """Sums over years."""

    num_years: int = 0
    soon: dict[float, int] = field(default_factory=lambda: dict.fromkeys(SIZES, 0))
    late: int = 0
    num_hits: int = 0
    all_soon: int = 0
    false: list[int] = field(default_factory=list)  # of each year
    dated: list[bool] = field(default_factory=list)
    sized: list[bool] = field(default_factory=list)

    def add(self, hits: Sequence[Hit], alarms: Sequence[Alarm]) -> None:
        self.num_years += 1
        delays = [_delay(hit, alarms) for hit in hits]
        for hit, delay in zip(hits, delays, strict=True):
            self.soon[hit.size] += delay < SOON
        self.late += sum(delay < LATE for delay in delays)
        self.num_hits += len(hits)
        self.all_soon += all(delay < SOON for delay in delays)
        self.false.append(len({one.night for one in alarms if not _is_explained(one, hits)}))

    def row(self) -> str:
        found = " ".join(f"{num / self.num_years:.0%}" for num in self.soon.values())
        late = f"{self.late / self.num_hits:.0%}" if self.num_hits else ""
        all_six = f"{self.all_soon / self.num_years:.0%}"
        if not self.num_hits:
            found = all_six = ""
        at_most_one = np.mean([num <= 1 for num in self.false])
        dated = f"{np.mean(self.dated):.0%}" if self.dated else ""
        sized = f"{np.mean(self.sized):.0%}" if self.sized else ""
        return (
            f"{found} | {all_six} | {late} | {np.mean(self.false):.2f} | {at_most_one:.0%} | "
            f"{dated} | {sized}"
        )


def main(num_years: int) -> None:
    sizes = " ".join(f"{size:.0%}" for size in SIZES)
    head("years", f"within {SOON} nights: {sizes}", "all six", f"within {LATE}", "false",
         "at most 1", "date holds", "size holds")  # fmt: skip
    for kind in (*KINDS, *HARDER):
        row(kind.name, score(kind, num_years).row())


def score(kind: Kind, num_years: int) -> Score:
    """Return what `guard` finds in so many years."""
    total = Score()
    for seed in range(num_years):
        drawn = year(kind, np.random.default_rng(seed))
        slower = [change for change in changes([drawn.record], LEAST) if change.is_slower]
        total.add(drawn.hits, [_alarm(change) for change in slower])
        _add_intervals(total, drawn, slower)
    return total


def _alarm(change: Change) -> Alarm:
    cells = [_PLACES[cell.name] for cell in change.cells]
    return Alarm(night=(change.found - FIRST).days, cells=cells)


_PLACES = {
    cell.name: place
    for place, cell in enumerate(
        year(Kind(name="", sizes=()), np.random.default_rng(0)).record.cells
    )
}


def _delay(hit: Hit, alarms: Sequence[Alarm]) -> int:
    """Return the nights from the first with a regression to the alarm; a large number without."""
    nights = [
        alarm.night - hit.night
        for alarm in alarms
        if alarm.night >= hit.night and np.intersect1d(alarm.cells, hit.cells).size
    ]
    return min(nights, default=10**6)


def _is_explained(alarm: Alarm, hits: Sequence[Hit]) -> bool:
    return any(
        0 <= alarm.night - hit.night < LATE and np.intersect1d(alarm.cells, hit.cells).size
        for hit in hits
    )


def _add_intervals(score: Score, drawn: Year, found: Sequence[Change]) -> None:
    for hit in drawn.hits:
        cells = set(hit.cells.tolist())
        mine = [one for one in found if 0 <= _alarm(one).night - hit.night < LATE]
        mine = [one for one in mine if cells == set(_alarm(one).cells)]
        for change in mine[:1]:
            first, latest = (change.after - FIRST).days + 1, (change.latest - FIRST).days
            score.dated.append(first <= hit.night <= latest)
            score.sized.append(change.low <= -hit.size <= change.high)


if __name__ == "__main__":
    main(parser(__doc__, number=NUM_YEARS).parse_args().number)
