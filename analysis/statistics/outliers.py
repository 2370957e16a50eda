"""Steps and processes that lie far from the others: flagged, and kept in every number."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from analysis.statistics.sample import Sample
from analysis.text.numbers import number
from scalemark.stats.median_deviation import median_deviation

FAR_STEP = 6.0  # median deviations from the median; of 100,000 normal steps none is
FAR_PROCESS = 3.5  # as Iglewicz & Hoaglin (1993) recommend
FAR_ENOUGH = 0.02  # of the median: nearer ones change nothing, however much alike the others are
FEWEST_PROCESSES = 4  # of three, two that happen to agree would make the third an outlier


@dataclass(frozen=True, slots=True, kw_only=True)
class OutlyingSteps:
    """Steps of one attempt."""

    places: tuple[int, ...]  # among its measured steps, from 0
    # share of the measured time that they took beyond the median; below 0: they were short
    cost: float

    @property
    def words(self) -> str:
        steps = "1 step is" if len(self.places) == 1 else f"{len(self.places)} steps are"
        return f"{steps} far from the others, {self.cost:+.1%} of the time (kept)"


@dataclass(frozen=True, slots=True, kw_only=True)
class OutlyingProcess:
    """A repeat of one trial."""

    place: int  # among the processes, from 0
    attempt_id: int | None
    throughput: float
    typical: float  # median of all
    unit: str  # of both

    @property
    def words(self) -> str:
        name = f"process {self.place + 1}"
        if self.attempt_id is not None:
            name = f"attempt {self.attempt_id}"
        own = f"{number(self.throughput)} {self.unit}".rstrip()
        return f"{name} is far from the others, {own} against {number(self.typical)} (kept)"


def outlying_steps(durations_s: Sequence[float]) -> OutlyingSteps | None:
    places = _far(durations_s, FAR_STEP)
    if not places:
        return None
    median = statistics.median(durations_s)
    beyond = math.fsum(durations_s[place] - median for place in places)
    return OutlyingSteps(places=tuple(places), cost=beyond / math.fsum(durations_s))


def outlying_processes(side: Sample) -> list[OutlyingProcess]:
    speeds = side.throughput
    if len(speeds) < FEWEST_PROCESSES:
        return []
    return [
        OutlyingProcess(
            place=place,
            attempt_id=side.attempt_ids[place] if side.attempt_ids else None,
            throughput=speeds[place],
            typical=statistics.median(speeds),
            unit=side.unit,
        )
        for place in _far(speeds, FAR_PROCESS)
    ]


def _far(values: Sequence[float], most: float) -> list[int]:
    if not values:
        return []
    median = statistics.median(values)
    edge = max(most * median_deviation(values), FAR_ENOUGH * median)
    return [place for place, value in enumerate(values) if abs(value - median) > edge]
