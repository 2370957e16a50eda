"""Reads portable records out of a database: what is to travel to another one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import sqlalchemy as sa

from scalemark.records.attempt import spec_of
from scalemark.records.machine import Gpu, GpuLink, Machine
from scalemark.records.measurement import BESIDE_A_MEASUREMENT, Measurement
from scalemark.records.outcomes import IN_FLIGHT, State
from scalemark.records.placement import Placement
from scalemark.records.references import Reference, Rejected
from scalemark.records.trial import TrialSpec
from scalemark.records.validation import build, checked, parsed
from store import schema
from store.exchange.portable import (
    Annotation,
    Change,
    Measured,
    PackedSteps,
    PortableAttempt,
    PortableRepeat,
    PortableSweep,
    PortableTrial,
    SweepHead,
)
from store.sweeps.repeat_states import in_chunks

Selection = sa.Select[int]

_Annotations = dict[Any, tuple[Annotation, ...]]
_Around = tuple[_Annotations, _Annotations, dict[tuple[int, str], list[PortableRepeat]]]
"""Tags and notes by trial, and the repeats without attempts by sweep and trial."""

_GPU = [one.name for one in fields(Gpu) if one.name not in ("cores", "mig_devices")]
_MACHINE = ("host", "cpu", "num_cores", "memory_bytes", "driver", "hardware_profile", "pool")
_OF_AN_ATTEMPT = (
    "attempt",
    "outcome",
    "message",
    "exit_code",
    "run_dir",
    "started_at",
    "duration_s",
    "deleted_at",
)


def database_id(connection: sa.Connection) -> str:
    """By which others that took its rows in know where these are from."""
    return str(
        connection.scalar(sa.select(schema.InfoRow.value).where(schema.InfoRow.name == "id"))
    )


@dataclass(slots=True)
class PortableRows:
    """Reads within one view of the database. Sweeps that were measured into it get it as their
    `origin`.

    What cannot travel, as a damaged row, is told with its reason.
    """

    connection: sa.Connection
    name: str  # of the database, as places of rejected rows name it
    origin: str
    with_steps: bool = True
    _sweeps: dict[int, SweepHead] = field(default_factory=dict)
    _machines: dict[int, Machine] = field(default_factory=dict)
    _environments: dict[int, dict[str, Any]] = field(default_factory=dict)
    _placements: dict[int, Placement] = field(default_factory=dict)
    _specs: dict[str, TrialSpec] = field(default_factory=dict)

    def attempts(self, ids: Selection | None = None) -> Iterator[PortableAttempt | Rejected]:
        """Of the selection, or all, deleted ones, too; sweep by sweep, oldest first."""
        table = schema.AttemptRow
        wanted = sa.select(table.id).order_by(table.sweep_id, table.id)
        if ids is not None:
            wanted = wanted.where(table.id.in_(ids))
        for chunk in in_chunks(self.connection.scalars(wanted).all()):
            yield from self.numbered(chunk)

    def numbered(self, ids: Sequence[int]) -> list[PortableAttempt | Rejected]:
        """As many as one statement takes."""
        try:
            return self._read(ids)
        except (ValueError, TypeError) as error:  # one of them holds what is no JSON, or no time
            if len(ids) == 1:
                return [Rejected(where=f"{self.name} attempt {ids[0]}", reason=str(error))]
            return [found for one in ids for found in self.numbered([one])]

    def trials(self, ids: Selection | None = None) -> Iterator[PortableTrial | Rejected]:
        """What sweeps asked for: the trials of the selected attempts, or all with their repeats
        that have no attempt.
        """
        table, attempts = schema.SweepTrialRow, schema.AttemptRow
        statement = sa.select(table.__table__).order_by(
            table.sweep_id, table.position, table.trial_id
        )
        if ids is not None:
            selected = sa.select(attempts.sweep_id, attempts.trial_id).where(attempts.id.in_(ids))
            statement = statement.where(sa.tuple_(table.sweep_id, table.trial_id).in_(selected))
        for rows in in_chunks(self.connection.execute(statement).mappings().all()):
            try:
                around = self._around(rows, with_idle=ids is None)
            except (ValueError, TypeError):  # of one of them: each is read alone
                around = None
            for row in rows:
                trial_id, at = row["trial_id"], row["position"]
                try:
                    tags, notes, idle = around or self._around([row], with_idle=ids is None)
                    yield PortableTrial(
                        sweep=self._sweep(row["sweep_id"]),
                        position=at,
                        trial_id=trial_id,
                        spec=self._spec(trial_id),
                        repeats=tuple(idle.get((row["sweep_id"], trial_id), ())),
                        tags=tags.get(trial_id, ()),
                        notes=notes.get(trial_id, ()),
                    )
                except (ValueError, TypeError) as error:
                    yield Rejected(
                        where=f"{self.name} trial {trial_id} of sweep {row['sweep_id']}",
                        reason=str(error),
                    )

    def sweeps(self, ids: Selection | None = None) -> Iterator[PortableSweep | Rejected]:
        """Those of the selected attempts, or all."""
        table, cells, attempts = schema.SweepRow, schema.LeftOutRow, schema.AttemptRow
        statement = sa.select(table.id).order_by(table.id)
        if ids is not None:
            statement = statement.where(
                table.id.in_(sa.select(attempts.sweep_id).where(attempts.id.in_(ids)))
            )
        for sweep_id in self.connection.scalars(statement).all():
            left_out = (
                sa.select(cells.overrides, cells.reason)
                .where(cells.sweep_id == sweep_id)
                .order_by(cells.overrides)
            )
            try:
                tags, notes = self._annotations("sweep_id", [sweep_id])
                yield PortableSweep(
                    sweep=self._sweep(sweep_id),
                    left_out=tuple(
                        (overrides, reason)
                        for overrides, reason in self.connection.execute(left_out)
                    ),
                    tags=tags.get(sweep_id, ()),
                    notes=notes.get(sweep_id, ()),
                )
            except (ValueError, TypeError) as error:
                yield Rejected(where=f"{self.name} sweep {sweep_id}", reason=str(error))

    def references(self) -> Iterator[Reference | Rejected]:
        table = schema.ReferenceRow
        columns = [table.__table__.columns[one.name] for one in fields(Reference)]
        for row in self.connection.execute(
            sa.select(table.key, *columns).order_by(table.id)
        ).mappings():
            try:
                yield build(
                    Reference, {name: value for name, value in row.items() if name != "key"}
                )
            except ValueError as error:
                yield Rejected(where=f"{self.name} reference {row['key']}", reason=str(error))

    def repeats(
        self, keys: set[tuple[int, str, int]]
    ) -> dict[tuple[int, str, int], PortableRepeat]:
        """By sweep, trial and number."""
        if not keys:
            return {}
        table, events = schema.RepeatRow, schema.EventRow
        columns = (
            table.id,
            table.sweep_id,
            table.trial_id,
            table.repeat,
            table.state,
            table.reason,
            table.num_attempts,
        )
        statement = sa.select(*columns).where(
            table.sweep_id.in_({sweep for sweep, _, _ in keys}),
            table.trial_id.in_({trial for _, trial, _ in keys}),
        )
        found = {(row[1], row[2], row[3]): row for row in self.connection.execute(statement)}
        wanted = {key: row for key, row in found.items() if key in keys}
        changes: dict[int, list[Change]] = {}
        for ids in in_chunks([row.id for row in wanted.values()]):
            told = (
                sa.select(events.__table__)
                .where(events.repeat_id.in_(ids))
                .order_by(events.repeat_id, events.number)
            )
            for row in self.connection.execute(told).mappings():
                change = Change(
                    at=row["at_unix_us"],
                    attempt=row["attempt"],
                    state=row["state"],
                    detail=row["detail"],
                )
                changes.setdefault(row["repeat_id"], []).append(change)
        return {key: _repeat(row, changes.get(row.id, [])) for key, row in wanted.items()}

    def _read(self, ids: Sequence[int]) -> list[PortableAttempt | Rejected]:
        table, links = schema.AttemptRow, schema.SweepTrialRow
        statement = (
            sa.select(table.__table__, links.position)
            .outerjoin(
                links, (links.sweep_id == table.sweep_id) & (links.trial_id == table.trial_id)
            )
            .where(table.id.in_(ids))
            .order_by(table.sweep_id, table.id)
        )
        rows = self.connection.execute(statement).mappings().all()
        measured, steps = self._measured(ids), self._steps(ids) if self.with_steps else {}
        tags, notes = self._annotations("attempt_id", ids)
        repeats = self.repeats({(row["sweep_id"], row["trial_id"], row["repeat"]) for row in rows})
        found: list[PortableAttempt | Rejected] = []
        for row in rows:
            key = row["id"]
            try:
                told: dict[str, Any] = {name: row[name] for name in _OF_AN_ATTEMPT}
                told |= {
                    "sweep": self._sweep(row["sweep_id"]),
                    "spec": self._spec(row["trial_id"]),
                    "trial_id": row["trial_id"],
                }
                told |= {"position": row["position"] or 0, "repeat": _repeat_of(repeats, row)}
                told |= {
                    "machine": self._machine(row["machine_id"]),
                    "placement": self._placement(row["placement_id"]),
                }
                told |= {"environment": self._environment(row["environment_id"])}
                told |= {
                    "measured": _measured_of(measured.get(key)),
                    "steps": _steps_of(steps.get(key)),
                }
                told |= {"tags": tags.get(key, ()), "notes": notes.get(key, ())}
                found.append(build(PortableAttempt, told))
            except (ValueError, TypeError) as error:
                found.append(Rejected(where=f"{self.name} attempt {key}", reason=str(error)))
        return found

    def _sweep(self, sweep_id: int) -> SweepHead:
        if sweep_id not in self._sweeps:
            columns = [schema.SweepRow.__table__.columns[one.name] for one in fields(SweepHead)]
            told = dict(
                self._one(
                    sa.select(*columns).where(schema.SweepRow.id == sweep_id),
                    f"its sweep {sweep_id}",
                )
            )
            self._sweeps[sweep_id] = build(
                SweepHead, told | {"origin": told["origin"] or self.origin}, "sweep"
            )
        return self._sweeps[sweep_id]

    def _spec(self, trial_id: str) -> TrialSpec:
        if trial_id not in self._specs:
            told = self.connection.scalar(
                sa.select(schema.TrialRow.spec).where(schema.TrialRow.id == trial_id)
            )
            self._specs[trial_id] = spec_of(parsed(told or ""))
        return self._specs[trial_id]

    def _machine(self, machine_id: int) -> Machine:
        if machine_id not in self._machines:
            table, gpus, links = schema.MachineRow, schema.GpuRow, schema.GpuLinkRow
            row = self._one(
                sa.select(table.__table__).where(table.id == machine_id),
                f"its machine {machine_id}",
            )
            of_machine = (
                sa.select(gpus.__table__)
                .where(gpus.machine_id == machine_id)
                .order_by(gpus.position)
            )
            told_links = sa.select(links.__table__).where(links.machine_id == machine_id)
            told: dict[str, Any] = {name: row[name] for name in _MACHINE}
            told["gpus"] = _gpus(self.connection.execute(of_machine).mappings().all())
            told["links"] = _links(
                self.connection.execute(told_links).mappings().all(),
                [gpu.uuid for gpu in told["gpus"]],
            )
            self._machines[machine_id] = build(Machine, told, "machine")
        return self._machines[machine_id]

    def _environment(self, environment_id: int | None) -> dict[str, Any] | None:
        if environment_id is None:
            return None
        if environment_id not in self._environments:
            table = schema.EnvironmentRow
            told = self.connection.scalar(
                sa.select(table.description).where(table.id == environment_id)
            )
            self._environments[environment_id] = told or {}
        return self._environments[environment_id]

    def _placement(self, placement_id: int) -> Placement:
        if placement_id not in self._placements:
            table = schema.PlacementRow
            row = self._one(
                sa.select(table.__table__).where(table.id == placement_id),
                f"its placement {placement_id}",
            )
            told = {one.name: row[one.name] for one in fields(Placement)}
            told |= {name: _numbers(row[name]) for name in ("devices", "cores")}
            told["hosts"] = tuple(row["hosts"].split(",")) if row["hosts"] else ()
            self._placements[placement_id] = build(Placement, told, "placement")
        return self._placements[placement_id]

    def _one(self, statement: sa.Select[Any], what: str) -> Mapping[Any, Any]:
        """The row that another one names. Raises ValueError when it is missing: another program
        removed it.
        """
        found = self.connection.execute(statement).mappings().one_or_none()
        if found is None:
            raise ValueError(f"{what} is missing")
        return found

    def _measured(self, ids: Sequence[int]) -> dict[int, Mapping[Any, Any]]:
        table, ops = schema.MeasurementRow, schema.OpPlacementRow
        statement = sa.select(table.__table__, ops.description).join(
            ops, ops.id == table.op_placement_id
        )
        found = self.connection.execute(statement.where(table.attempt_id.in_(ids))).mappings()
        return {row["attempt_id"]: row for row in found}

    def _steps(self, ids: Sequence[int]) -> dict[int, Mapping[Any, Any]]:
        table = schema.StepArraysRow
        found = self.connection.execute(
            sa.select(table.__table__).where(table.attempt_id.in_(ids))
        ).mappings()
        return {row["attempt_id"]: row for row in found}

    def _annotations(
        self, column: str, subjects: Sequence[Any]
    ) -> tuple[dict[Any, tuple[Annotation, ...]], dict[Any, tuple[Annotation, ...]]]:
        """Tags and notes of each of these subjects that has any."""
        return self._told_of(schema.TagRow, "tag", column, subjects), self._told_of(
            schema.NoteRow, "note", column, subjects
        )

    def _told_of(
        self,
        table: type[schema.TagRow] | type[schema.NoteRow],
        text: str,
        column: str,
        subjects: Sequence[Any],
    ) -> dict[Any, tuple[Annotation, ...]]:
        columns = table.__table__.columns
        statement = sa.select(columns[column], columns[text], table.added_at).where(
            columns[column].in_(subjects)
        )
        found: dict[Any, tuple[Annotation, ...]] = {}
        for subject, told, at in self.connection.execute(
            statement.order_by(table.added_at, table.id)
        ):
            found[subject] = (*found.get(subject, ()), Annotation(text=told, added_at=at))
        return found

    def _around(self, rows: Sequence[Mapping[Any, Any]], *, with_idle: bool) -> _Around:
        """What is told of these trials beside what was asked for."""
        tags, notes = self._annotations("trial_id", [row["trial_id"] for row in rows])
        return tags, notes, self._idle(rows) if with_idle else {}

    def _idle(
        self, rows: Sequence[Mapping[Any, Any]]
    ) -> dict[tuple[int, str], list[PortableRepeat]]:
        """Of each sweep's trials, the repeats that have no attempt."""
        table, attempts = schema.RepeatRow, schema.AttemptRow
        has_attempt = sa.exists().where(
            attempts.sweep_id == table.sweep_id,
            attempts.trial_id == table.trial_id,
            attempts.repeat == table.repeat,
        )
        pairs = {(row["sweep_id"], row["trial_id"]) for row in rows}
        statement = sa.select(table.sweep_id, table.trial_id, table.repeat).where(
            table.sweep_id.in_({sweep for sweep, _ in pairs}),
            table.trial_id.in_({trial for _, trial in pairs}),
            ~has_attempt,
        )
        keys = {
            (row[0], row[1], row[2])
            for row in self.connection.execute(statement.order_by(table.repeat))
        }
        found: dict[tuple[int, str], list[PortableRepeat]] = {}
        for (sweep_id, trial_id, _), repeat in sorted(self.repeats(keys).items()):
            found.setdefault((sweep_id, trial_id), []).append(repeat)
        return found


