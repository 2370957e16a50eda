"""How many regressions `guard` finds within three nights, and how often it alarms for nothing,
beside rules that others use.

`python benchmarks/guard.py [YEARS]` draws so many years (50) of each kind: 365 nights x 50 trials,
3 % noise between processes, drift, a season, and six regressions of 3 to 10 %
(`benchmarks/guarding/years.py`). Each rule sees the same years night by night. `false` are alarms a
year that no regression explains (alarms of one night, of however many trials, are one; an alarm up
to 30 nights after a regression in the same trials is none), `at most 1` is the share of years that
have so few. Of `guard` also how often the 95 % intervals of date and size hold the truth.
`--rivals` runs other rules, too, in years of two kinds (`benchmarks/guarding/rules.py`).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

sys.path[0] = str(Path(__file__).resolve().parent.parent)  # beside this file lies another `trainer`

from analysis.guard.changes import Change, changes
from analysis.guard.groups import Floats, Truths
from benchmarks.guarding import rules
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
WITH_RIVALS = (KINDS[0].name, KINDS[4].name)
RIVALS: dict[str, Callable[[Floats], Truths]] = {
    "5 % below the last night": rules.last_night,
    "3 sigma below 14 nights": rules.three_sigma,
    "Perfherder: t of 12 + 12 nights": rules.perfherder,
    "E-divisive + t-test, p < 0.001 (Hunter)": rules.e_divisive,
    "E-divisive + t-test, p < 0.000001": partial(rules.e_divisive, level=1e-6),
}


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


def main(
    num_years: int, kinds: Sequence[Kind], rivals: dict[str, Callable[[Floats], Truths]]
) -> None:
    sizes = " ".join(f"{size:.0%}" for size in SIZES)
    print(
        f"| years | rule | within {SOON} nights: {sizes} | all six | within {LATE} | false | "
        "at most 1 | date holds | size holds |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for kind in kinds:
        for rule, score in scores(kind, num_years, rivals).items():
            print(
                f"| {kind.name} | {rule} | {score.row()} |".replace("%", " %").replace("  %", " %"),
                flush=True,
            )


def scores(
    kind: Kind, num_years: int, rivals: dict[str, Callable[[Floats], Truths]]
) -> dict[str, Score]:
    """Return the score of `guard` and of each rival over the same years."""
    found = {name: Score() for name in ("guard", *rivals)}
    for seed in range(num_years):
        drawn = year(kind, np.random.default_rng(seed))
        mine = [change for change in changes([drawn.record], LEAST) if change.is_slower]
        found["guard"].add(drawn.hits, [_alarm(change) for change in mine])
        _add_intervals(found["guard"], drawn, mine)
        for name, rule in rivals.items():
            found[name].add(drawn.hits, list(_alarms(rule(_filled(drawn.logs)))))
    return found


def _filled(logs: Floats) -> Floats:
    """Give rules that know no gaps the last value that there was."""
    known = np.isfinite(logs)
    places = np.where(known, np.arange(logs.shape[1]), 0)
    last = np.maximum.accumulate(places, axis=1)
    filled: Floats = np.take_along_axis(logs, last, axis=1)
    return np.where(np.isfinite(filled), filled, np.nanmean(logs, axis=1, keepdims=True))


def _alarm(change: Change) -> Alarm:
    cells = [_PLACES[cell.name] for cell in change.cells]
    return Alarm(night=(change.found - FIRST).days, cells=cells)


_PLACES = {
    cell.name: place
    for place, cell in enumerate(
        year(Kind(name="", sizes=()), np.random.default_rng(0)).record.cells
    )
}


def _alarms(truths: Truths) -> Iterator[Alarm]:
    for night in np.flatnonzero(truths.any(axis=0)):
        for cell in np.flatnonzero(truths[:, night]):
            yield Alarm(night=int(night), cells=[int(cell)])


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
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("years", nargs="?", type=int, default=NUM_YEARS, help="of each kind")
    parser.add_argument("--rivals", action="store_true", help="beside other rules")
    given = parser.parse_args()
    if given.rivals:
        main(given.years, [kind for kind in KINDS if kind.name in WITH_RIVALS], RIVALS)
    else:
        main(given.years, [*KINDS, *HARDER], {})
