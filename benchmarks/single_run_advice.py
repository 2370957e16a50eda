"""How often the choice that `advise` calls the best is the best, where it says likely from
single runs: on choices with known truth.

`python -m benchmarks.single_run_advice [RANKINGS]` prints a Markdown table. Choices are up to 30 or
60 % behind, each by a share of it that is drawn, and run once, in processes that differ by so much.
"""

from __future__ import annotations

import itertools
import math
import random

from benchmarks.number import number_to_draw
from benchmarks.raced_advice import ranked
from sweeper.race.judge import Ruling

NUM_RANKINGS = 2000
NUMS = (2, 3, 5, 10, 20)  # of choices
MOST_BEHIND = (0.3, 0.6)
DEVIATIONS = (0.005, 0.01, 0.02, 0.05, 0.1)
FEWEST_SAID = 30  # a share of fewer would tell nothing


def play(num: int, most_behind: float, deviation: float, num_rankings: int) -> tuple[int, int]:
    """Return in how many rankings `advise` says likely, and in how many of these it is right."""
    rng = random.Random(1)
    num_said = num_right = 0
    for _ in range(num_rankings):
        true = [100 * (1 - most_behind * rng.random()) for _ in range(num)]
        speeds = [[speed * math.exp(rng.gauss(0, deviation))] for speed in true]
        ranking = ranked(speeds, Ruling(leader=None, out={}, wanted={}, tied=()))
        if ranking.is_sure and not ranking.tied:
            num_said += 1
            num_right += true[speeds.index(list(ranking.top.scores))] == max(true)
    return num_said, num_right


def main(num_rankings: int) -> None:
    print(f"| choices | up to | {' | '.join(f'{one:.1%}' for one in DEVIATIONS)} |")
    print(f"|---:|---:|{'---:|' * len(DEVIATIONS)}")
    for most_behind, num in itertools.product(MOST_BEHIND, NUMS):
        cells = []
        for deviation in DEVIATIONS:
            num_said, num_right = play(num, most_behind, deviation, num_rankings)
            cell = "seldom"
            if num_said >= FEWEST_SAID:
                cell = f"{num_right / num_said:.0%} of {num_said / num_rankings:.1%}"
            cells.append(cell)
        print(f"| {num} | {most_behind:.0%} behind | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main(number_to_draw(__doc__, NUM_RANKINGS))
