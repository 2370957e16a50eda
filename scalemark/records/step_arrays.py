"""Packs the steps of an attempt into one row of small whole numbers, half the size of a row per
step. Plain SQL reads them through the view `step_samples`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from scalemark.records.attempt import LONGEST_S
from scalemark.records.measurement import StepSample
from scalemark.records.outcomes import Phase
from scalemark.records.trial import LARGEST_FLOAT32
from scalemark.records.validation import LARGEST_INTEGER

_DIGITS = 5


def pack(steps: Sequence[StepSample]) -> dict[str, Any]:
    """Return the columns of `store.schema.StepArraysRow`, without attempt_id.

    Times are rounded to five digits of the shortest step, but no finer than microseconds, losses to
    five digits of the smallest. Raises ValueError for steps that no attempt can have.
    """
    first, num_steps = steps[0].step, steps[0].num_steps
    num_warm_up = sum(step.phase == Phase.WARM_UP for step in steps)
    for index, step in enumerate(steps):
        if step.step != first + index * num_steps or step.num_steps != num_steps:
            raise ValueError(
                f"step {step.step}: wanted step {first + index * num_steps}, in calls of "
                f"{num_steps} steps"
            )
        if step.phase != (Phase.WARM_UP if index < num_warm_up else Phase.MEASURE):
            raise ValueError(
                f"step {step.step}: {step.phase} is out of order; wanted warm_up before measure"
            )
    _check_within(steps)
    time_unit_us = _time_unit_us(min(step.duration_s for step in steps))
    seconds = time_unit_us / 1e6
    starts = [round(step.start_s / seconds) for step in steps]
    durations = [round(step.duration_s / seconds) for step in steps]
    shortest = min(durations)
    ends = [0, *(start + duration for start, duration in zip(starts, durations, strict=True))]
    waits = [round(step.data_wait_s / seconds) for step in steps]
    losses = [step.loss for step in steps if step.loss is not None]
    unit, least = _loss_unit(losses), min(losses, default=None)
    return {
        "first_step": first,
        "num_steps": num_steps,
        "num_warm_up": num_warm_up,
        "time_unit_us": time_unit_us,
        "least_duration": shortest,
        "least_loss": least,
        "loss_unit": unit,
        "duration_over_least": [duration - shortest for duration in durations],
        "data_wait": waits if any(waits) else [],
        "gap_before": [start - end for start, end in zip(starts, ends, strict=False)],
        "loss_over_least": [
            None if step.loss is None or least is None else round((step.loss - least) / unit)
            for step in steps
        ],
    }


def _check_within(steps: Sequence[StepSample]) -> None:
    for name, (least, most) in _WITHIN.items():
        for step in steps:
            value = getattr(step, name)
            if value is not None and not least <= value <= most:
                raise ValueError(f"step {step.step}: {name}={value}: wanted {least:g} to {most:g}")


_WITHIN = {
    "step": (0, LARGEST_INTEGER),
    "num_steps": (1, LARGEST_INTEGER),
    "start_s": (-LONGEST_S, LONGEST_S),
    "duration_s": (0, LONGEST_S),
    "data_wait_s": (0, LONGEST_S),
    "loss": (-LARGEST_FLOAT32, LARGEST_FLOAT32),
}
"""Values that the columns hold, and sums of them in SQL."""


def unpack(row: Mapping[str, Any]) -> list[StepSample]:
    """Invert `pack`, except for its rounding."""
    steps = []
    end = 0
    unit_us = row["time_unit_us"]
    waits = row["data_wait"] or [0] * len(row["duration_over_least"])
    columns = zip(
        row["duration_over_least"], waits, row["gap_before"], row["loss_over_least"], strict=True
    )
    for index, (over_least, wait, gap, loss) in enumerate(columns):
        start, duration = end + gap, row["least_duration"] + over_least
        end = start + duration
        steps.append(
            StepSample(
                step=row["first_step"] + index * row["num_steps"],
                phase=Phase.WARM_UP if index < row["num_warm_up"] else Phase.MEASURE,
                start_s=start * unit_us / 1e6,
                duration_s=duration * unit_us / 1e6,
                data_wait_s=wait * unit_us / 1e6,
                loss=None if loss is None else row["least_loss"] + loss * row["loss_unit"],
                num_steps=row["num_steps"],
            )
        )
    return steps


def _time_unit_us(shortest_s: float) -> int:
    return int("1" + "0" * max(len(str(round(shortest_s * 1e6))) - _DIGITS, 0))


def _loss_unit(losses: Sequence[float]) -> float:
    """Return the worth of the last digit that is kept of the smallest loss.

    Of the largest one, sixteen digits are kept at most: a float has no more.
    """
    exponents = [math.floor(math.log10(abs(loss))) + 1 for loss in losses if loss]
    if not exponents:
        return 1.0
    return 10.0 ** max(min(exponents) - _DIGITS, max(exponents) - 16, -300)
