"""Reads portable records out of a database: what is to travel to another one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import sqlalchemy as sa

from scalemark.records.attempt import spec_of
from scalemark.records.machine import Gpu, GpuLink, Machine
from scalemark.records.measurement import BESIDE_A_MEASUREMENT, Measurement
from scalemark.records.placement import Placement
from scalemark.records.references import Reference, Rejected
from scalemark.records.trial import TrialSpec
from scalemark.records.validation import build, checked, parsed
from store import schema
from store.exchange.annotations import read_annotations
from store.exchange.portable import (
    OF_AN_ATTEMPT,
    Measured,
    PackedSteps,
    Portable,
    PortableAttempt,
    PortableRepeat,
    PortableSweep,
    PortableTrial,
    SweepHead,
)
from store.exchange.repeat_records import read_repeats
from store.sweeps.repeat_states import in_chunks

Selection = sa.Select[int]

_Row = Mapping[Any, Any]
_UNREADABLE = (ValueError, TypeError, OverflowError)  # the last: a time after the year 9999


def database_id(connection: sa.Connection) -> str:
    """Return the id by which other databases know where rows of this one are from."""
    info = schema.InfoRow
    return str(connection.scalar(sa.select(info.value).where(info.name == "id")))


class PortableRows:
    """Reads within one view of the database. Sweeps that were measured into it get `origin` as
    theirs.

    A record that cannot travel, as a damaged row, is rejected with its reason; `name` names the
    database there.
    """

    def __init__(
        self, connection: sa.Connection, name: str, origin: str, with_steps: bool = True
    ) -> None:
        self._connection = connection
        self._name = name
        self._with_steps = with_steps
        self._shared = _SharedRows(connection, origin)

    def everything(self, ids: Selection | None = None) -> Iterator[Portable | Rejected]:
        """Yield all that belongs to the selected attempts, or all; of a selection, no
        references.
        """
        yield from self.sweeps(ids)
        yield from self.trials(ids)
        yield from self.attempts(ids)
        if ids is None:
            yield from self.references()

    def attempts(self, ids: Selection | None = None) -> Iterator[PortableAttempt | Rejected]:
        """Yield the selected attempts, or all, also deleted ones; sweep by sweep, oldest first."""
        table = schema.AttemptRow
        wanted = sa.select(table.id).order_by(table.sweep_id, table.id)
        if ids is not None:
            wanted = wanted.where(table.id.in_(ids))
        for chunk in in_chunks(self._connection.scalars(wanted).all()):
            yield from self.numbered(chunk)

    def numbered(self, ids: Sequence[int]) -> list[PortableAttempt | Rejected]:
        """Return the attempts of these ids, as many as one statement takes."""
        try:
            return self._read(ids)
        except _UNREADABLE as error:  # one of them holds what is no JSON, or no time
            if len(ids) == 1:
                return [self._rejected(f"attempt {ids[0]}", error)]
            return [found for one in ids for found in self.numbered([one])]

    def trials(self, ids: Selection | None = None) -> Iterator[PortableTrial | Rejected]:
        """Yield what sweeps asked for: the trials of the selected attempts, or all with their
        repeats that have no attempt.
        """
        table, attempts = schema.SweepTrialRow, schema.AttemptRow
        order = (table.sweep_id, table.position, table.trial_id)
        statement = sa.select(table.__table__).order_by(*order)
        if ids is not None:
            selected = sa.select(attempts.sweep_id, attempts.trial_id).where(attempts.id.in_(ids))
            statement = statement.where(sa.tuple_(table.sweep_id, table.trial_id).in_(selected))
        for rows in in_chunks(self._connection.execute(statement).mappings().all()):
            yield from self._trials(rows, with_repeats=ids is None)

    def sweeps(self, ids: Selection | None = None) -> Iterator[PortableSweep | Rejected]:
        """Yield the sweeps of the selected attempts, or all."""
        table, cells, attempts = schema.SweepRow, schema.LeftOutRow, schema.AttemptRow
        statement = sa.select(table.id).order_by(table.id)
        if ids is not None:
            selected = sa.select(attempts.sweep_id).where(attempts.id.in_(ids))
            statement = statement.where(table.id.in_(selected))
        for sweep_id in self._connection.scalars(statement).all():
            left_out = sa.select(cells.overrides, cells.reason).where(cells.sweep_id == sweep_id)
            refused = self._connection.execute(left_out.order_by(cells.overrides))
            try:
                tags, notes = read_annotations(self._connection, "sweep_id", [sweep_id])
                yield PortableSweep(
                    sweep=self._shared.sweep(sweep_id),
                    left_out=tuple((overrides, reason) for overrides, reason in refused),
                    tags=tags.get(sweep_id, ()),
                    notes=notes.get(sweep_id, ()),
                )
            except (ValueError, TypeError) as error:
                yield self._rejected(f"sweep {sweep_id}", error)

    def references(self) -> Iterator[Reference | Rejected]:
        table = schema.ReferenceRow
        for row in self._connection.execute(sa.select(table.__table__).order_by(table.id)):
            try:
                yield build(Reference, {one.name: getattr(row, one.name) for one in _REFERENCE})
            except ValueError as error:
                yield self._rejected(f"reference {row.key}", error)

    def _rejected(self, which: str, error: Exception) -> Rejected:
        return Rejected(where=f"{self._name} {which}", reason=str(error))

    def _trials(self, rows: Sequence[_Row], with_repeats: bool) -> list[PortableTrial | Rejected]:
        """Return these trials of sweeps, as many as one statement takes."""
        names = [f"trial {row['trial_id']} of sweep {row['sweep_id']}" for row in rows]
        try:
            trial_ids = [row["trial_id"] for row in rows]
            tags, notes = read_annotations(self._connection, "trial_id", trial_ids)
            idle = self._without_attempt(rows) if with_repeats else {}
        except _UNREADABLE as error:  # one of them holds what is no time
            if len(rows) == 1:
                return [self._rejected(names[0], error)]
            return [found for row in rows for found in self._trials([row], with_repeats)]
        found: list[PortableTrial | Rejected] = []
        for name, row in zip(names, rows, strict=True):
            sweep_id, trial_id = row["sweep_id"], row["trial_id"]
            try:
                trial = PortableTrial(
                    sweep=self._shared.sweep(sweep_id),
                    position=row["position"],
                    trial_id=trial_id,
                    spec=self._shared.spec(trial_id),
                    repeats=tuple(idle.get((sweep_id, trial_id), ())),
                    tags=tags.get(trial_id, ()),
                    notes=notes.get(trial_id, ()),
                )
                found.append(trial)
            except (ValueError, TypeError) as error:
                found.append(self._rejected(name, error))
        return found

    def _read(self, ids: Sequence[int]) -> list[PortableAttempt | Rejected]:
        table, links = schema.AttemptRow, schema.SweepTrialRow
        is_link = (links.sweep_id == table.sweep_id) & (links.trial_id == table.trial_id)
        statement = sa.select(table.__table__, links.position).outerjoin(links, is_link)
        ordered = statement.where(table.id.in_(ids)).order_by(table.sweep_id, table.id)
        rows = self._connection.execute(ordered).mappings().all()
        measured = self._measured(ids)
        steps = self._steps(ids) if self._with_steps else {}
        tags, notes = read_annotations(self._connection, "attempt_id", ids)
        keys = {(row["sweep_id"], row["trial_id"], row["repeat"]) for row in rows}
        repeats = read_repeats(self._connection, keys)
        found: list[PortableAttempt | Rejected] = []
        for row in rows:
            row_id = row["id"]
            repeat = repeats.get((row["sweep_id"], row["trial_id"], row["repeat"]))
            try:
                if repeat is None:
                    raise ValueError(f"its repeat {row['repeat']} is missing")
                values: dict[str, Any] = {name: row[name] for name in OF_AN_ATTEMPT}
                values |= {
                    "sweep": self._shared.sweep(row["sweep_id"]),
                    "spec": self._shared.spec(row["trial_id"]),
                    "position": row["position"] or 0,
                    "repeat": repeat,
                    "machine": self._shared.machine(row["machine_id"]),
                    "placement": self._shared.placement(row["placement_id"]),
                    "environment": self._shared.environment(row["environment_id"]),
                    "measured": _measured_of(measured.get(row_id)),
                    "steps": _steps_of(steps.get(row_id)),
                    "tags": tags.get(row_id, ()),
                    "notes": notes.get(row_id, ()),
                }
                found.append(build(PortableAttempt, values))
            except (ValueError, TypeError) as error:
                found.append(self._rejected(f"attempt {row_id}", error))
        return found

    def _measured(self, ids: Sequence[int]) -> dict[int, _Row]:
        table, ops = schema.MeasurementRow, schema.OpPlacementRow
        with_ops = sa.select(table.__table__, ops.description.label("op_placement"))
        statement = with_ops.join(ops, ops.id == table.op_placement_id)
        rows = self._connection.execute(statement.where(table.attempt_id.in_(ids))).mappings()
        return {row["attempt_id"]: row for row in rows}

    def _steps(self, ids: Sequence[int]) -> dict[int, _Row]:
        table = schema.StepArraysRow
        statement = sa.select(table.__table__).where(table.attempt_id.in_(ids))
        return {row["attempt_id"]: row for row in self._connection.execute(statement).mappings()}

    def _without_attempt(self, rows: Sequence[_Row]) -> dict[tuple[int, str], list[PortableRepeat]]:
        """Return the repeats without an attempt by sweep and trial."""
        table, attempts = schema.RepeatRow, schema.AttemptRow
        has_attempt = sa.exists().where(
            attempts.sweep_id == table.sweep_id,
            attempts.trial_id == table.trial_id,
            attempts.repeat == table.repeat,
        )
        statement = sa.select(table.sweep_id, table.trial_id, table.repeat).where(
            table.sweep_id.in_({row["sweep_id"] for row in rows}),
            table.trial_id.in_({row["trial_id"] for row in rows}),
            ~has_attempt,
        )
        keys = {(row[0], row[1], row[2]) for row in self._connection.execute(statement)}
        found: dict[tuple[int, str], list[PortableRepeat]] = {}
        repeats = read_repeats(self._connection, keys)
        for sweep_id, trial_id, number in sorted(repeats):
            of_trial = found.setdefault((sweep_id, trial_id), [])
            of_trial.append(repeats[sweep_id, trial_id, number])
        return found


@dataclass(slots=True)
class _SharedRows:
    """Reads what many attempts share, each of it once."""

    connection: sa.Connection
    origin: str
    _sweeps: dict[int, SweepHead] = field(default_factory=dict)
    _machines: dict[int, Machine] = field(default_factory=dict)
    _environments: dict[int, dict[str, Any]] = field(default_factory=dict)
    _placements: dict[int, Placement] = field(default_factory=dict)
    _specs: dict[str, TrialSpec] = field(default_factory=dict)

    def sweep(self, sweep_id: int) -> SweepHead:
        if sweep_id not in self._sweeps:
            row = self._one(schema.SweepRow, sweep_id, "sweep")
            values = {one.name: row[one.name] for one in fields(SweepHead)}
            values["origin"] = values["origin"] or self.origin
            self._sweeps[sweep_id] = build(SweepHead, values, "sweep")
        return self._sweeps[sweep_id]

    def spec(self, trial_id: str) -> TrialSpec:
        if trial_id not in self._specs:
            trials = schema.TrialRow
            text = self.connection.scalar(sa.select(trials.spec).where(trials.id == trial_id))
            self._specs[trial_id] = spec_of(parsed(text or ""))
        return self._specs[trial_id]

    def machine(self, machine_id: int) -> Machine:
        if machine_id not in self._machines:
            row = self._one(schema.MachineRow, machine_id, "machine")
            gpus, links = schema.GpuRow, schema.GpuLinkRow
            of_gpus = sa.select(gpus.__table__).where(gpus.machine_id == machine_id)
            of_links = sa.select(links.__table__).where(links.machine_id == machine_id)
            gpu_rows = self.connection.execute(of_gpus.order_by(gpus.position)).mappings().all()
            link_rows = self.connection.execute(of_links).mappings().all()
            values: dict[str, Any] = {
                one.name: row[one.name]
                for one in fields(Machine)
                if one.name not in ("gpus", "links")
            }
            values["gpus"] = machine_gpus(gpu_rows)
            values["links"] = _links(link_rows, [gpu.uuid for gpu in values["gpus"]])
            self._machines[machine_id] = build(Machine, values, "machine")
        return self._machines[machine_id]

    def environment(self, environment_id: int | None) -> dict[str, Any] | None:
        if environment_id is None:
            return None
        if environment_id not in self._environments:
            table = schema.EnvironmentRow
            statement = sa.select(table.description).where(table.id == environment_id)
            self._environments[environment_id] = self.connection.scalar(statement) or {}
        return self._environments[environment_id]

    def placement(self, placement_id: int) -> Placement:
        if placement_id not in self._placements:
            row = self._one(schema.PlacementRow, placement_id, "placement")
            values = {one.name: row[one.name] for one in fields(Placement)}
            values |= {name: _numbers(row[name]) for name in ("devices", "cores")}
            values["hosts"] = tuple(row["hosts"].split(",")) if row["hosts"] else ()
            self._placements[placement_id] = build(Placement, values, "placement")
        return self._placements[placement_id]

    def _one(
        self,
        table: type[schema.SweepRow] | type[schema.MachineRow] | type[schema.PlacementRow],
        row_id: int,
        what: str,
    ) -> _Row:
        """Return the row that an attempt names. Raises ValueError when another program removed
        it.
        """
        statement = sa.select(table.__table__).where(table.id == row_id)
        row = self.connection.execute(statement).mappings().one_or_none()
        if row is None:
            raise ValueError(f"its {what} {row_id} is missing")
        return row


_REFERENCE = fields(Reference)
_GPU = [one.name for one in fields(Gpu) if one.name not in ("cores", "mig_devices")]


def machine_gpus(rows: Sequence[_Row]) -> tuple[Gpu, ...]:
    """Return the physical GPUs, each with the MIG devices that are cut from it."""
    devices: dict[str, list[Gpu]] = {}
    for row in rows:
        if row["mig_parent"] is not None:
            devices.setdefault(row["mig_parent"], []).append(_gpu(row, ()))
    physical = [row for row in rows if row["mig_parent"] is None]
    return tuple(_gpu(row, tuple(devices.get(row["uuid"], ()))) for row in physical)


def _gpu(row: _Row, mig_devices: tuple[Gpu, ...]) -> Gpu:
    values = {name: row[name] for name in _GPU}
    return build(Gpu, values | {"cores": _numbers(row["cores"]), "mig_devices": mig_devices}, "gpu")


def _links(rows: Sequence[_Row], uuids: list[str]) -> tuple[GpuLink, ...]:
    """Return the links in the order of the GPUs, as an inventory has them."""
    links = []
    for row in rows:
        between = (row["first_uuid"], row["second_uuid"])
        links.append(GpuLink(between=between, num_nvlinks=row["num_nvlinks"], pcie=row["pcie"]))
    place = {uuid: index for index, uuid in enumerate(uuids)}
    links.sort(key=lambda link: [place.get(uuid, len(place)) for uuid in link.between])
    return tuple(links)


def _measured_of(row: _Row | None) -> Measured | None:
    if row is None:
        return None
    measurement = {one.name: row[one.name] for one in fields(Measurement)}
    values: dict[str, Any] = {name: row[name] for name in (*BESIDE_A_MEASUREMENT, "op_placement")}
    values["measurement"] = checked(Measurement, measurement, "measurement")
    return build(Measured, values, "measured")


def _steps_of(row: _Row | None) -> PackedSteps | None:
    if row is None:
        return None
    return build(PackedSteps, {one.name: row[one.name] for one in fields(PackedSteps)}, "steps")


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(","))) if text else ()
