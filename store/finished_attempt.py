"""What is known of an attempt that has ended, and how it becomes rows."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from store import schema, software
from store.records import Placement, Result, StepSample
from store.rows import find_or_insert, inserted_id


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


def add_attempt(connection: sa.Connection, sweep_id: int, machine_id: int, attempt: FinishedAttempt) -> int:
    """The attempt, its environment, its measurement and its steps, inside the caller's transaction."""
    result, placement = attempt.result, attempt.placement
    attempt_id = inserted_id(
        connection,
        schema.AttemptRow,
        {
            "sweep_id": sweep_id,
            "trial_id": attempt.trial_id,
            "machine_id": machine_id,
            "environment_id": _environment_id(connection, attempt.environment),
            "repeat": attempt.repeat,
            "attempt": attempt.attempt,
            "outcome": result.outcome,
            "message": result.message,
            "exit_code": attempt.exit_code,
            "visible_devices": placement.visible_devices,
            "start": placement.start,
            "cores": ",".join(map(str, placement.cores)),
            "shares_host": placement.shares_host,
            "run_dir": attempt.run_dir,
            "started_at": attempt.started_at,
            "duration_s": attempt.duration_s,
        },
    )
    if result.measurement:
        told = asdict(result)
        around = {name: told[name] for name in _STORED_WITH_A_MEASUREMENT}
        values = told["measurement"] | around | {"attempt_id": attempt_id}
        connection.execute(sa.insert(schema.MeasurementRow).values(values))
    if attempt.steps:
        rows = [asdict(step) | {"attempt_id": attempt_id} for step in attempt.steps]
        connection.execute(sa.insert(schema.StepSampleRow), rows)
    return attempt_id


_STORED_WITH_A_MEASUREMENT = ("op_placement", "verdict", "verdict_reasons", "gpu_telemetry", "profile")


def _environment_id(connection: sa.Connection, environment: dict[str, Any] | None) -> int | None:
    if environment is None:
        return None
    packages = environment["packages"]
    key = hashlib.sha256(json.dumps(environment, sort_keys=True).encode()).hexdigest()[:16]
    values = {
        "key": key,
        "software_key": software.key(environment),
        "python": environment["python"],
        "tensorflow": packages.get("tensorflow") or packages.get("tf_nightly") or "unknown",
        "keras": packages.get("keras", "unknown"),
        "scalemark": packages.get("scalemark", "not installed"),
        "revision": environment["commit"],
        "description": environment,
    }
    return find_or_insert(connection, schema.EnvironmentRow, key, values)
