"""Writes attempts that have ended, with the machine that each ran on: all of them, from the
orchestrator or from a file, come here.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from scalemark.host import software
from scalemark.host.own_code import NOT_INSTALLED
from scalemark.records.attempt import Placement, pack_steps
from scalemark.records.machine import Gpu, Machine
from scalemark.records.measurement import BESIDE_A_MEASUREMENT, AttemptResult, StepSample
from scalemark.records.validation import build
from store import schema
from store.rows import digest, find_or_insert, insert_all, inserted_id, inserted_ids


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedAttempt:
    """An attempt whose process has ended."""

    trial_id: str
    repeat: int
    attempt: int
    exit_code: int | None  # null when nobody saw it end, as duration_s
    placement: Placement
    run_dir: str
    started_at: datetime
    duration_s: float | None
    result: AttemptResult
    steps: Sequence[StepSample]
    environment: dict[str, Any] | None  # environment.json, if the trainer came that far


@dataclass(frozen=True, slots=True, kw_only=True)
class NewAttempt:
    """One attempt as its rows hold it, without the ids of the rows that it shares with others."""

    columns: dict[str, Any]  # of `attempts`
    placement: Placement
    environment: dict[str, Any] | None
    measurement: dict[str, Any] | None  # columns of `measurements`
    op_placement: dict[str, dict[str, int]]
    steps: dict[str, Any] | None  # columns of `step_arrays`


class AttemptWriter:
    """Inserts attempts inside the caller's transaction, whole batches in each statement.

    It remembers the ids of rows that attempts share: it must be dropped when a transaction is
    rolled back.
    """

    def __init__(self) -> None:
        self._ids: dict[Hashable, int] = {}

    def insert(self, connection: sa.Connection, attempts: Sequence[NewAttempt]) -> list[int]:
        """Insert attempts with their environments, placements, measurements and steps."""
        rows = []
        for attempt in attempts:
            find = partial(_placement_id, connection, attempt.placement)
            shared = {
                "placement_id": self.shared_id(attempt.placement, find),
                "environment_id": self._environment_id(connection, attempt.environment),
                "shares_host": attempt.placement.shares_host,
            }
            rows.append(attempt.columns | shared)
        ids = inserted_ids(connection, schema.AttemptRow, rows)
        measurements, steps = [], []
        for attempt_id, attempt in zip(ids, attempts, strict=True):
            own = {"attempt_id": attempt_id}
            if attempt.measurement is not None:
                ops = self._op_placement_id(connection, attempt.op_placement)
                measurements.append(attempt.measurement | own | {"op_placement_id": ops})
            if attempt.steps is not None:
                steps.append(attempt.steps | own)
        insert_all(connection, schema.MeasurementRow, measurements)
        insert_all(connection, schema.StepArraysRow, steps)
        return ids

    def shared_id(self, key: Hashable, find: Callable[[], int]) -> int:
        """Return the id of a row that many attempts share, looked up once."""
        if key not in self._ids:
            self._ids[key] = find()
        return self._ids[key]

    def _environment_id(
        self, connection: sa.Connection, environment: dict[str, Any] | None
    ) -> int | None:
        if environment is None:
            return None
        key = digest(environment)

        def find() -> int:
            values = environment_values(environment)
            return find_or_insert(connection, schema.EnvironmentRow, key, values)

        return self.shared_id(("environment", key), find)

    def _op_placement_id(
        self, connection: sa.Connection, described: dict[str, dict[str, int]]
    ) -> int:
        key = digest(described)
        values = {"description": described}
        return self.shared_id(
            ("operations", key),
            lambda: find_or_insert(connection, schema.OpPlacementRow, key, values),
        )


def add_attempt(
    connection: sa.Connection, sweep_id: int, machine_id: int, attempt: FinishedAttempt
) -> None:
    """Insert one attempt that ended here, inside the caller's transaction."""
    result = asdict(attempt.result)
    measurement = result["measurement"]
    if measurement is not None:
        measurement |= {name: result[name] for name in BESIDE_A_MEASUREMENT}
    columns = {
        "sweep_id": sweep_id,
        "machine_id": machine_id,
        "trial_id": attempt.trial_id,
        "repeat": attempt.repeat,
        "attempt": attempt.attempt,
        "outcome": attempt.result.outcome,
        "message": attempt.result.message,
        "exit_code": attempt.exit_code,
        "run_dir": _within_sweep(connection, sweep_id, Path(attempt.run_dir)),
        "started_at": attempt.started_at,
        "duration_s": attempt.duration_s,
    }
    new = NewAttempt(
        columns=columns,
        placement=attempt.placement,
        environment=attempt.environment or None,
        measurement=measurement,
        op_placement=attempt.result.op_placement,
        steps=pack_steps(attempt.steps) if attempt.steps else None,
    )
    AttemptWriter().insert(connection, [new])


