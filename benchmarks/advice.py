"""How often `advise` is right, and how often it calls one of equals worse: on choices with
known truth, without processes.

`python -m benchmarks.advice [RANKINGS] [--only QUESTION]` prints Markdown tables.

- `raced`: a race of strategies that are equally fast, or of which none is more than 1 % slower;
  three other races may tell how far processes differ. One is called worse in vain if it is in
  truth no slower than the one with the highest score.
- `many`: either all choices are equal, or all but one are 10 % slower. Deviations of processes
  differ among choices by so much: the standard deviation of their logarithms. Beside `advise`
  stand Tukey's test and Bonferroni's, which take all for alike.
- `single`: choices are up to 30 or 60 % behind, each by a share of it that is drawn, and run once.
  A cell has the share of likely answers that are right, and how often there is one.
"""

from __future__ import annotations

import itertools
import math
import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from analysis.advise.ranking import Ranking, rank
from analysis.judgement import pair_quantile
from benchmarks.asking import head, parser, row
from scalemark.records.references import Origin
from scalemark.stats.distributions import upper_quantile
from scalemark.stats.welch import LEVEL, Spread
from sweeper.early_stopping.rule import Contender, Ruling, rule_race

NOT_RACED = Ruling(out={}, wanted={})
NUM_OTHER_RACES = 3
METHODS = ("advise", "Tukey", "Bonferroni")
DEVIATION = 0.02  # of log images/s of processes, among many choices
BEHIND = 0.1
FEWEST_SAID = 30  # a share of fewer would tell nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What races of a row have in common."""

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
    """Races of a kind."""

    num_raced_out: int  # in which the race put one out
    num_wrong: int  # in which one was called worse in vain


def ranked(speeds: Sequence[Sequence[float]], ruling: Ruling = NOT_RACED) -> Ranking:
    """Return what `advise` makes of the repeats of each choice."""
    ranking = rank(_results(speeds, ruling))
    assert ranking is not None
    return ranking


def play_races(kind: Kind, num_races: int) -> Score:
    """Play the same races for the same kind."""
    rng = random.Random(1)
    num_raced_out = num_wrong = 0
    for _ in range(num_races):
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


def play_single_runs(
    num: int, most_behind: float, deviation: float, num_rankings: int
) -> tuple[int, int]:
    """Return in how many rankings `advise` says likely, and in how many of these it is right."""
    rng = random.Random(1)
    num_said = num_right = 0
    for _ in range(num_rankings):
        true = [100 * (1 - most_behind * rng.random()) for _ in range(num)]
        speeds = [[speed * math.exp(rng.gauss(0, deviation))] for speed in true]
        ranking = ranked(speeds)
        if ranking.is_sure and not ranking.tied:
            num_said += 1
            num_right += true[speeds.index(list(ranking.top.scores))] == max(true)
    return num_said, num_right


def play_many(num: int, num_repeats: int, unlike: float, num_rankings: int) -> list[str]:
    """Return for each method how often an equal is called worse, and the share that is proven."""
    rng = np.random.default_rng(1)
    wrong, right = dict.fromkeys(METHODS, 0), dict.fromkeys(METHODS, 0)
    behind = np.log(np.where(np.arange(num) > 0, 1 - BEHIND, 1.0))[:, None]
    for _ in range(num_rankings):
        deviations = DEVIATION * np.exp(unlike * rng.normal(size=(num, 1)))
        noise = deviations * rng.normal(size=(num, num_repeats))
        of_equals, of_others = _proven(100 * np.exp(noise)), _proven(100 * np.exp(noise + behind))
        for method in METHODS:
            wrong[method] += bool(of_equals[method])
            right[method] += len(of_others[method] - {0})
    total = num_rankings * (num - 1)
    return [f"{wrong[name] / num_rankings:.1%}, {right[name] / total:.0%}" for name in METHODS]


