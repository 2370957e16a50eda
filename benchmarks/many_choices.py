"""How many of those behind `advise` proves to be, among many choices of few repeats, and how often
it calls one of equals worse; beside Tukey's test and Bonferroni's, which take all for alike.

`python -m benchmarks.many_choices [RANKINGS]` prints a Markdown table. Either all choices are
equal, or all but one are 10 % slower. Deviations of processes differ among choices by so much: the
standard deviation of their logarithms.
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from analysis.statistics.studentized_range import pair_quantile
from benchmarks.number import number_to_draw
from benchmarks.raced_advice import ranked
from scalemark.stats.welch import LEVEL, upper_quantile
from sweeper.race.judge import Ruling

NUM_RANKINGS = 1000
NUMS = (5, 20)  # of choices
REPEATS = (2, 3)
DEVIATION = 0.02  # of log images/s of processes
UNLIKE = (0.0, 0.25, 0.5)
BEHIND = 0.1
METHODS = ("advise", "Tukey", "Bonferroni")


def proven(speeds: np.ndarray) -> dict[str, set[int]]:
    """Return by each method which choices are proven to be behind the first; (choices, repeats)."""
    num, num_repeats = speeds.shape
    ranking = ranked(speeds.tolist(), Ruling(leader=None, out={}, wanted={}, tied=()))
    scores = {tuple(of): number for number, of in enumerate(speeds.tolist())}
    found = {scores[one.candidate.scores] for one in ranking.worse if one.is_proven}
    logs = np.log(speeds)
    freedom = num * (num_repeats - 1)
    error = math.sqrt(2 * logs.var(axis=1, ddof=1).mean() / num_repeats)
    distances = logs.mean(axis=1).max() - logs.mean(axis=1)
    bonferroni = upper_quantile(LEVEL / (num * (num - 1)), freedom)
    quantiles = (pair_quantile(num, freedom), bonferroni)
    others = [set(np.flatnonzero(distances > error * quantile)) for quantile in quantiles]
    return dict(zip(METHODS, (found, *others), strict=True))


def play(num: int, num_repeats: int, unlike: float, num_rankings: int) -> list[str]:
    """Return for each method how often an equal is called worse, and the share that is proven."""
    random = np.random.default_rng(1)
    wrong, right = dict.fromkeys(METHODS, 0), dict.fromkeys(METHODS, 0)
    for _ in range(num_rankings):
        deviations = DEVIATION * np.exp(unlike * random.normal(size=(num, 1)))
        noise = deviations * random.normal(size=(num, num_repeats))
        behind = np.log(np.where(np.arange(num) > 0, 1 - BEHIND, 1.0))[:, None]
        of_equals, of_others = proven(100 * np.exp(noise)), proven(100 * np.exp(noise + behind))
        for method in METHODS:
            wrong[method] += bool(of_equals[method])
            right[method] += len(of_others[method] - {0})
    total = num_rankings * (num - 1)
    return [f"{wrong[one] / num_rankings:.1%}, {right[one] / total:.0%}" for one in METHODS]


def main(num_rankings: int) -> None:
    print(f"| choices | repeats | unlike by | {' | '.join(METHODS)} |")
    print(f"|---:|---:|---:|{'---:|' * len(METHODS)}")
    for num, num_repeats, unlike in itertools.product(NUMS, REPEATS, UNLIKE):
        cells = " | ".join(play(num, num_repeats, unlike, num_rankings))
        print(f"| {num} | {num_repeats} | {unlike:g} | {cells} |", flush=True)


if __name__ == "__main__":
    main(number_to_draw(__doc__, NUM_RANKINGS))
