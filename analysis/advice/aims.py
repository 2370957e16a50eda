"""The goals that advice serves. Each turns throughput into a score, of which more is better."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from analysis.results import Result
from analysis.text.numbers import number
from scalemark.text.wording import single
from store.errors import StoreError


class Goal(StrEnum):
    """The quantity that advice optimizes."""

    THROUGHPUT = "throughput"  # items per second
    PER_GPU_HOUR = "per_gpu_hour"  # items per hour of one GPU
    COST = "cost"  # items per currency unit
    DEADLINE = "deadline"  # so many items in time, for the fewest GPU-hours
    ENERGY = "energy"  # items per joule of the GPUs


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """A goal with its inputs."""

    goal: Goal = Goal.THROUGHPUT
    usd_per_gpu_hour: float | None = None
    num_items: float | None = None  # of the item that is counted, as images or tokens
    deadline_h: float | None = None

    def __post_init__(self) -> None:
        _check("--usd-per-gpu-hour", self.usd_per_gpu_hour, 1e-6, 1e6)
        _check("--items", self.num_items, 1, 1e15)
        _check("--deadline-h", self.deadline_h, 1e-6, 1e6)
        if self.usd_per_gpu_hour is not None and self.goal not in (Goal.COST, Goal.DEADLINE):
            raise StoreError("--usd-per-gpu-hour is for --goal cost and --goal deadline only")
        num_missing = (self.num_items, self.deadline_h).count(None)
        if self.goal is Goal.DEADLINE and num_missing > 0:
            raise StoreError(
                "--goal deadline needs --items and --deadline-h, as --items 1.28e6 --deadline-h 2"
            )
        if self.goal is not Goal.DEADLINE and num_missing < 2:
            raise StoreError("--items and --deadline-h are for --goal deadline only")

    @property
    def needed_throughput(self) -> float | None:
        """The throughput that meets the deadline; None without one."""
        if self.num_items is None or self.deadline_h is None:
            return None
        return self.num_items / (3600 * self.deadline_h)

    def scores(self, result: Result, watts: Sequence[float | None]) -> tuple[float, ...]:
        """Return the score of each process, where it can be judged.

        What is the same for all choices is left out, as the price. `watts` has the power of all
        GPUs of each process.
        """
        if self.goal is Goal.THROUGHPUT:
            return result.repeats
        if self.goal is Goal.ENERGY:
            both = zip(result.repeats, watts, strict=True)
            return tuple(value / power for value, power in both if power)
        return tuple(value / result.num_gpus for value in result.repeats)

    def of(self, throughput: float, num_gpus: int, watts_per_gpu: float) -> float:
        """Return the score of a trial that was not run, from the throughput that it might have."""
        if self.goal is Goal.ENERGY:
            return throughput / (watts_per_gpu * num_gpus)
        return throughput if self.goal is Goal.THROUGHPUT else throughput / num_gpus

    def text(self, score: float, devices: str, items: str) -> str:
        """Return a score in the unit that people use for the goal, with what is counted."""
        device = devices.removesuffix("s")
        if self.goal is Goal.PER_GPU_HOUR:
            return f"{number(3.6e-3 * score)} million {items} per {device}-hour"
        if self.goal is Goal.COST:
            usd = 1e6 * (self.usd_per_gpu_hour or 0.0) / (3600 * score)
            return f"USD {number(usd)} per million {items}"
        if self.goal is Goal.ENERGY:
            return f"{number(1 / score)} J per {single(items)}"
        if self.goal is Goal.THROUGHPUT:
            return f"{number(score)} {items}/s"
        hours = (self.num_items or 0.0) / (3600 * score)
        if self.usd_per_gpu_hour is None:
            return f"{number(hours)} {device}-hours"
        return f"{number(hours)} {device}-hours for USD {number(hours * self.usd_per_gpu_hour)}"


def _check(name: str, value: float | None, least: float, most: float) -> None:
    """Refuse slips of the keyboard, whose hours would be printed with hundreds of digits."""
    if value is not None and not least <= value <= most:
        raise StoreError(f"{name} {value:g}: wanted a number from {least:g} to {most:g}")
