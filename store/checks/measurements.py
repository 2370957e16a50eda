"""Checks that completed attempts have a measurement, and measurements their steps."""

from __future__ import annotations

from collections.abc import Iterator

import sqlalchemy as sa

from scalemark.cli.progress import Progress
from scalemark.records.outcomes import Outcome
from store.checks.finding import Finding
from store.checks.streaming import streamed
from store.schema import AttemptRow, MeasurementRow, StepArraysRow, SweepRow

_IN_ITS_FOLDER = (
    "its run folder may still have them: `python -m store rebuild` reads it; else run the trial "
    "again"
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


def without_steps(connection: sa.Connection, progress: Progress) -> Iterator[Finding]:
    """Measurements whose steps are not there; what was imported may have come without."""
    statement = (
        sa.select(MeasurementRow.attempt_id, MeasurementRow.num_steps)
        .join(AttemptRow, AttemptRow.id == MeasurementRow.attempt_id)
        .join(SweepRow, SweepRow.id == AttemptRow.sweep_id)
        .outerjoin(StepArraysRow, StepArraysRow.attempt_id == MeasurementRow.attempt_id)
        .where(StepArraysRow.attempt_id.is_(None), SweepRow.origin == "")
    )
    for row in streamed(connection, statement, "measurements", progress):
        what = f"it has no steps; its measurement was made of {row['num_steps']}"
        yield Finding(
            table="measurements", row=str(row["attempt_id"]), what=what, remedy=_IN_ITS_FOLDER
        )
