"""How close to the lower bound three policies pack simulated sweeps: 8 devices, 200 trials of 1, 2,
4 and 8 GPUs.

`python -m benchmarks.schedule [SEEDS]` prints bound / makespan, the worst and the median of all
seeds (50), once with exact estimates and once with 30 % noise in them. The bound is max(total
GPU-seconds / 8, longest trial); 1 cannot be beaten.
`waited`: worst of all seeds, longest time from the sweep's start to a trial's start / makespan, for
trials of 8 GPUs.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Sequence

from benchmarks.asking import parser
from sweeper.devices.blocks import Blocks
from sweeper.planning.simulate import PlayedSweep, Waiting, simulate
from sweeper.running.schedule import Queue, Running, Task

NUM_DEVICES = 8
BLOCKS = Blocks(order=tuple(range(NUM_DEVICES)), aligned=True, most_at_once=NUM_DEVICES)
NUM_TRIALS = 200
WIDTHS = (1, 2, 4, 8)
NOISE = 0.3  # standard deviation of the logarithm of estimate / duration

DISTRIBUTIONS: dict[str, Callable[[random.Random, int], float]] = {
    "uniform": lambda rng, width: rng.uniform(10, 100),
    "lognormal": lambda rng, width: rng.lognormvariate(3.5, 0.8),
    "lognormal, heavy tail": lambda rng, width: rng.lognormvariate(3.5, 1.2),
    "proportional to width": lambda rng, width: rng.uniform(10, 100) * width,
    "inverse to width": lambda rng, width: rng.uniform(10, 100) / width,
    "two lengths": lambda rng, width: rng.choice((5.0, 200.0)),
    "all equal": lambda rng, width: 30.0,
}


class Sorted:
    """Tasks in a fixed order; with `back_fill` the first that fits, else the first or none."""

    def __init__(self, tasks: Sequence[Task], *, back_fill: bool) -> None:
        self._tasks, self._back_fill = list(tasks), back_fill

    def __len__(self) -> int:
        return len(self._tasks)

    def pop(
        self, fits: Callable[[int], bool], running: Sequence[Running], now_s: float
    ) -> Task | None:
        for index, task in enumerate(self._tasks):
            if fits(task.num_gpus):
                return self._tasks.pop(index)
            if not self._back_fill:
                return None
        return None


POLICIES: dict[str, Callable[[list[Task], int], Waiting]] = {
    "strict FIFO": lambda tasks, seed: Sorted(tasks, back_fill=False),
    "widest first + back-fill": lambda tasks, seed: Sorted(
        sorted(tasks, key=lambda task: -task.num_gpus), back_fill=True
    ),
    "ours": lambda tasks, seed: Queue(tasks, blocks=BLOCKS, seed=seed, packs=True),
}


def trials(distribution: str, seed: int, noise: float) -> tuple[list[Task], dict[int, float]]:
    """Tasks with their estimates, and their true durations by key."""
    rng = random.Random(f"{distribution} {seed}")
    tasks, durations_s = [], {}
    for key in range(NUM_TRIALS):
        width = rng.choice(WIDTHS)
        durations_s[key] = DISTRIBUTIONS[distribution](rng, width)
        expected_s = durations_s[key] * rng.lognormvariate(0, noise)
        tasks.append(Task(key=key, num_gpus=width, expected_s=expected_s, round=0))
    return tasks, durations_s


def efficiency(played: Sequence[PlayedSweep]) -> float:
    """Lower bound / makespan."""
    lengths_s = [one.end_s - one.start_s for one in played]
    work_s = sum(
        length_s * one.task.num_gpus for length_s, one in zip(lengths_s, played, strict=True)
    )
    return max(work_s / NUM_DEVICES, *lengths_s) / max(one.end_s for one in played)


def main(num_seeds: int) -> None:
    for noise in (0.0, NOISE):
        print(
            f"{'exact estimates' if not noise else f'{noise:.0%} noise in the estimates':<26}",
            end="",
        )
        print("".join(f"{policy:>34}" for policy in POLICIES))
        print(" " * 26 + f"{'worst  median  waited':>34}" * len(POLICIES))
        for distribution in DISTRIBUTIONS:
            print(f"{distribution:<26}", end="", flush=True)
            for make in POLICIES.values():
                found, waited = [], []
                for seed in range(num_seeds):
                    tasks, durations_s = trials(distribution, seed, noise)
                    played = simulate(make(tasks, seed), durations_s, BLOCKS)
                    found.append(efficiency(played))
                    widest = [one.start_s for one in played if one.task.num_gpus == NUM_DEVICES]
                    waited.append(max(widest) / max(one.end_s for one in played))
                print(
                    f"{min(found):21.3f} {statistics.median(found):6.3f} {max(waited):5.2f}",
                    end="",
                    flush=True,
                )
            print()
        print()


if __name__ == "__main__":
    main(parser(__doc__, number=50).parse_args().number)
