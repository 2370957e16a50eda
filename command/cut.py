"""Cuts the readings of a program into calls of equal size, by interpolation between them.

```
  readings at steps   10   20   30   35 ...
  cut every 10 steps:    | 10 | 10 |         from the end; a remainder at the beginning is left out
```
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from command.clocks import LEAST_BETWEEN_S
from command.points import Column

# lines that come faster are taken together: `command.watch` reads them every few milliseconds
LEAST_CALL_S = LEAST_BETWEEN_S
MOST_CALLS = 20_000
MOST_STEPS = 2**31 - 1  # as databases have it
FLUSH = "have it flush its output (python -u, flush=True, stdbuf -oL)"
TOO_CLOSE = f"its lines came too close together to be timed; {FLUSH}"


class Clock(StrEnum):
    """The origin of the times of steps."""

    RATE = "the program's own rates"
    OWN = "the program's own clock"
    ARRIVAL = "the arrival of its lines"


class CurveError(Exception):
    """Raised for readings that no time of a step follows from; says what is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calls:
    """Steps in calls of equal size."""

    steps_per_call: int
    starts_s: Sequence[float]  # from the beginning of the first
    durations_s: Sequence[float]
    losses: Sequence[float | None]  # the last one known at the end of each
    # on the monotonic clock: the beginning of the first, then the end of each
    arrivals_s: Sequence[float]
    clock: Clock
    items_per_step: float | None  # as asked for, or by the program's rates; None where none tells
    is_fitted: bool = False  # the rates were fitted to the time between the lines
    in_bursts: bool = (
        False  # lines, whose arrival is the clock, came many at once, at long intervals
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    """Columns of readings in their order."""

    steps: Column  # so far
    times: Column  # by the clock that is cut by
    arrivals: Column  # on the monotonic clock
    losses: Column

    def where(self, chosen: NDArray[np.bool_]) -> Readings:
        """Return those that are chosen."""
        return Readings(
            steps=self.steps[chosen],
            times=self.times[chosen],
            arrivals=self.arrivals[chosen],
            losses=self.losses[chosen],
        )


def cut(clock: Clock, readings: Readings, items_per_step: float | None) -> Calls:
    """Cut by interpolation between the readings. Raises CurveError."""
    times = readings.times
    least_call_s = LEAST_CALL_S if clock is Clock.ARRIVAL else 0.0
    if len(times) > 1 and times[-1] - times[0] <= least_call_s:
        raise CurveError(TOO_CLOSE)
    in_bursts = False
    if clock is not Clock.RATE:  # of lines that came at once, the last tells how far it was
        is_last = _is_last(times)
        readings = readings.where(is_last)
        if clock is Clock.ARRIVAL and is_last.mean() < 0.5:
            in_bursts = float(np.median(np.diff(readings.times))) > LEAST_BETWEEN_S
    usual = _usual_gap(readings.steps)
    if clock is Clock.RATE and readings.steps[0] >= 1:
        readings = _with_the_first(readings, usual)
    steps = readings.steps
    size = _size(readings, usual, least_call_s)
    # from the end: the first gap is the one that is often of another size
    edges = steps[-1] - size * np.arange(int((steps[-1] - steps[0]) // size), -1, -1)
    at_edges = np.interp(edges, steps, readings.times)
    last_rows = np.searchsorted(steps, edges[1:], side="right") - 1
    came = readings.where(_is_last(readings.arrivals))
    return Calls(
        steps_per_call=size,
        starts_s=(at_edges[:-1] - at_edges[0]).tolist(),
        durations_s=np.diff(at_edges).tolist(),
        losses=[_finite(float(loss)) for loss in readings.losses[last_rows]],
        arrivals_s=np.interp(edges, came.steps, came.arrivals).tolist(),
        clock=clock,
        items_per_step=items_per_step,
        in_bursts=in_bursts,
    )


def _is_last(times: Column) -> NDArray[np.bool_]:
    """Return which readings are the last of their moment."""
    return np.append(np.diff(times) > 0, True)


def _usual_gap(steps: Column) -> int:
    """Return the steps from one reading to the next, at least 1."""
    gaps = np.diff(steps)
    usual = int(np.median(gaps[gaps > 0])) if (gaps > 0).any() else int(steps[-1])
    return max(1, usual)


def _with_the_first(readings: Readings, usual: int) -> Readings:
    """Return readings by rates with the moment when the steps of the first one began: the first
    rate is of the steps before it, and of no more than `usual` where the program resumes.
    """
    steps, times = readings.steps, readings.times
    begun = min(float(steps[0]), usual)
    return Readings(
        steps=np.concatenate([[steps[0] - begun], steps]),
        times=np.concatenate([[times[0] * (1 - begun / steps[0])], times]),
        arrivals=np.concatenate([readings.arrivals[:1], readings.arrivals]),
        losses=np.concatenate([[math.nan], readings.losses]),
    )


def _size(readings: Readings, usual: int, least_call_s: float) -> int:
    """Return the steps of a call. Raises CurveError."""
    num_steps = readings.steps[-1] - readings.steps[0]
    total_s = readings.times[-1] - readings.times[0]
    if num_steps < 1:
        raise CurveError("it reported one moment only; a step takes from one to the next")
    if num_steps > MOST_STEPS:
        raise CurveError(f"it reported {num_steps:.3g} steps; has `read` taken another number?")
    least_s = max(least_call_s, total_s / MOST_CALLS)
    usual_s = total_s / num_steps * usual
    return int(min(usual * max(1, math.ceil(least_s / usual_s)), num_steps))


def _finite(loss: float) -> float | None:
    return loss if math.isfinite(loss) else None
