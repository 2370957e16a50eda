"""What is known of an attempt that has ended, and how it becomes rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from scalemark.host import software
from scalemark.records import step_arrays
from scalemark.records.measurement import BESIDE_A_MEASUREMENT, Result, StepSample
from scalemark.records.placement import Placement
from store import schema
from store.rows import digest, find_or_insert, inserted_id


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedAttempt:
    """All that is known of an attempt once its process has ended."""

    trial_id: str
    repeat: int
    attempt: int
    exit_code: int | None  # null when nobody saw it end, as duration_s
    placement: Placement
    run_dir: str
    started_at: datetime
    duration_s: float | None
    result: Result
    steps: Sequence[StepSample]
    environment: dict[str, Any] | None  # environment.json, if the trainer came that far


def add_attempt(
    connection: sa.Connection, sweep_id: int, machine_id: int, attempt: FinishedAttempt
) -> int:
    """The attempt, its environment, its measurement and its steps, inside the caller's
    transaction.
    """
    result, placement = attempt.result, attempt.placement
    attempt_id = inserted_id(
        connection,
        schema.AttemptRow,
        {
            "sweep_id": sweep_id,
            "trial_id": attempt.trial_id,
            "machine_id": machine_id,
            "environment_id": environment_id_of(connection, attempt.environment)
            if attempt.environment
            else None,
            "repeat": attempt.repeat,
            "attempt": attempt.attempt,
            "outcome": result.outcome,
            "message": result.message,
            "exit_code": attempt.exit_code,
            "placement_id": placement_id_of(connection, placement),
            "shares_host": placement.shares_host,
            "run_dir": _within_sweep(connection, sweep_id, Path(attempt.run_dir)),
            "started_at": attempt.started_at,
            "duration_s": attempt.duration_s,
        },
    )
    if result.measurement:
        told = asdict(result)
        around = {name: told[name] for name in BESIDE_A_MEASUREMENT}
        op_placement_id = find_or_insert(
            connection,
            schema.OpPlacementRow,
            digest(result.op_placement),
            {"description": result.op_placement},
        )
        values = (
            told["measurement"]
            | around
            | {"attempt_id": attempt_id, "op_placement_id": op_placement_id}
        )
        connection.execute(sa.insert(schema.MeasurementRow).values(values))
    if attempt.steps:
        packed = step_arrays.pack(attempt.steps)
        connection.execute(
            sa.insert(schema.StepArraysRow).values(packed | {"attempt_id": attempt_id})
        )
    return attempt_id


def environment_values(environment: dict[str, Any]) -> dict[str, Any]:
    """The columns of `store.schema.EnvironmentRow`."""
    packages = environment["packages"]
    return {
        "key": digest(environment),
        "software_key": software.key(environment),
        "python": environment["python"],
        "tensorflow": packages.get("tensorflow") or packages.get("tf_nightly") or "unknown",
        "keras": packages.get("keras", "unknown"),
        "scalemark": packages.get("scalemark", "not installed"),
        "revision": environment["commit"],
        "diff": environment.get("diff", ""),
        "cuda": environment.get("cuda", ""),
        "cudnn": environment.get("cudnn", ""),
        "description": environment,
    }


def environment_id_of(connection: sa.Connection, environment: dict[str, Any]) -> int:
    """The row of this environment, made when it is new, inside the caller's transaction."""
    values = environment_values(environment)
    return find_or_insert(connection, schema.EnvironmentRow, values["key"], values)


def placement_id_of(connection: sa.Connection, placement: Placement) -> int:
    """As `environment_id_of`."""
    told = asdict(placement)
    values = told | {name: ",".join(map(str, told[name])) for name in ("devices", "cores", "hosts")}
    return find_or_insert(connection, schema.PlacementRow, digest(values), values)


def _within_sweep(connection: sa.Connection, sweep_id: int, run_dir: Path) -> str:
    """A sweep's attempts have their folders side by side: the folder around them is told once."""
    sweeps = schema.SweepRow
    around = connection.scalar(sa.select(sweeps.run_dir).where(sweeps.id == sweep_id))
    if around is None:
        around = str(run_dir.parent)
        connection.execute(sa.update(sweeps).where(sweeps.id == sweep_id).values(run_dir=around))
    return run_dir.name if str(run_dir.parent) == around else str(run_dir)
