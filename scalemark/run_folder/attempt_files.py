"""Reads what an attempt left in its run folder, such that both databases take it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from scalemark.records import step_arrays
from scalemark.records.measurement import Measurement, Result, StepSample
from scalemark.records.outcomes import Outcome, Phase
from scalemark.run_folder.folder import RunFolder


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """The files that an attempt left, read and checked."""

    result: Result
    steps: Sequence[StepSample]
    environment: dict[str, Any] | None


def read_left(folder: RunFolder, result: Result) -> Left:
    """Read what belongs to a result. Raises ValueError or OSError, naming the file."""
    check_measured(folder, result)
    if result.measurement is None:
        return Left(result=result, steps=[], environment=readable_environment(folder))
    return Left(
        result=result,
        steps=steps_of(folder, result.measurement),
        environment=folder.read_environment(),
    )


def left_of_failed(folder: RunFolder, outcome: Outcome, message: str) -> Left:
    """Return what is left of an attempt whose own result does not count."""
    result = Result(outcome=outcome, message=message, measurement=None, op_placement={})
    return Left(result=result, steps=[], environment=readable_environment(folder))


def check_measured(folder: RunFolder, result: Result) -> None:
    """Raises ValueError."""
    if result.outcome == Outcome.COMPLETED and result.measurement is None:
        raise ValueError(
            f"{folder.result}: outcome=completed, measurement=null: wanted a measurement"
        )


def steps_of(folder: RunFolder, measurement: Measurement) -> list[StepSample]:
    """Read the steps of a measurement. Raises ValueError for fewer, and for impossible ones."""
    steps = folder.read_steps()
    try:
        if steps:
            step_arrays.pack(steps)  # as the database will
    except ValueError as error:
        raise ValueError(f"{folder.steps} is damaged: {error}") from error
    num_measured = sum(step.num_steps for step in steps if step.phase == Phase.MEASURE)
    wanted = 0 if measurement.reported else max(1, measurement.num_steps)
    if num_measured < wanted:
        raise ValueError(
            f"{folder.steps} is cut off: it holds {num_measured} measured steps, the measurement "
            f"was made of {wanted}"
        )
    return steps


def readable_environment(folder: RunFolder) -> dict[str, Any] | None:
    """Read the environment of an attempt that ended badly, where there is a whole one."""
    try:
        return folder.read_environment()
    except (ValueError, OSError):
        return None
