"""Collects everything known of one attempt, of one trial with its attempts, or of one sweep with
its trials.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from scalemark.records.attempt import unpack_steps
from scalemark.records.measurement import counted_calls
from scalemark.records.outcomes import Outcome, Phase
from store.database import reading
from store.filters import targets
from store.filters.targets import Target
from store.reading.queries import Row, selected, with_its_trial
from store.schema import (
    AttemptRow,
    GpuLinkRow,
    GpuRow,
    LeftOutRow,
    MachineRow,
    MeasurementRow,
    NoteRow,
    RepeatRow,
    StepArraysRow,
    SweepRow,
    SweepTrialRow,
    TagRow,
    TrialRow,
)


def show(engine: sa.Engine, which: str) -> Row:
    """Return `trial` and its `attempts`, each with its `machine_facts`, `gpus`, `links`, `steps`,
    `tags` and `notes`; of a sweep `sweep`, `counts` of its repeats, `trials` and `left_out`. Raises
    StoreError when there is no such thing.
    """
    target = targets.find(engine, which)
    return _sweep(engine, target) if target.column == "sweep_id" else show_trial(engine, target)


def show_trial(engine: sa.Engine, target: Target) -> Row:
    """Return what `show` does of an attempt or a trial."""
    found = with_its_trial(engine, target)
    machines = {
        machine_id: _machine(engine, machine_id)
        for machine_id in {row["machine_id"] for row in found["attempts"]}
    }
    with reading(engine) as connection:
        for row in found["attempts"]:
            of = {
                "attempt_id": row["attempt_id"],
                "trial_id": found["trial"]["id"],
                "sweep_id": row["sweep_id"],
            }
            row |= machines[row["machine_id"]]
            row["steps"] = _steps(connection, row["attempt_id"])
            row |= _annotations(connection, of)
        return found | _annotations(connection, {"trial_id": found["trial"]["id"]})


def _machine(engine: sa.Engine, machine_id: int) -> Row:
    machine = sa.select(*MachineRow.__table__.columns).where(MachineRow.id == machine_id)
    gpus = _of_machine(GpuRow, machine_id).order_by(GpuRow.position)
    (facts,) = selected(engine, machine)
    return {
        "machine_facts": facts,
        "gpus": selected(engine, gpus),
        "links": selected(engine, _of_machine(GpuLinkRow, machine_id)),
    }


def _of_machine(table: type[GpuRow] | type[GpuLinkRow], machine_id: int) -> sa.Select[Any]:
    columns = [column for column in table.__table__.columns if column.name != "machine_id"]
    return sa.select(*columns).where(table.machine_id == machine_id)


def _annotations(connection: sa.Connection, of: dict[str, Any]) -> Row:
    """Return tags and notes, of an attempt also those of its trial and its sweep; `of` has the ids
    of each.
    """
    return {
        "tags": _annotated(connection, TagRow, TagRow.tag, of),
        "notes": _annotated(connection, NoteRow, NoteRow.note, of),
    }


def _annotated(
    connection: sa.Connection, table: type[TagRow] | type[NoteRow], text: Any, of: dict[str, Any]
) -> list[Row]:
    whose = sa.case(
        *((getattr(table, name).is_not(None), name.removesuffix("_id")) for name in of), else_=""
    ).label("of")
    own = sa.or_(*(getattr(table, name) == id_ for name, id_ in of.items()))
    statement = sa.select(text, whose, table.added_at).where(own).order_by(table.id)
    return [dict(row) for row in connection.execute(statement).mappings()]


def _steps(connection: sa.Connection, attempt_id: int) -> Row | None:
    """Summarize its calls of the training function; None when there were none."""
    from scalemark.stats.within_process import spread_within  # here: other commands need no numpy

    arrays = sa.select(StepArraysRow.__table__).where(StepArraysRow.attempt_id == attempt_id)
    row = connection.execute(arrays).mappings().first()
    if row is None:
        return None
    steps = unpack_steps(dict(row))
    durations = sorted(step.duration_s for step in steps if step.phase == Phase.MEASURE)
    losses = [step.loss for step in steps if step.loss is not None]
    spread = spread_within([step.duration_s for step in counted_calls(steps)])
    return {
        "num_warm_up_calls": len(steps) - len(durations),
        "num_measured_calls": len(durations),
        "steps_per_call": row["num_steps"],
        "first_call_s": steps[0].duration_s,
        "fastest_s": durations[0] if durations else None,
        "median_s": statistics.median(durations) if durations else None,
        "slowest_s": durations[-1] if durations else None,
        "first_loss": losses[0] if losses else None,
        "last_loss": losses[-1] if losses else None,
        "left_out_of_interval": spread.left_out if spread else "",
    }


def _sweep(engine: sa.Engine, target: Target) -> Row:
    (sweep,) = selected(
        engine, sa.select(*SweepRow.__table__.columns).where(SweepRow.id == target.id)
    )
    states = (
        sa.select(RepeatRow.state, sa.func.count().label("num"))
        .where(RepeatRow.sweep_id == target.id)
        .group_by(RepeatRow.state)
    )
    left_out = sa.select(LeftOutRow.overrides, LeftOutRow.reason).where(
        LeftOutRow.sweep_id == target.id
    )
    with reading(engine) as connection:
        annotations = _annotations(connection, {"sweep_id": target.id})
    return {
        "sweep": sweep,
        "counts": {
            row["state"]: row["num"] for row in selected(engine, states.order_by(RepeatRow.state))
        },
        "trials": _trials(engine, target),
        "left_out": selected(engine, left_out.order_by(LeftOutRow.overrides)),
        **annotations,
    }


_OF_A_TRIAL = (
    TrialRow.model,
    TrialRow.strategy,
    TrialRow.num_gpus,
    TrialRow.batch_size,
    TrialRow.precision,
    TrialRow.data,
)


def _trials(engine: sa.Engine, sweep: Target) -> list[Row]:
    """Return what it asked for, in its order, with the attempts of this sweep that count."""
    asked_for = (
        sa.select(TrialRow.id.label("trial"), *_OF_A_TRIAL)
        .join(SweepTrialRow, SweepTrialRow.trial_id == TrialRow.id)
        .where(SweepTrialRow.sweep_id == sweep.id)
        .order_by(SweepTrialRow.position)
    )
    made = (
        sa.select(AttemptRow.trial_id, AttemptRow.outcome, MeasurementRow.throughput)
        .outerjoin(MeasurementRow, MeasurementRow.attempt_id == AttemptRow.id)
        .where(sweep.has_attempt(), AttemptRow.deleted_at.is_(None))
    )
    attempts: dict[str, list[Row]] = {}
    for row in selected(engine, made):
        attempts.setdefault(row["trial_id"], []).append(row)
    return [
        row | _of_attempts(attempts.get(row["trial"], ())) for row in selected(engine, asked_for)
    ]


def _of_attempts(attempts: Sequence[Row]) -> Row:
    completed = [row["throughput"] for row in attempts if row["outcome"] == Outcome.COMPLETED]
    measured = [value for value in completed if value is not None]
    return {
        "num_attempts": len(attempts),
        "num_completed": len(completed),
        "throughput": statistics.median(measured) if measured else None,
    }
