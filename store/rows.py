"""Inserts attempts with their machines, and others' figures, inside the caller's transaction."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa

from scalemark.host import software
from scalemark.host.own_code import NOT_INSTALLED
from scalemark.records.attempt import Placement, pack_steps
from scalemark.records.machine import Gpu, Machine
from scalemark.records.measurement import BESIDE_A_MEASUREMENT, AttemptResult, StepSample
from scalemark.records.references import Reference
from scalemark.records.validation import build
from store import schema


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


def add_attempts(
    connection: sa.Connection, sweep_id: int, attempts: Sequence[tuple[int, FinishedAttempt]]
) -> None:
    """Insert attempts of a sweep, each with the id of its machine: all that they measured, too."""
    shared: dict[tuple[str, str], int] = {}
    rows = []
    for machine_id, attempt in attempts:
        environment_id = None
        if attempt.environment:
            values = environment_values(attempt.environment)
            environment_id = _shared_id(
                connection, shared, schema.EnvironmentRow, attempt.environment, values
            )
        placement = asdict(attempt.placement)
        for name in ("devices", "cores", "hosts"):
            placement[name] = ",".join(map(str, placement[name]))
        row = {name: getattr(attempt, name) for name in _OF_ATTEMPT}
        row |= {
            "sweep_id": sweep_id,
            "machine_id": machine_id,
            "environment_id": environment_id,
            "placement_id": _shared_id(
                connection, shared, schema.PlacementRow, placement, placement
            ),
            "outcome": attempt.result.outcome,
            "message": attempt.result.message,
            "shares_host": attempt.placement.shares_host,
            "run_dir": _within_sweep(connection, sweep_id, Path(attempt.run_dir)),
        }
        rows.append(row)
    if not rows:
        return
    table = schema.AttemptRow
    statement = sa.insert(table).returning(table.id, sort_by_parameter_order=True)
    ids = connection.scalars(statement, rows)
    measured = []
    for attempt_id, (_, attempt) in zip(ids, attempts, strict=True):
        measured.append((attempt_id, attempt.result, attempt.steps))
    _add_measured(connection, measured)


def replace_measured(
    connection: sa.Connection, attempt_id: int, result: AttemptResult, steps: Sequence[StepSample]
) -> None:
    """Put another result in place of what an attempt has, inside the caller's transaction."""
    for table in (schema.MeasurementRow, schema.StepArraysRow):
        connection.execute(sa.delete(table).where(table.attempt_id == attempt_id))
    row = sa.update(schema.AttemptRow).where(schema.AttemptRow.id == attempt_id)
    connection.execute(row.values(outcome=result.outcome, message=result.message))
    _add_measured(connection, [(attempt_id, result, steps)])


def _add_measured(
    connection: sa.Connection,
    results: Sequence[tuple[int, AttemptResult, Sequence[StepSample]]],
) -> None:
    """Insert what attempts measured, each by its id."""
    shared: dict[tuple[str, str], int] = {}
    measurements, arrays = [], []
    for attempt_id, made, steps in results:
        result = asdict(made)
        if result["measurement"] is not None:
            ops = result["op_placement"]
            row = {name: result[name] for name in BESIDE_A_MEASUREMENT}
            row["op_placement_id"] = _shared_id(
                connection, shared, schema.OpPlacementRow, ops, {"description": ops}
            )
            measurements.append(row | result["measurement"] | {"attempt_id": attempt_id})
        if steps:
            arrays.append(pack_steps(steps) | {"attempt_id": attempt_id})
    insert_all(connection, schema.MeasurementRow, measurements)
    insert_all(connection, schema.StepArraysRow, arrays)


_Shared = type[schema.EnvironmentRow] | type[schema.PlacementRow] | type[schema.OpPlacementRow]


def _shared_id(
    connection: sa.Connection,
    shared: dict[tuple[str, str], int],  # those that were looked up already
    table: _Shared,
    described: Any,
    values: dict[str, Any],
) -> int:
    """Return the id of a row that many attempts share."""
    key = digest(described)
    known = shared.get((table.__tablename__, key))
    if known is None:
        known = connection.scalar(sa.select(table.id).where(table.key == key))
    if known is None:
        known = inserted_id(connection, table, values | {"key": key})
    shared[table.__tablename__, key] = known
    return known


_OF_ATTEMPT = ("trial_id", "repeat", "attempt", "exit_code", "started_at", "duration_s")


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


def _within_sweep(connection: sa.Connection, sweep_id: int, run_dir: Path) -> str:
    """Return the name of a run folder; the folder around it is stored once, with the sweep."""
    sweeps = schema.SweepRow
    around = connection.scalar(sa.select(sweeps.run_dir).where(sweeps.id == sweep_id))
    if around is None:
        around = str(run_dir.parent)
        connection.execute(sa.update(sweeps).where(sweeps.id == sweep_id).values(run_dir=around))
    if str(run_dir.parent) == around:
        return run_dir.name
    return str(run_dir)


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
    # MIG devices after the GPU that they are cut from
    gpus: list[Gpu] = [part for gpu in machine.gpus for part in (gpu, *gpu.mig_devices)]
    rows = []
    for position, gpu in enumerate(gpus):
        row = asdict(gpu) | {"position": position, "cores": ",".join(map(str, gpu.cores))}
        del row["mig_devices"]
        rows.append(of_machine | row)
    insert_all(connection, schema.GpuRow, rows)
    for link in machine.links:
        first, second = link.between
        ends = {"first_uuid": first, "second_uuid": second}
        row = of_machine | ends | {"num_nvlinks": link.num_nvlinks, "pcie": link.pcie}
        insert_all(connection, schema.GpuLinkRow, [row])
    return machine_id


_SAME_COLUMNS = ("key", "cpu", "num_cores", "memory_bytes", "driver", "hardware_profile", "pool")


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


def digest(value: object) -> str:
    """Return a digest of canonical JSON: the key of a row that many others share."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def insert_all(
    connection: sa.Connection, table: type[schema.Base], rows: Sequence[dict[str, Any]]
) -> None:
    if rows:
        connection.execute(sa.insert(table), rows)


def inserted_id(connection: sa.Connection, table: type[schema.Base], values: dict[str, Any]) -> int:
    (row_id,) = connection.execute(sa.insert(table).values(values)).inserted_primary_key or (None,)
    assert isinstance(row_id, int)
    return row_id


_Item = TypeVar("_Item")
_CHUNK = 500  # values in one statement; SQLite takes no more than 32,766


def in_chunks(items: Sequence[_Item]) -> Iterator[Sequence[_Item]]:
    """Return as many at a time as one statement takes."""
    return (items[begin : begin + _CHUNK] for begin in range(0, len(items), _CHUNK))


def add_references(connection: sa.Connection, references: Iterable[Reference]) -> int:
    """Add them within the caller's transaction; return how many were not there yet."""
    new = {reference.key: reference for reference in references}
    for keys in in_chunks(list(new)):
        for known in connection.scalars(
            sa.select(schema.ReferenceRow.key).where(schema.ReferenceRow.key.in_(keys))
        ):
            del new[known]
    rows = [{"key": key, **reference.values} for key, reference in new.items()]
    insert_all(connection, schema.ReferenceRow, rows)
    return len(rows)