def raced(num_races: int) -> None:
    head("strategies", "repeats at most", "processes differ by", "beside", "one was put out",
          "one was called worse")  # fmt: skip
    axes = ((0.0, 0.01), (0, NUM_OTHER_RACES), (2, 3, 5), (3, 5, 10), (0.01, 0.03, 0.1))
    for most_behind, num_other_races, num, most_repeats, deviation in itertools.product(*axes):
        kind = Kind(
            num=num,
            most_repeats=most_repeats,
            deviation=deviation,
            num_other_races=num_other_races,
            most_behind=most_behind,
        )
        score = play_races(kind, num_races)
        shares = f"{score.num_raced_out / num_races:.1%} | {score.num_wrong / num_races:.1%}"
        row(kind.reported, shares)


def many(num_rankings: int) -> None:
    head("choices", "repeats", "unlike by", *METHODS)
    for num, num_repeats, unlike in itertools.product((5, 20), (2, 3), (0.0, 0.25, 0.5)):
        row(num, num_repeats, f"{unlike:g}", *play_many(num, num_repeats, unlike, num_rankings))


def single(num_rankings: int) -> None:
    deviations = (0.005, 0.01, 0.02, 0.05, 0.1)
    head("choices", "up to", *(f"{deviation:.1%}" for deviation in deviations))
    for most_behind, num in itertools.product((0.3, 0.6), (2, 3, 5, 10, 20)):
        cells = []
        for deviation in deviations:
            num_said, num_right = play_single_runs(num, most_behind, deviation, num_rankings)
            cell = "seldom"
            if num_said >= FEWEST_SAID:
                cell = f"{num_right / num_said:.0%} of {num_said / num_rankings:.1%}"
            cells.append(cell)
        row(num, f"{most_behind:.0%} behind", *cells)


QUESTIONS: dict[str, Callable[[int], None]] = {"raced": raced, "many": many, "single": single}


def main() -> None:
    options = parser(__doc__, number=1000, only=QUESTIONS).parse_args()
    for name in options.only or QUESTIONS:
        QUESTIONS[name](options.number)
        print()


def _proven(speeds: np.ndarray) -> dict[str, set[int]]:
    """Return by each method which choices are proven to be behind the first; (choices, repeats)."""
    num, num_repeats = speeds.shape
    places = {tuple(of_choice): place for place, of_choice in enumerate(speeds.tolist())}
    worse = ranked(speeds.tolist()).worse
    by_advise = {places[one.candidate.scores] for one in worse if one.is_proven}
    logs = np.log(speeds)
    freedom = num * (num_repeats - 1)
    error = math.sqrt(2 * logs.var(axis=1, ddof=1).mean() / num_repeats)
    distances = logs.mean(axis=1).max() - logs.mean(axis=1)
    bonferroni = upper_quantile(LEVEL / (num * (num - 1)), freedom)
    quantiles = (pair_quantile(num, freedom), bonferroni)
    others = [set(np.flatnonzero(distances > error * quantile)) for quantile in quantiles]
    return dict(zip(METHODS, (by_advise, *others), strict=True))


def _raced(
    true_speeds: Sequence[float], kind: Kind, others: Spread, rng: random.Random
) -> tuple[list[list[float]], Ruling]:
    """Run a round of repeats after the other, each of those that are wanted still."""
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
            speeds=tuple(of_one),
            num_left=kind.most_repeats - len(of_one),
        )
        for number, of_one in enumerate(speeds)
    ]
    return rule_race(contenders, Spread.sum([others, *map(Spread.of, speeds)]), kind.most_repeats)


def _processes(true_speed: float, deviation: float, num: int, rng: random.Random) -> list[float]:
    return [true_speed * math.exp(rng.gauss(0, deviation)) for _ in range(num)]


def _results(speeds: Sequence[Sequence[float]], ruling: Ruling) -> list[Any]:
    """Return objects with what a ranking asks of results."""
    return [
        SimpleNamespace(
            axes={"precision": "fp32", "batch_size": 64},
            num_gpus=1,
            hosts=1,
            environment=SimpleNamespace(origin=Origin.MEASURED),
            repeats=tuple(of_one),
            throughput=statistics.median(of_one),
            out_of_race=ruling.out.get(str(number), ""),
        )
        for number, of_one in enumerate(speeds)
    ]


if __name__ == "__main__":
    main()
