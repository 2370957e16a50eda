"""What advice is for: a goal, with what must be known to judge by it. Each goal turns images/s into
a score, larger is better.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from analysis.results import Result
from analysis.text.numbers import number
from store.errors import StoreError


class Goal(StrEnum):
    """What is to be best."""

    THROUGHPUT = "throughput"  # images/s
    PER_GPU_HOUR = "per_gpu_hour"  # images per hour of one GPU
    COST = "cost"  # images per currency unit
    DEADLINE = "deadline"  # so many images in time, for the fewest GPU-hours
    ENERGY = "energy"  # images per joule of the GPUs


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """A goal with its inputs."""

    goal: Goal = Goal.THROUGHPUT
    usd_per_gpu_hour: float | None = None
    num_images: float | None = None
    deadline_h: float | None = None

    def __post_init__(self) -> None:
        _check("--usd-per-gpu-hour", self.usd_per_gpu_hour, 1e-6, 1e6)
        _check("--images", self.num_images, 1, 1e15)
        _check("--deadline-h", self.deadline_h, 1e-6, 1e6)
        if self.usd_per_gpu_hour is not None and self.goal not in (Goal.COST, Goal.DEADLINE):
            raise StoreError(
                "--usd-per-gpu-hour: of --goal cost and deadline only; add one, or leave "
                "the price out"
            )
        of_deadline = {"--images": self.num_images, "--deadline-h": self.deadline_h}
        if self.goal is Goal.DEADLINE:
            if missing := [name for name, value in of_deadline.items() if value is None]:
                raise StoreError(
                    f"--goal deadline: needs {' and '.join(missing)}, as --images 1.28e6 "
                    "--deadline-h 2"
                )
        elif useless := [name for name, value in of_deadline.items() if value is not None]:
            raise StoreError(
                f"{' and '.join(useless)}: of --goal deadline only; add it, or leave "
                f"{'/'.join(useless)} out"
            )

    @property
    def needed_throughput(self) -> float | None:
        """To be in time; None without a deadline."""
        if self.num_images is None or self.deadline_h is None:
            return None
        return self.num_images / (3600 * self.deadline_h)

    def scores(self, result: Result, watts: Sequence[float | None]) -> tuple[float, ...] | None:
        """Of each process; None where it cannot be judged. `watts`: of all GPUs of each process."""
        if not result.repeats:
            return None
        return _SCORES[self.goal](self, result, watts)

    def of(self, throughput: float, num_gpus: int, watts_per_gpu: float) -> float:
        """The score of what was not run, as the images/s that it might have."""
        if self.goal is Goal.ENERGY:
            return throughput / (watts_per_gpu * num_gpus)
        return throughput if self.goal is Goal.THROUGHPUT else throughput / num_gpus

    def text(self, score: float, devices: str) -> str:
        """A score as people say it."""
        return _TEXTS[self.goal](self, score, devices)


def _check(name: str, value: float | None, least: float, most: float) -> None:
    """Beyond these nobody means it, and hours would be told with hundreds of digits."""
    if value is not None and not least <= value <= most:
        raise StoreError(f"{name} {value:g}: wanted a number from {least:g} to {most:g}")


def _throughput(_aim: Aim, result: Result, _watts: Sequence[float | None]) -> tuple[float, ...]:
    return result.repeats


def _per_gpu(_aim: Aim, result: Result, _watts: Sequence[float | None]) -> tuple[float, ...]:
    return tuple(value / result.num_gpus for value in result.repeats)


def _per_joule(
    _aim: Aim, result: Result, watts: Sequence[float | None]
) -> tuple[float, ...] | None:
    told = [value / power for value, power in zip(result.repeats, watts, strict=True) if power]
    return tuple(told) or None


_SCORES: Mapping[
    Goal, Callable[[Aim, Result, Sequence[float | None]], tuple[float, ...] | None]
] = {
    Goal.THROUGHPUT: _throughput,
    Goal.PER_GPU_HOUR: _per_gpu,
    Goal.COST: _per_gpu,
    Goal.DEADLINE: _per_gpu,
    Goal.ENERGY: _per_joule,
}
"""Images/s, per GPU, or per watt: what is left out is the same for all that are compared."""


def _usd(aim: Aim, score: float, _devices: str) -> str:
    return f"USD {number(1e6 * (aim.usd_per_gpu_hour or 0.0) / (3600 * score))} per million images"


def _in_time(aim: Aim, score: float, devices: str) -> str:
    hours = (aim.num_images or 0.0) / (3600 * score)
    price = (
        "" if aim.usd_per_gpu_hour is None else f" for USD {number(hours * aim.usd_per_gpu_hour)}"
    )
    return f"{number(hours)} {devices.removesuffix('s')}-hours{price}"


_TEXTS: Mapping[Goal, Callable[[Aim, float, str], str]] = {
    Goal.THROUGHPUT: lambda _aim, score, _devices: f"{number(score)} images/s",
    Goal.PER_GPU_HOUR: lambda _aim, score, devices: (
        f"{number(3.6e-3 * score)} million images per {devices.removesuffix('s')}-hour"
    ),
    Goal.COST: _usd,
    Goal.DEADLINE: _in_time,
    Goal.ENERGY: lambda _aim, score, _devices: f"{number(1 / score)} J per image",
}
