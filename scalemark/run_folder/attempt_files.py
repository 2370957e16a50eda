"""Reads what an attempt left in its run folder, and the last error in its log."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from scalemark.records import step_arrays
from scalemark.records.machine import XidError
from scalemark.records.measurement import Measurement, Result, StepSample
from scalemark.records.outcomes import Outcome, Phase
from scalemark.run_folder.folder import RunFolder, open_regular
from scalemark.text.untrusted import GRAPH_ERROR, quoted, telling_line


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


_TAIL_BYTES = 2**16
_NO_ERROR = "failed call to cuInit"  # what TensorFlow always says where there is no GPU
_ERROR_LINE = re.compile(r"^[EF]\d{4} |Error\b|Fatal|Check failed|terminate called")
_MOST_CHARACTERS = 300


def last_error(log: Path) -> str:
    """Return the last line that looks like an error, or nothing. Raises OSError."""
    with open_regular(log) as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
        return last_error_in(file.read(_TAIL_BYTES).decode(errors="replace"))


def last_error_in(text: str) -> str:
    """Return the last line of a text that looks like an error, or nothing."""
    lines = text.splitlines()
    for number in reversed(range(len(lines))):
        line = lines[number].strip()
        if not _ERROR_LINE.search(line) or _NO_ERROR in line:
            continue
        if line.endswith(GRAPH_ERROR):  # which only announces the error
            line = f"{line} {telling_line(chr(10).join(lines[number + 1 :]))}".rstrip()
        return quoted(line, _MOST_CHARACTERS)
    return ""


_MOST_NAMED = 3  # the first ones tell the cause; others follow from it


def with_gpu_errors(result: Result, folder: RunFolder) -> Result:
    """Add to the message of an attempt that failed or hung what its GPUs had reported."""
    if result.outcome not in (Outcome.FAILED, Outcome.HUNG):
        return result
    message = result.message
    for error in reported_errors(folder)[:_MOST_NAMED]:
        if str(error) not in message:  # a rank may have said it
            message = f"{message}; {error}"
    return replace(result, message=message)


def reported_errors(folder: RunFolder) -> list[XidError]:
    """Return the errors; none where the file makes no sense."""
    try:
        return folder.read_gpu_errors()
    except (OSError, ValueError):
        return []
