"""Writes a machine as rows: itself, its GPUs, and how these reach each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

import sqlalchemy as sa

from scalemark.records.machine import Gpu, Machine
from scalemark.records.validation import build
from store import schema
from store.rows import insert_all, inserted_id


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
