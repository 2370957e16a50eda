"""How a machine becomes rows: itself, its GPUs, and how these reach each other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import sqlalchemy as sa

from scalemark.records.machine import Gpu, Machine
from store import schema
from store.rows import insert_all, inserted_id


def machine_id_of(connection: sa.Connection, machine: Machine) -> int:
    """The row of this machine, made when it is new, inside the caller's transaction.

    What was learned to be told later (links, near cores) stays as it was told first. A pool goes by
    its own name, and its GPUs are those of the host that was told first.
    """
    known = connection.scalar(
        sa.select(schema.MachineRow.id).where(schema.MachineRow.key == machine.key)
    )
    if known is not None:
        return known
    told = {name: getattr(machine, name) for name in _TOLD} | {"host": machine.pool or machine.host}
    counted = {"num_gpus": len(machine.gpus), "gpu": machine.gpus[0].name if machine.gpus else ""}
    machine_id = inserted_id(connection, schema.MachineRow, told | counted)
    of_machine = {"machine_id": machine_id}
    insert_all(connection, schema.GpuRow, [of_machine | row for row in _gpus(machine)])
    links = [
        {
            "first_uuid": link.between[0],
            "second_uuid": link.between[1],
            "num_nvlinks": link.num_nvlinks,
            "pcie": link.pcie,
        }
        for link in machine.links
    ]
    insert_all(connection, schema.GpuLinkRow, [of_machine | row for row in links])
    return machine_id


_TOLD = ("key", "host", "cpu", "num_cores", "memory_bytes", "driver", "hardware_profile", "pool")


def _gpus(machine: Machine) -> Iterator[dict[str, Any]]:
    """Each GPU, and the MIG devices cut from it after it."""
    found: list[Gpu] = [one for gpu in machine.gpus for one in (gpu, *gpu.mig_devices)]
    for position, gpu in enumerate(found):
        told = asdict(gpu) | {"position": position, "cores": ",".join(map(str, gpu.cores))}
        del told["mig_devices"]
        yield told