def environment_values(environment: dict[str, Any]) -> dict[str, Any]:
    """Return the columns of `store.schema.EnvironmentRow`."""
    packages = environment["packages"]
    return {
        "key": digest(environment),
        "software_key": software.key(environment),
        "python": environment["python"],
        "tensorflow": packages.get("tensorflow") or packages.get("tf_nightly") or "unknown",
        "keras": packages.get("keras", "unknown"),
        "scalemark": packages.get("scalemark", NOT_INSTALLED),
        "revision": environment["commit"],
        "diff": environment.get("diff", ""),
        "cuda": environment.get("cuda", ""),
        "cudnn": environment.get("cudnn", ""),
        "description": environment,
    }


def _placement_id(connection: sa.Connection, placement: Placement) -> int:
    values = asdict(placement)
    for name in ("devices", "cores", "hosts"):
        values[name] = ",".join(map(str, values[name]))
    return find_or_insert(connection, schema.PlacementRow, digest(values), values)


def _within_sweep(connection: sa.Connection, sweep_id: int, run_dir: Path) -> str:
    """Return the name of a run folder; the folder around it is stored once, with the sweep."""
    sweeps = schema.SweepRow
    around = connection.scalar(sa.select(sweeps.run_dir).where(sweeps.id == sweep_id))
    if around is None:
        around = str(run_dir.parent)
        connection.execute(sa.update(sweeps).where(sweeps.id == sweep_id).values(run_dir=around))
    return run_dir.name if str(run_dir.parent) == around else str(run_dir)


def machine_id_of(connection: sa.Connection, machine: Machine) -> int:
    """Return the id of this machine, which is added when it is new, inside the caller's
    transaction.

    What is not part of its key (links, near cores) stays as it was first. A pool goes by its own
    name, and its GPUs are those of its first host.
    """
    known = connection.scalar(
        sa.select(schema.MachineRow.id).where(schema.MachineRow.key == machine.key)
    )
    if known is not None:
        return known
    columns = {name: getattr(machine, name) for name in _SAME_COLUMNS}
    columns |= {
        "host": machine.pool or machine.host,
        "num_gpus": len(machine.gpus),
        "gpu": machine.gpus[0].name if machine.gpus else "",
    }
    machine_id = inserted_id(connection, schema.MachineRow, columns)
    of_machine = {"machine_id": machine_id}
    insert_all(connection, schema.GpuRow, [of_machine | row for row in _gpus(machine)])
    for link in machine.links:
        first, second = link.between
        ends = {"first_uuid": first, "second_uuid": second}
        row = of_machine | ends | {"num_nvlinks": link.num_nvlinks, "pcie": link.pcie}
        insert_all(connection, schema.GpuLinkRow, [row])
    return machine_id


_SAME_COLUMNS = ("key", "cpu", "num_cores", "memory_bytes", "driver", "hardware_profile", "pool")


def _gpus(machine: Machine) -> Iterator[dict[str, Any]]:
    """Yield each GPU, and the MIG devices cut from it after it."""
    gpus: list[Gpu] = [part for gpu in machine.gpus for part in (gpu, *gpu.mig_devices)]
    for position, gpu in enumerate(gpus):
        row = asdict(gpu) | {"position": position, "cores": ",".join(map(str, gpu.cores))}
        del row["mig_devices"]
        yield row


def machine_gpus(rows: Sequence[Mapping[Any, Any]]) -> tuple[Gpu, ...]:
    """Return the physical GPUs of rows, each with the MIG devices that are cut from it."""
    devices: dict[str, list[Gpu]] = {}
    for row in rows:
        if row["mig_parent"] is not None:
            devices.setdefault(row["mig_parent"], []).append(_gpu(row, ()))
    physical = [row for row in rows if row["mig_parent"] is None]
    return tuple(_gpu(row, tuple(devices.get(row["uuid"], ()))) for row in physical)


def _gpu(row: Mapping[Any, Any], mig_devices: tuple[Gpu, ...]) -> Gpu:
    cores = tuple(map(int, row["cores"].split(","))) if row["cores"] else ()
    values = {name: row[name] for name in _OF_GPU}
    return build(Gpu, values | {"cores": cores, "mig_devices": mig_devices}, "gpu")


_OF_GPU = [field.name for field in fields(Gpu) if field.name not in ("cores", "mig_devices")]
