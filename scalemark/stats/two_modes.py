"""Repeats of one trial that fall into two groups, as where a clock is one of two in a process."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

LEAST_GAP = 0.005  # between the groups, as a share; clocks change by more
FEWEST_OF_A_MODE = 2  # a single one is an outlier


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoModes:
    """The two groups."""

    slow: tuple[float, ...]  # throughput, in ascending order
    fast: tuple[float, ...]

    @property
    def words(self) -> str:
        gap = math.sqrt(self.fast[0] * self.fast[-1] / (self.slow[0] * self.slow[-1])) - 1
        return (
            f"two modes, {len(self.slow)} repeats at {self.slow[0]:.4g} to {self.slow[-1]:.4g} and "
            f"{len(self.fast)} at {self.fast[0]:.4g} to {self.fast[-1]:.4g} (+{gap:.1%}): each "
            "process is in either, so few repeats tell little of how often"
        )


def two_modes(speeds: Sequence[float]) -> TwoModes | None:
    """Split repeats where the variance between both sides is greatest; None for no clear split.

    It is clear where of repeats with normal logarithms one sample of 100 would be split so well
    (Engelman & Hartigan 1969). Fewer than 4 repeats show nothing.
    """
    num = len(speeds)
    if num < 2 * FEWEST_OF_A_MODE:
        return None
    ordered = sorted(speeds)
    logs = [math.log(speed) for speed in ordered]
    cuts = range(FEWEST_OF_A_MODE, num - FEWEST_OF_A_MODE + 1)
    cut = min(cuts, key=lambda place: _squares(logs[:place]) + _squares(logs[place:]))
    within = _squares(logs[:cut]) + _squares(logs[cut:])
    gap = logs[cut] - logs[cut - 1]
    if gap < LEAST_GAP or _squares(logs) < math.exp(_clear(num)) * within:
        return None
    return TwoModes(slow=tuple(ordered[:cut]), fast=tuple(ordered[cut:]))


def _clear(num: int) -> float:
    """Return what the logarithm of all squares by those within exceeds in 1 % of normal samples.

    The limit is that of many values; fitted to 4 to 30 (`benchmarks/coverage.py`, `modes`).
    """
    return -math.log(1 - 2 / math.pi) + 2.33 / math.sqrt(num - 2) + 5 / (num - 2)


def _squares(logs: Sequence[float]) -> float:
    mean = math.fsum(logs) / len(logs)
    return math.fsum((log - mean) ** 2 for log in logs)
