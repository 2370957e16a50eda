"""Holds what statistics are made of: one trial's processes, and the steps of each."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from analysis.results import Result, is_quotable
from scalemark.records.measurement import StepSample
from scalemark.records.outcomes import Phase
from scalemark.stats import welch
from store.reading.queries import Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One side of a comparison: the repeats of one trial in one environment."""

    throughput: tuple[float, ...]  # of each process, above 0
    # of each process its measured steps, in order; empty: not at hand
    durations_s: tuple[tuple[float, ...], ...] = ()
    attempt_ids: tuple[int, ...] = ()  # of each process, where known
    unit: str = ""  # of throughput, as images/s; empty where words need none

    def __post_init__(self) -> None:
        if not self.throughput or not all(
            math.isfinite(value) and value > 0 for value in self.throughput
        ):
            raise ValueError(f"{self.throughput}: wanted numbers above 0 of at least one process")
        for known in (self.durations_s, self.attempt_ids):
            if known and len(known) != len(self.throughput):
                raise ValueError(
                    f"{len(known)} of {len(self.throughput)} processes: wanted all or none"
                )

    @classmethod
    def of(cls, throughput: Iterable[float], unit: str = "") -> Sample:
        """Make one without steps."""
        return cls(throughput=tuple(throughput), unit=unit)

    @property
    def num_processes(self) -> int:
        return len(self.throughput)

    @property
    def typical(self) -> float:
        """Geometric mean: what ratios are made of, so that A / B is one over B / A."""
        return welch.typical(self.throughput)


def sample(
    result: Result, attempts: Mapping[int, Row], steps: Mapping[int, Sequence[StepSample]]
) -> Sample:
    """Return the processes of a result with a number to quote.

    `attempts` and `steps` are by attempt's number, as `analysis.selection.Source` has them.
    """
    quotable = [number for number in result.attempt_ids if is_quotable(attempts[number])]
    durations = tuple(measured_durations(steps.get(number, ())) for number in quotable)
    return Sample(
        throughput=tuple(attempts[number]["throughput"] for number in quotable),
        durations_s=durations if all(durations) else (),
        attempt_ids=tuple(quotable),
        unit=result.unit,
    )


def measured_durations(steps: Sequence[StepSample]) -> tuple[float, ...]:
    """Return the seconds of each step after warm-up."""
    return tuple(step.duration_s for step in steps if step.phase == Phase.MEASURE)
