"""How much each question measures, and the error that says a question could not be answered."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.ratio import Ratio

ROOT = Path(__file__).resolve().parent.parent.parent
SEED = 1  # of the orders in rounds


class BrokenError(Exception):
    """A side did not do its work; `rows` is what could be compared all the same."""

    def __init__(self, reason: str, rows: Sequence[Ratio] = ()) -> None:
        super().__init__(reason)
        self.rows = rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    num_rounds: int
    num_planned: int = 10_000  # trials planned by ours, and pending while its memory is looked at
    # jobs that stock Hydra composes; per job is the difference
    num_composed: tuple[int, int] = (20, 200)
    num_noops: tuple[int, int] = (4, 64)  # attempts of `overhead`; per attempt is the difference
    watched_s: float = 20.0  # how long the orchestrator is looked at in `idle_cost`


def quick(num_rounds: int) -> Settings:
    """As little as shows that everything works."""
    return Settings(
        num_rounds=num_rounds,
        num_planned=160,
        num_composed=(2, 4),
        num_noops=(1, 3),
        watched_s=3.0,
    )


def rounds(num_rounds: int, sides: Sequence[str]) -> Iterator[list[str]]:
    """The sides in a random order of each round, so that drift hits all alike."""
    order = random.Random(SEED)
    for _ in range(num_rounds):
        yield order.sample(sides, len(sides))
