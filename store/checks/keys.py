"""Keys are digests of what they stand for: a row that was changed afterwards is found."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import sqlalchemy as sa

from scalemark.cli.progress import Progress
from scalemark.host import software
from scalemark.records.machine import Gpu, Machine
from scalemark.records.references import Reference
from scalemark.records.sweep import sweep_uid
from store.checks.finding import MADE_BY_HAND, Finding
from store.checks.streaming import as_text, streamed
from store.exchange.bulk import RENAMED
from store.finished_attempt import environment_values
from store.rows import digest
from store.schema import (
    Base,
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
    for row, told in _described(connection, EnvironmentRow, progress):
        if isinstance(told, Finding):
            yield told
            continue
        try:
            wanted = environment_values(told)
            software.key(told)
        except (KeyError, TypeError, AttributeError) as error:
            what = f"description: makes no sense: {type(error).__name__}: {error}"
            yield Finding(table="environments", row=str(row["id"]), what=what, remedy=MADE_BY_HAND)
            continue
        del wanted["description"]
        for name in wanted:
            yield from _unlike(row, "environments", name, wanted[name])


def op_placements(connection: sa.Connection, progress: Progress) -> Iterator[Finding]:
    for row, told in _described(connection, OpPlacementRow, progress):
        if isinstance(told, Finding):
            yield told
        else:
            yield from _unlike(row, "op_placements", "key", digest(told))


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
        wanted = [
            _machine(row, gpus.get(row["id"], []), whole_watts) for whole_watts in (False, True)
        ]
        if row["key"] not in (machine.key for machine in wanted):
            yield from _unlike(row, "machines", "key", wanted[0].key)
        if row["num_gpus"] != len(wanted[0].gpus):
            yield from _unlike(row, "machines", "num_gpus", len(wanted[0].gpus))


def identity(connection: sa.Connection, progress: Progress) -> Iterator[Finding]:
    """Of the database itself."""
    progress("database_info", 0, 0)
    if connection.scalar(sa.select(InfoRow.value).where(InfoRow.name == "id")) is None:
        what = "it has no id: who takes rows out of it cannot tell where these are from"
        yield Finding(table="database_info", row="id", what=what, remedy=MADE_BY_HAND)


def _machine(row: sa.RowMapping, gpus: list[sa.RowMapping], whole_watts: bool) -> Machine:
    """As it was told. JSON told power limits as whole numbers or not, which makes another key; the
    column does not know.
    """

    def gpu(row: sa.RowMapping) -> Gpu:
        told: dict[str, Any] = {
            field.name: row[field.name] for field in fields(Gpu) if field.name in row
        }
        limit = told["power_limit_w"]
        if whole_watts and limit is not None and limit == int(limit):
            told["power_limit_w"] = int(limit)
        mig = tuple(gpu(device) for device in gpus if device["mig_parent"] == row["uuid"])
        # near cores are not among what makes the key
        return Gpu(**told | {"cores": (), "mig_devices": mig})

    told = {
        name: row[name]
        for name in (
            "host",
            "cpu",
            "num_cores",
            "memory_bytes",
            "driver",
            "hardware_profile",
            "pool",
        )
    }
    return Machine(**told, gpus=tuple(gpu(one) for one in gpus if one["mig_parent"] is None))


def _described(
    connection: sa.Connection,
    table: type[EnvironmentRow] | type[OpPlacementRow],
    progress: Progress,
) -> Iterator[tuple[sa.RowMapping, Any]]:
    """Rows with their parsed description, or with the finding that it cannot be parsed."""
    columns = [
        column
        for column in Base.metadata.tables[table.__tablename__].columns
        if column.name != "description"
    ]
    statement = sa.select(*columns, as_text(table.description).label("told"))
    for row in streamed(connection, statement, table.__tablename__, progress):
        try:
            yield row, json.loads(row["told"])
        except ValueError as error:
            what = f"description: not JSON: {error}"
            yield (
                row,
                Finding(
                    table=table.__tablename__, row=str(row["id"]), what=what, remedy=MADE_BY_HAND
                ),
            )


def _unlike(row: sa.RowMapping, table: str, column: str, wanted: object) -> Iterator[Finding]:
    if row[column] != wanted:
        what = f"its {column} is {row[column]}; what it stands for gives {wanted}"
        yield Finding(table=table, row=str(row["id"]), what=what, remedy=MADE_BY_HAND)
