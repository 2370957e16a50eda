"""Reads the machines, the software and the sweeps behind some attempts."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from store.reading.queries import Row, selected
from store.schema import GpuLinkRow, GpuRow, LeftOutRow, MachineRow, SweepRow


def machines(engine: sa.Engine, keys: Sequence[str]) -> list[Row]:
    """Return the machines of these keys, with `gpus`: names, memory, capability and bus of each."""
    columns = MachineRow.__table__.columns
    found = selected(
        engine, sa.select(*columns).where(MachineRow.key.in_(keys)).order_by(MachineRow.id)
    )
    named = ("name", "memory_bytes", "compute_capability", "pci_bus_id")
    for machine in found:
        gpus = sa.select(*(GpuRow.__table__.columns[name] for name in named)).where(
            GpuRow.machine_id == machine["id"]
        )
        machine["gpus"] = selected(engine, gpus.order_by(GpuRow.position))
    return found


def links(engine: sa.Engine, key: str) -> list[Row]:
    """Return the links between each two GPUs of this machine: their UUIDs, `num_nvlinks` and
    `pcie`, as `scalemark.records.machine.GpuLink` has them.
    """
    columns = (
        GpuLinkRow.first_uuid,
        GpuLinkRow.second_uuid,
        GpuLinkRow.num_nvlinks,
        GpuLinkRow.pcie,
    )
    return selected(engine, sa.select(*columns).join(MachineRow).where(MachineRow.key == key))


def numa_nodes(engine: sa.Engine, key: str) -> dict[str, int | None]:
    """Return UUID -> NUMA node of the GPUs of this machine."""
    columns = (GpuRow.uuid, GpuRow.numa_node)
    found = selected(engine, sa.select(*columns).join(MachineRow).where(MachineRow.key == key))
    return {row["uuid"]: row["numa_node"] for row in found}


def sweeps(engine: sa.Engine, names: Sequence[str]) -> list[Row]:
    """Return the sweeps of these names, oldest first, with `left_out`: overrides and reason of each
    cell that was left out.
    """
    columns = (
        SweepRow.id,
        SweepRow.name,
        SweepRow.reason,
        SweepRow.command,
        SweepRow.started_at,
        SweepRow.finished_at,
    )
    found = selected(
        engine,
        sa.select(*columns, SweepRow.origin).where(SweepRow.name.in_(names)).order_by(SweepRow.id),
    )
    for sweep in found:
        cells = sa.select(LeftOutRow.overrides, LeftOutRow.reason).where(
            LeftOutRow.sweep_id == sweep["id"]
        )
        sweep["left_out"] = selected(engine, cells.order_by(LeftOutRow.overrides))
    return found
