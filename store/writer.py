"""The one writer of a database: sweeps, trials, and each finished attempt in one transaction."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import filelock
import sqlalchemy as sa

from store import schema, software
from store.database import check_writable, open_for_writing, path_of, writing
from store.errors import StoreError
from store.records import Machine, Outcome, Result, StepSample, TrialSpec, strategy_name


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedAttempt:
    """All that is known of an attempt once its process has ended."""

    trial_id: str
    repeat: int
    attempt: int
    exit_code: int
    visible_devices: str
    run_dir: str
    started_at: datetime
    duration_s: float
    result: Result
    steps: Sequence[StepSample]
    environment: dict[str, Any] | None  # environment.json, if the trainer came that far


class Writer:
    """Raises StoreError from every method when the file cannot be written, with what to do.

    Holds a lock beside the database until it is closed: one writer per file.
    """

    def __init__(self, url: str) -> None:
        path = path_of(url)
        check_writable(path)
        self._lock = filelock.FileLock(f"{path}.lock")
        try:
            self._lock.acquire(blocking=False)
        except filelock.Timeout:
            raise StoreError(f"{path}: another sweep is writing to it; wait for it to end, or choose another file") from None
        try:
            self.engine = open_for_writing(url)
        except StoreError:
            self._lock.release()
            raise

    def close(self) -> None:
        self.engine.dispose()
        self._lock.release()

    def begin_sweep(
        self,
        *,
        name: str,
        reason: str,
        command: str,
        started_at: datetime,
        trials: Iterable[TrialSpec],
        left_out: Iterable[tuple[str, str]],
    ) -> int:
        """Record what a sweep is going to do; left_out holds (overrides, reason). A sweep of this name is continued."""
        with writing(self.engine) as connection:
            sweep_id = connection.scalar(sa.select(schema.SweepRow.id).where(schema.SweepRow.name == name))
            if sweep_id is None:
                values: dict[str, Any] = {"name": name, "reason": reason, "command": command, "started_at": started_at}
                sweep_id = _inserted_id(connection, schema.SweepRow, values)
            for position, spec in enumerate(trials):
                _add_trial(connection, spec)
                values = {"sweep_id": sweep_id, "trial_id": spec.trial_id, "position": position}
                connection.execute(sa.insert(schema.SweepTrialRow).prefix_with("OR IGNORE", dialect="sqlite").values(values))
            for overrides, why in left_out:
                values = {"sweep_id": sweep_id, "overrides": overrides, "reason": why}
                connection.execute(sa.insert(schema.LeftOutRow).prefix_with("OR IGNORE", dialect="sqlite").values(values))
        return sweep_id

    def next_attempt(self, sweep_id: int, trial_id: str) -> tuple[int, int]:
        """Numbers of the repeat and the attempt to run next: a repeat is tried until it completes."""
        table = schema.AttemptRow
        of_trial = (table.sweep_id == sweep_id, table.trial_id == trial_id)
        with writing(self.engine) as connection:
            completed = sa.select(sa.func.count()).where(*of_trial, table.outcome == Outcome.COMPLETED)
            repeat = 1 + (connection.scalar(completed) or 0)
            tried = sa.select(sa.func.max(table.attempt)).where(*of_trial, table.repeat == repeat)
            return repeat, 1 + (connection.scalar(tried) or 0)

    def finish_sweep(self, sweep_id: int, finished_at: datetime) -> None:
        with writing(self.engine) as connection:
            connection.execute(sa.update(schema.SweepRow).where(schema.SweepRow.id == sweep_id).values(finished_at=finished_at))

    def add_machine(self, machine: Machine) -> int:
        """The row of this machine, made when it is new."""
        gpus = [asdict(gpu) for gpu in machine.gpus]
        values = asdict(machine) | {"gpus": gpus, "num_gpus": len(gpus), "gpu": gpus[0]["name"] if gpus else ""}
        with writing(self.engine) as connection:
            return _find_or_insert(connection, schema.MachineRow, machine.key, values)

    def add_attempt(self, sweep_id: int, machine_id: int, attempt: FinishedAttempt) -> int:
        """One transaction: the attempt, its environment, its measurement, its steps."""
        result = attempt.result
        with writing(self.engine) as connection:
            attempt_id = _inserted_id(
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
                    "visible_devices": attempt.visible_devices,
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


def _add_trial(connection: sa.Connection, spec: TrialSpec) -> None:
    if connection.scalar(sa.select(schema.TrialRow.id).where(schema.TrialRow.id == spec.trial_id)):
        return
    strategy = strategy_name(spec.variable_update, spec.local_parameter_device, spec.all_reduce)
    values = asdict(spec) | {"id": spec.trial_id, "strategy": strategy, "spec": spec.to_json()}
    connection.execute(sa.insert(schema.TrialRow).values(values))


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
    return _find_or_insert(connection, schema.EnvironmentRow, key, values)


def _find_or_insert(
    connection: sa.Connection, table: type[schema.MachineRow] | type[schema.EnvironmentRow], key: str, values: dict[str, Any]
) -> int:
    found = connection.scalar(sa.select(table.id).where(table.key == key))
    return found if found is not None else _inserted_id(connection, table, values | {"key": key})


def _inserted_id(connection: sa.Connection, table: type[schema.Base], values: dict[str, Any]) -> int:
    (row_id,) = connection.execute(sa.insert(table).values(values)).inserted_primary_key or (None,)
    assert isinstance(row_id, int)
    return row_id
