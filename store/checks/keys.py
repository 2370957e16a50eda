"""Keys are digests of what they stand for: a row that was changed afterwards is found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import sqlalchemy as sa

from scalemark.cli.progress import Progress
from scalemark.records.machine import Gpu, Machine
from scalemark.records.references import Reference
from scalemark.records.sweep import sweep_uid
from store.checks.finding import MADE_BY_HAND, Finding
from store.checks.streaming import streamed
from store.exchange.bulk import RENAMED
from store.finished_attempt import environment_values
from store.rows import digest
from store.schema import (
    EnvironmentRow,
    GpuRow,
    InfoRow,
    MachineRow,
    OpPlacementRow,
    PlacementRow,
    ReferenceRow,
    SweepRow,
)


def sweeps(connection: sa.Connection, progress: Progress) -> Iterator[Finding]:
    columns = (
        SweepRow.id,
        SweepRow.uid,
        SweepRow.name,
        SweepRow.started_at,
        SweepRow.command,
        SweepRow.origin,
    )
    for row in streamed(connection, sa.select(*columns), "sweeps", progress):
        name = RENAMED.sub("", row["name"]) if row["origin"] else row["name"]
        wanted = {sweep_uid(one, row["started_at"], row["command"]) for one in (name, row["name"])}
        is_known = row["command"] != ""  # not of a sweep that was rebuilt without its sweep.json
        if is_known and row["uid"] not in wanted:
            yield from _unlike(row, "sweeps", "uid", min(wanted))


def environments(connection: sa.Connection, progress: Progress) -> Iterator[Finding]:
    statement = sa.select(EnvironmentRow.__table__)
    for row in streamed(connection, statement, "environments", progress):
        try:
            wanted = environment_values(row["description"])
        except (KeyError, TypeError, AttributeError) as error:
            what = f"description: makes no sense: {type(error).__name__}: {error}"
            yield Finding(table="environments", row=str(row["id"]), what=what, remedy=MADE_BY_HAND)
            continue
        for name in wanted:
            yield from _unlike(row, "environments", name, wanted[name])


def op_placements(connection: sa.Connection, progress: Progress) -> Iterator[Finding]:
    statement = sa.select(OpPlacementRow.__table__)
    for row in streamed(connection, statement, "op_placements", progress):
        yield from _unlike(row, "op_placements", "key", digest(row["description"]))


def placements(connection: sa.Connection, progress: Progress) -> Iterator[Finding]:
    for row in streamed(connection, sa.select(PlacementRow.__table__), "placements", progress):
        yield from _unlike(
            row,
            "placements",
            "key",
            digest({name: row[name] for name in row if name not in ("id", "key")}),
        )


def references(connection: sa.Connection, progress: Progress) -> Iterator[Finding]:
    for row in streamed(
        connection, sa.select(ReferenceRow.__table__), "reference_results", progress
    ):
        try:
            reference = Reference(**{field.name: row[field.name] for field in fields(Reference)})
        except ValueError as error:
            yield Finding(
                table="reference_results", row=str(row["id"]), what=str(error), remedy=MADE_BY_HAND
            )
        else:
            yield from _unlike(row, "reference_results", "key", reference.key)


def machines(connection: sa.Connection, progress: Progress) -> Iterator[Finding]:
    gpus: dict[int, list[sa.RowMapping]] = {}
    for row in streamed(
        connection,
        sa.select(GpuRow.__table__).order_by(GpuRow.machine_id, GpuRow.position),
        "gpus",
        progress,
    ):
        gpus.setdefault(row["machine_id"], []).append(row)
    for row in streamed(connection, sa.select(MachineRow.__table__), "machines", progress):
        machine = _machine(row, gpus.get(row["id"], []))
        yield from _unlike(row, "machines", "key", machine.key)
        yield from _unlike(row, "machines", "num_gpus", len(machine.gpus))


def identity(connection: sa.Connection, progress: Progress) -> Iterator[Finding]:
    """Of the database itself."""
    progress("database_info", 0, 0)
    if connection.scalar(sa.select(InfoRow.value).where(InfoRow.name == "id")) is None:
        what = "it has no id: who takes rows out of it cannot tell where these are from"
        yield Finding(table="database_info", row="id", what=what, remedy=MADE_BY_HAND)


def _machine(row: sa.RowMapping, gpus: list[sa.RowMapping]) -> Machine:
    def gpu(row: sa.RowMapping) -> Gpu:
        told: dict[str, Any] = {
            field.name: row[field.name] for field in fields(Gpu) if field.name in row
        }
        mig = tuple(gpu(device) for device in gpus if device["mig_parent"] == row["uuid"])
        # near cores are not among what makes the key
        return Gpu(**told | {"cores": (), "mig_devices": mig})

    names = {field.name for field in fields(Machine)} - {"gpus", "links"}
    told = {name: row[name] for name in names}
    return Machine(**told, gpus=tuple(gpu(one) for one in gpus if one["mig_parent"] is None))


def _unlike(row: sa.RowMapping, table: str, column: str, wanted: object) -> Iterator[Finding]:
    if row[column] != wanted:
        what = f"its {column} is {row[column]}; what it stands for gives {wanted}"
        yield Finding(table=table, row=str(row["id"]), what=what, remedy=MADE_BY_HAND)
