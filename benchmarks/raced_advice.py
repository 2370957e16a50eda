"""How often `advise` calls one of equals worse after a race: on races with known truth, played
without processes.

`python -m benchmarks.raced_advice [GRIDS]` prints a Markdown table. A grid is one race of
strategies that are equally fast, or of which none is more than 1 % slower, with processes that
differ by so much; three other races may tell how far these differ. Of strategies that are not quite
equal, one is called worse in vain if it is in truth no slower than the one with the highest score.
"""

from __future__ import annotations

import itertools
import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from analysis.advise.questions import Aim
from analysis.advise.ranking import Ranking, rank
from benchmarks.number import number_to_draw
from scalemark.records.origin import Origin
from scalemark.stats.welch import Spread
from sweeper.race.judge import Contender, Ruling, judge

NUM_GRIDS = 1000
NUM_OTHER_RACES = 3
NUMS = (2, 3, 5)  # of strategies
MOST_REPEATS = (3, 5, 10)
DEVIATIONS = (0.005, 0.01, 0.03)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What grids of a row have in common."""

    num: int
    most_repeats: int
    deviation: float  # standard deviation of log images/s of processes
    num_other_races: int = 0
    most_behind: float = 0.0

    @property
    def reported(self) -> str:
        equal = f"up to {self.most_behind:.0%} behind" if self.most_behind else "equal"
        others = f"{self.num_other_races} other races" if self.num_other_races else "no other race"
        return f"{self.num}, {equal} | {self.most_repeats} | {self.deviation:.1%} | {others}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """Grids of a kind."""

    num_raced_out: int  # in which the race put one out
    num_wrong: int  # in which one was called worse in vain


def play(kind: Kind, num_grids: int) -> Score:
    """The same grids for the same kind, whoever asks."""
    rng = random.Random(1)
    num_raced_out = num_wrong = 0
    for _ in range(num_grids):
        true_speeds = [100 * math.exp(-kind.most_behind * rng.random()) for _ in range(kind.num)]
        others = [
            _processes(100.0, kind.deviation, kind.most_repeats, rng)
            for _ in range(kind.num_other_races * kind.num)
        ]
        speeds, ruling = _raced(true_speeds, kind, Spread.sum(map(Spread.of, others)), rng)
        ranking = ranked(speeds, ruling)
        top = true_speeds[speeds.index(list(ranking.top.scores))]
        worse = [true_speeds[speeds.index(list(one.candidate.scores))] for one in ranking.worse]
        num_raced_out += bool(ruling.out)
        num_wrong += any(true_speed >= top for true_speed in worse)
    return Score(num_raced_out=num_raced_out, num_wrong=num_wrong)


def ranked(speeds: Sequence[Sequence[float]], ruling: Ruling) -> Ranking:
    """What `advise` makes of the repeats of a race."""
    found = rank(_results(speeds, ruling), Aim())
    assert found is not None
    return found


def main(num_grids: int) -> None:
    print(
        "| strategies | repeats at most | processes differ by | beside | one was put out | "
        "one was called worse |"
    )
    print("|---|---|---|---|---|---|")
    kinds = itertools.product((0.0, 0.01), (0, NUM_OTHER_RACES), NUMS, MOST_REPEATS, DEVIATIONS)
    for most_behind, num_other_races, num, most_repeats, deviation in kinds:
        kind = Kind(
            num=num,
            most_repeats=most_repeats,
            deviation=deviation,
            num_other_races=num_other_races,
            most_behind=most_behind,
        )
        score = play(kind, num_grids)
        shares = f"{score.num_raced_out / num_grids:.1%} | {score.num_wrong / num_grids:.1%}"
        print(f"| {kind.reported} | {shares} |".replace("%", " %"), flush=True)


def _raced(
    true_speeds: Sequence[float], kind: Kind, others: Spread, rng: random.Random
) -> tuple[list[list[float]], Ruling]:
    """A round of repeats after the other, each of those that are wanted still."""
    speeds: list[list[float]] = [[] for _ in true_speeds]
    while True:
        ruling = _judged(speeds, kind, others)
        wanted = [number for number in range(kind.num) if ruling.wanted[str(number)]]
        if not wanted:
            return speeds, ruling
        fewest = min(len(speeds[number]) for number in wanted)
        for number in wanted:
            if len(speeds[number]) == fewest:
                speeds[number] += _processes(true_speeds[number], kind.deviation, 1, rng)


def _judged(speeds: Sequence[Sequence[float]], kind: Kind, others: Spread) -> Ruling:
    contenders = [
        Contender(
            trial_id=str(number),
            name=str(number),
            speeds=tuple(of),
            num_left=kind.most_repeats - len(of),
        )
        for number, of in enumerate(speeds)
    ]
    return judge(contenders, Spread.sum([others, *map(Spread.of, speeds)]), kind.most_repeats)


def _processes(true_speed: float, deviation: float, num: int, rng: random.Random) -> list[float]:
    return [true_speed * math.exp(rng.gauss(0, deviation)) for _ in range(num)]


def _results(speeds: Sequence[Sequence[float]], ruling: Ruling) -> list[Any]:
    """With what a ranking asks of results."""
    return [
        SimpleNamespace(
            axes={"precision": "fp32", "batch_size": 64},
            num_gpus=1,
            hosts=1,
            environment=SimpleNamespace(origin=Origin.MEASURED),
            repeats=tuple(of),
            throughput=statistics.median(of),
            out_of_race=ruling.out.get(str(number), ""),
        )
        for number, of in enumerate(speeds)
    ]


if __name__ == "__main__":
    main(number_to_draw(__doc__, NUM_GRIDS))
