"""The goals that advice serves. Each turns throughput into a score, of which more is better."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from analysis.results import Result
from analysis.text.numbers import number
from store.errors import StoreError

_LEAST_USD, _MOST_USD = 1e-6, 1e6  # beyond is a slip of the keyboard


class Goal(StrEnum):
    """The quantity that advice optimizes."""

    THROUGHPUT = "throughput"  # items per second
    PER_GPU_HOUR = "per_gpu_hour"  # items per hour of one GPU
    COST = "cost"  # items per currency unit


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """A goal with its input."""

    goal: Goal = Goal.THROUGHPUT
    usd_per_gpu_hour: float | None = None

    def __post_init__(self) -> None:
        price = self.usd_per_gpu_hour
        if price is None:
            return
        if not _LEAST_USD <= price <= _MOST_USD:
            raise StoreError(
                f"--usd-per-gpu-hour {price:g}: wanted a number from {_LEAST_USD:g} to "
                f"{_MOST_USD:g}"
            )
        if self.goal is not Goal.COST:
            raise StoreError("--usd-per-gpu-hour is for --goal cost only")

    def scores(self, result: Result) -> tuple[float, ...]:
        """Return the score of each process, without the price, which is the same for all."""
        return tuple(self.score(value, result.num_gpus) for value in result.repeats)

    def score(self, throughput: float, num_gpus: int) -> float:
        return throughput if self.goal is Goal.THROUGHPUT else throughput / num_gpus

    def text(self, score: float, devices: str, items: str) -> str:
        """Return a score in the unit that people use for the goal, with what is counted."""
        if self.goal is Goal.PER_GPU_HOUR:
            return f"{number(3.6e-3 * score)} million {items} per {devices.removesuffix('s')}-hour"
        if self.goal is Goal.COST:
            usd = 1e6 * (self.usd_per_gpu_hour or 0.0) / (3600 * score)
            return f"USD {number(usd)} per million {items}"
        return f"{number(score)} {items}/s"
