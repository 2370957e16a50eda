"""What was measured: completed attempts have a measurement, its JSON can be read, and its steps are
all there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import sqlalchemy as sa

from scalemark.cli.progress import Progress
from scalemark.records.measurement import GpuTelemetry, Profile
from scalemark.records.outcomes import Outcome, Phase
from scalemark.records.step_arrays import unpack
from store.checks.finding import MADE_BY_HAND, Finding
from store.checks.streaming import as_text, streamed
from store.schema import AttemptRow, MeasurementRow, StepArraysRow, SweepRow

_IN_ITS_FOLDER = (
    "its run folder may still have them: `python -m store rebuild` reads it; else run the trial "
    "again"
)
_ARRAYS = ("duration_over_least", "data_wait", "gap_before", "loss_over_least")
_NUMBERS = (
    "first_step",
    "num_steps",
    "num_warm_up",
    "time_unit_us",
    "least_duration",
    "least_loss",
    "loss_unit",
)


def unmeasured(connection: sa.Connection, progress: Progress) -> Iterator[Finding]:
    """Completed attempts without a measurement."""
    progress("attempts", 0, 0)
    statement = (
        sa.select(AttemptRow.id, AttemptRow.run_dir)
        .outerjoin(MeasurementRow, MeasurementRow.attempt_id == AttemptRow.id)
        .where(AttemptRow.outcome == Outcome.COMPLETED, MeasurementRow.attempt_id.is_(None))
    )
    for row in streamed(connection, statement, "attempts", progress):
        what = "completed, and without a measurement"
        yield Finding(
            table="attempts",
            row=str(row["id"]),
            what=what,
            remedy=f"its run folder {row['run_dir']} may still have it",
        )


def descriptions(connection: sa.Connection, progress: Progress) -> Iterator[Finding]:
    """JSON columns of measurements that their records do not take."""
    columns = {name: as_text(getattr(MeasurementRow, name)) for name in _MAKERS}
    statement = sa.select(
        MeasurementRow.attempt_id, *(column.label(name) for name, column in columns.items())
    )
    for row in streamed(connection, statement, "measurements", progress):
        for name, make in _MAKERS.items():
            if what := problem_of_json(row[name], make):
                yield Finding(
                    table="measurements",
                    row=str(row["attempt_id"]),
                    what=f"{name}: {what}",
                    remedy=MADE_BY_HAND,
                )


def steps(connection: sa.Connection, progress: Progress) -> Iterator[Finding]:
    """Packed steps that cannot be unpacked, or are fewer than were measured; what was imported may
    have come without.
    """
    missing = (
        sa.select(MeasurementRow.attempt_id, MeasurementRow.num_steps)
        .join(AttemptRow, AttemptRow.id == MeasurementRow.attempt_id)
        .join(SweepRow, SweepRow.id == AttemptRow.sweep_id)
        .outerjoin(StepArraysRow, StepArraysRow.attempt_id == MeasurementRow.attempt_id)
        .where(StepArraysRow.attempt_id.is_(None), SweepRow.origin == "")
    )
    for row in streamed(connection, missing, "measurements", progress):
        what = f"it has no steps; its measurement was made of {row['num_steps']}"
        yield Finding(
            table="measurements", row=str(row["attempt_id"]), what=what, remedy=_IN_ITS_FOLDER
        )
    statement = sa.select(
        StepArraysRow.attempt_id,
        *(getattr(StepArraysRow, name) for name in _NUMBERS),
        *(as_text(getattr(StepArraysRow, name)).label(name) for name in _ARRAYS),
        MeasurementRow.num_steps.label("num_measured"),
    ).outerjoin(MeasurementRow, MeasurementRow.attempt_id == StepArraysRow.attempt_id)
    for row in streamed(connection, statement, "step_arrays", progress):
        if what := _problem_of_steps(row):
            yield Finding(
                table="step_arrays", row=str(row["attempt_id"]), what=what, remedy=MADE_BY_HAND
            )


def problem_of_json(text: str | None, make: Callable[[Any], object]) -> str:
    """Why this record cannot be made of it; empty when it can, or there is nothing."""
    try:
        told = None if text is None else json.loads(text)
        if told is not None:
            make(told)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        return f"makes no sense: {type(error).__name__}: {error}"
    return ""


def _problem_of_steps(row: sa.RowMapping) -> str:
    try:
        arrays = {name: json.loads(row[name]) for name in _ARRAYS}
        _check_whole_numbers(arrays)
        found = unpack({name: row[name] for name in _NUMBERS} | arrays)
    except (ValueError, TypeError, OverflowError) as error:
        return f"its steps cannot be unpacked: {error}"
    num_measured = sum(step.num_steps for step in found if step.phase is Phase.MEASURE)
    if row["num_measured"] is not None and num_measured < row["num_measured"]:
        return (
            f"it has {num_measured} measured steps; its measurement was made of "
            f"{row['num_measured']}"
        )
    return ""


def _check_whole_numbers(arrays: dict[str, Any]) -> None:
    for name, values in arrays.items():
        may_miss = name == "loss_over_least"
        if type(values) is not list or not all(
            type(value) is int or (may_miss and value is None) for value in values
        ):
            raise ValueError(f"{name} is not a list of whole numbers")
    if min(arrays["duration_over_least"], default=-1) != 0:
        raise ValueError("the least of its durations is not least_duration")


def _reasons(told: list[object]) -> None:
    if type(told) is not list or not all(isinstance(reason, str) for reason in told):
        raise ValueError("not a list of reasons")


def _telemetry(told: list[dict[str, Any]]) -> list[GpuTelemetry]:
    return [GpuTelemetry(**gpu) for gpu in told]


def _profile(told: dict[str, Any]) -> Profile:
    return Profile(**told)


def _truth(told: dict[str, Any]) -> None:
    if type(told) is not dict or not all(isinstance(value, int | float) for value in told.values()):
        raise ValueError("not numbers by name")


_MAKERS: dict[str, Callable[[Any], object]] = {
    "verdict_reasons": _reasons,
    "gpu_telemetry": _telemetry,
    "profile": _profile,
    "truth": _truth,
}