def _repeat(row: Any, changes: list[Change]) -> PortableRepeat:
    """What is being run is told as it was before: nobody runs it where it travels to."""
    state, num_attempts = State(row.state), row.num_attempts
    if state in IN_FLIGHT:
        while changes and changes[-1].state in IN_FLIGHT:
            changes.pop()
        num_attempts, state = num_attempts - (state is State.RUNNING), State.PENDING
    return PortableRepeat(
        number=row.repeat,
        state=state.value,
        reason=row.reason,
        num_attempts=num_attempts,
        changes=tuple(changes),
    )


def _repeat_of(
    repeats: Mapping[tuple[int, str, int], PortableRepeat], row: Mapping[Any, Any]
) -> PortableRepeat:
    key = row["sweep_id"], row["trial_id"], row["repeat"]
    if key not in repeats:
        raise ValueError(f"its repeat {row['repeat']} is missing")
    return repeats[key]


def _measured_of(row: Mapping[Any, Any] | None) -> Measured | None:
    if row is None:
        return None
    told = {one.name: row[one.name] for one in fields(Measurement)}
    around = {name: row[name] for name in BESIDE_A_MEASUREMENT} | {
        "op_placement": row["description"]
    }
    return build(
        Measured,
        around | {"measurement": checked(Measurement, told, "measurement")},
        "measured",
    )


