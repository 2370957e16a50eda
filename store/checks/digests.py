"""Checks that keys are digests of what they stand for, and that columns of trials say what their
specs do: a row that was changed later is found.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields

import sqlalchemy as sa

from scalemark.cli.progress import Progress
from scalemark.records.machine import Machine
from scalemark.records.references import Reference
from scalemark.records.sweep import sweep_uid
from scalemark.records.trial import AXES, TrialSpec
from store import schema
from store.checks.finding import Finding, made_by_hand, streamed
from store.exchange.whole_sweeps import RENAMED
from store.finished_attempt import environment_values
from store.machine_rows import machine_gpus
from store.rows import digest
from store.trial_rows import free_columns, free_value


def sweeps(connection: sa.Connection, progress: Progress) -> Iterator[Finding]:
    for row in streamed(connection, sa.select(schema.SweepRow.__table__), "sweeps", progress):
        names = {row["name"]}
        if row["origin"]:
            names.add(RENAMED.sub("", row["name"]))
        wanted = {sweep_uid(name, row["started_at"], row["command"]) for name in names}
        # a sweep that was rebuilt without its sweep.json has no command
        if row["command"] != "" and row["uid"] not in wanted:
            yield from _unlike(row, "sweeps", "uid", min(wanted))


def environments(connection: sa.Connection, progress: Progress) -> Iterator[Finding]:
    statement = sa.select(schema.EnvironmentRow.__table__)
    for row in streamed(connection, statement, "environments", progress):
        try:
            wanted = environment_values(row["description"])
        except (KeyError, TypeError, AttributeError) as error:
            what = f"description: makes no sense: {type(error).__name__}: {error}"
            yield made_by_hand("environments", row["id"], what)
            continue
        for name in wanted:
            yield from _unlike(row, "environments", name, wanted[name])


def op_placements(connection: sa.Connection, progress: Progress) -> Iterator[Finding]:
    statement = sa.select(schema.OpPlacementRow.__table__)
    for row in streamed(connection, statement, "op_placements", progress):
        yield from _unlike(row, "op_placements", "key", digest(row["description"]))


def placements(connection: sa.Connection, progress: Progress) -> Iterator[Finding]:
    statement = sa.select(schema.PlacementRow.__table__)
    for row in streamed(connection, statement, "placements", progress):
        values = {name: row[name] for name in row if name not in ("id", "key")}
        yield from _unlike(row, "placements", "key", digest(values))


def references(connection: sa.Connection, progress: Progress) -> Iterator[Finding]:
    statement = sa.select(schema.ReferenceRow.__table__)
    for row in streamed(connection, statement, "reference_results", progress):
        try:
            reference = Reference(**{field.name: row[field.name] for field in fields(Reference)})
        except ValueError as error:
            yield made_by_hand("reference_results", row["id"], str(error))
        else:
            yield from _unlike(row, "reference_results", "key", reference.key)


def machines(connection: sa.Connection, progress: Progress) -> Iterator[Finding]:
    table = schema.GpuRow
    gpus: dict[int, list[sa.RowMapping]] = {}
    in_order = sa.select(table.__table__).order_by(table.machine_id, table.position)
    for row in streamed(connection, in_order, "gpus", progress):
        gpus.setdefault(row["machine_id"], []).append(row)
    names = {field.name for field in fields(Machine)} - {"gpus", "links"}
    for row in streamed(connection, sa.select(schema.MachineRow.__table__), "machines", progress):
        found = machine_gpus(gpus.get(row["id"], []))
        machine = Machine(**{name: row[name] for name in names}, gpus=found)
        yield from _unlike(row, "machines", "key", machine.key)
        yield from _unlike(row, "machines", "num_gpus", len(found))


def identity(connection: sa.Connection, progress: Progress) -> Iterator[Finding]:
    """Check that the database has an id."""
    info = schema.InfoRow
    if connection.scalar(sa.select(info.value).where(info.name == "id")) is None:
        what = "it has no id: nobody who takes rows out of it can say where they are from"
        yield made_by_hand("database_info", "id", what)


def _unlike(row: sa.RowMapping, table: str, column: str, wanted: object) -> Iterator[Finding]:
    if row[column] != wanted:
        what = f"its {column} is {row[column]}; what it stands for gives {wanted}"
        yield made_by_hand(table, row["id"], what)


def trials(connection: sa.Connection, progress: Progress) -> Iterator[Finding]:
    free = free_columns(connection)
    statement = sa.select(schema.TrialRow.__table__, *free.values())
    for row in streamed(connection, statement, "trials", progress):
        what = _problem(row, free.values())
        if what:
            yield made_by_hand("trials", row["id"], what)


def _problem(row: sa.RowMapping, free: Iterable[sa.Column[object]]) -> str:
    try:
        spec = TrialSpec.from_json(row["spec"])
    except (ValueError, TypeError) as error:
        return f"its spec makes no sense: {error}"
    if spec.to_json() != row["spec"]:
        return "its spec is not canonical JSON"
    if spec.trial_id != row["id"]:
        return f"its id is not the hash of its spec, which is {spec.trial_id}"
    of_spec = dict(spec.free)
    axes = spec.axes
    wanted = {name: axes[name] for name in AXES}
    for column in free:
        wanted[column.name] = free_value(of_spec.get(column.name), column.type)
    different = [name for name in wanted if wanted[name] != row[name]]
    if different:
        differences = ", ".join(f"{name}={row[name]} (spec: {wanted[name]})" for name in different)
        return f"columns differ from its spec: {differences}"
    if row["curve"] != spec.curve:
        return f"its curve is {row['curve']}; its spec's is {spec.curve}"
    if row["strategy"] != spec.strategy:
        return f"its strategy is {row['strategy']}; its spec's is {spec.strategy}"
    return ""