def _steps_of(row: Mapping[Any, Any] | None) -> PackedSteps | None:
    return (
        None
        if row is None
        else build(PackedSteps, {name: row[name] for name in row if name != "attempt_id"}, "steps")
    )


def _gpus(rows: Sequence[Mapping[Any, Any]]) -> tuple[Gpu, ...]:
    """Physical ones, each with the MIG devices that are cut from it."""
    devices: dict[str, list[Gpu]] = {}
    for row in rows:
        if row["mig_parent"] is not None:
            devices.setdefault(row["mig_parent"], []).append(_gpu(row, ()))
    return tuple(
        _gpu(row, tuple(devices.get(row["uuid"], ()))) for row in rows if row["mig_parent"] is None
    )


def _gpu(row: Mapping[Any, Any], mig_devices: tuple[Gpu, ...]) -> Gpu:
    told = {name: row[name] for name in _GPU}
    return build(Gpu, told | {"cores": _numbers(row["cores"]), "mig_devices": mig_devices}, "gpu")


def _links(rows: Sequence[Mapping[Any, Any]], uuids: list[str]) -> tuple[GpuLink, ...]:
    """In the order of the GPUs, as an inventory tells them."""
    place = {uuid: index for index, uuid in enumerate(uuids)}
    told = [
        GpuLink(
            between=(row["first_uuid"], row["second_uuid"]),
            num_nvlinks=row["num_nvlinks"],
            pcie=row["pcie"],
        )
        for row in rows
    ]
    return tuple(
        sorted(told, key=lambda link: tuple(place.get(uuid, len(place)) for uuid in link.between))
    )


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(","))) if text else ()
