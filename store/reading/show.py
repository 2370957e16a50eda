"""Finds what a word names, an attempt, a trial or a sweep, and collects everything known of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from store.database import own_command, reading
from store.errors import StoreError
from store.filters import ID_BEGINNING, begins_id, checked, id_begins_with, shortened
from store.reading.listing import ATTEMPTS, RUN_DIR
from store.reading.queries import Row, columns_but, columns_of, rows_of
from store.schema import (
    AttemptRow,
    EnvironmentRow,
    GpuLinkRow,
    GpuRow,
    LeftOutRow,
    MachineRow,
    MeasurementRow,
    NoteRow,
    OpPlacementRow,
    PlacementRow,
    RepeatRow,
    SweepRow,
    TagRow,
    TrialRow,
)
from store.trial_rows import free_columns

_MOST_NAMED = 5  # sweeps, in a message


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One attempt, trial or sweep of the database."""

    column: str  # attempt_id, trial_id or sweep_id: as tags and notes call it
    id: int | str
    name: str  # as messages call it

    def has_attempt(self) -> sa.ColumnElement[bool]:
        """Return the condition that an attempt belongs to it."""
        column = "id" if self.column == "attempt_id" else self.column
        belongs: sa.ColumnElement[bool] = AttemptRow.__table__.columns[column] == self.id
        return belongs


def find(engine: sa.Engine, which: str) -> Target:
    """Return what a word names. `attempt=`, `trial=` or `sweep=` before it settles any doubt.

    Raises StoreError when it names nothing, or more than one thing.
    """
    listing = own_command(engine, "store", "list")
    if not which:
        raise StoreError(
            f"which attempt or trial? give its number, or the {ID_BEGINNING}; see `{listing}`"
        )
    kind, name = "", checked(which, "")
    explicit = re.fullmatch("(attempt|trial|sweep)=(.*)", name, re.DOTALL)
    if explicit is not None:
        kind, name = explicit.groups()
    with reading(engine) as connection:
        meant = _meant(connection, kind, name)
        newest = sa.select(SweepRow.name).order_by(SweepRow.id.desc()).limit(_MOST_NAMED)
        names = ", ".join(map(shortened, connection.scalars(newest))) or "none"
    if len(meant) == 1:
        return meant[0]
    if not meant:
        raise StoreError(
            f"{shortened(which)}: no attempt or trial; wanted the number of an attempt, or "
            f"4 hexadecimal digits or more of a trial's id; see `{listing}`; "
            f"nor a sweep: the newest are {names}"
        )
    could_be = " or ".join(target.name for target in meant[:3])
    kinds = dict.fromkeys(target.column.removesuffix("_id") for target in meant)
    more = "give more of its id"
    if len(kinds) > 1:
        more = f"say {' or '.join(f'{kind}={shortened(name)}' for kind in kinds)}"
    raise StoreError(f"{shortened(which)}: it could be {could_be}; {more}")


def _meant(connection: sa.Connection, kind: str, name: str) -> list[Target]:
    """Return what a name may mean, of one kind where that is said."""
    meant = []
    if kind in ("", "attempt") and re.fullmatch("[0-9]{1,9}", name):
        attempts = sa.select(AttemptRow.id).where(AttemptRow.id == int(name))
        for number in connection.scalars(attempts):
            meant.append(Target(column="attempt_id", id=number, name=f"attempt {number}"))
    is_attempt = bool(meant)  # digits are more likely an attempt than the beginning of an id
    if kind in ("", "sweep"):
        sweeps = sa.select(SweepRow.id).where(SweepRow.name == name)
        for number in connection.scalars(sweeps):
            shown = f"sweep {shortened(name)}"
            meant.append(Target(column="sweep_id", id=number, name=shown))
    if kind in ("", "trial") and not is_attempt and begins_id(name):
        trials = sa.select(TrialRow.id).where(id_begins_with(name)).order_by(TrialRow.id)
        for trial_id in connection.scalars(trials.limit(4)):
            meant.append(Target(column="trial_id", id=trial_id, name=f"trial {trial_id[:8]}"))
    return meant


def show(engine: sa.Engine, which: str) -> Row:
    """Return `trial` and its `attempts`, each with its `machine_facts`, `gpus`, `links`,
    `tags` and `notes`; of a sweep `sweep`, `counts` of its repeats, and `left_out`. Raises
    StoreError when there is no such thing.
    """
    target = find(engine, which)
    if target.column != "sweep_id":
        return show_trial(engine, target)
    with reading(engine) as connection:
        return _sweep(connection, target)


def show_trial(engine: sa.Engine, target: Target) -> Row:
    """Return what `show` does of an attempt or a trial; deleted attempts, too."""
    with reading(engine) as connection:
        trial_id = target.id
        if target.column != "trial_id":
            of_attempt = sa.select(AttemptRow.trial_id).where(target.has_attempt())
            trial_id = connection.scalars(of_attempt).first() or ""
        free = free_columns(connection)
        columns = sa.select(*TrialRow.__table__.columns, *free.values())
        (trial,) = rows_of(connection, columns.where(TrialRow.id == trial_id))
        for name in free:
            if trial[name] is None:
                del trial[name]
        attempts = rows_of(connection, _ATTEMPTS.where(target.has_attempt()))
        machines: dict[int, Row] = {}
        for row in attempts:
            number = row["machine_id"]
            if number not in machines:
                machines[number] = _machine(connection, number)
            row |= machines[number]
            names = ("attempt_id", "sweep_id")
            ids = {name: row[name] for name in names} | {"trial_id": trial_id}
            row |= _annotations(connection, ids)
        annotations = _annotations(connection, {"trial_id": trial_id})
    return {"trial": trial, "attempts": attempts, **annotations}


_MEASURED = (
    "throughput median_step_s jitter_s steady throughput_low throughput_high verdict num_parameters"
)
_ATTEMPTS = (
    sa.select(
        AttemptRow.id.label("attempt_id"),
        *columns_of(AttemptRow, "repeat outcome started_at shares_host").values(),
        *columns_of(MeasurementRow, _MEASURED).values(),
        MachineRow.key.label("machine"),
        *columns_of(MachineRow, "host cpu num_cores gpu driver").values(),
        MachineRow.num_gpus.label("machine_num_gpus"),
        *columns_of(EnvironmentRow, "tensorflow scalemark software_key").values(),
        SweepRow.name.label("sweep"),
        *columns_of(
            AttemptRow, "sweep_id machine_id attempt message exit_code duration_s deleted_at"
        ).values(),
        RUN_DIR,
        *columns_but(PlacementRow, ("id", "key", "shares_host")).values(),
        *columns_but(
            MeasurementRow, ("attempt_id", "op_placement_id", *_MEASURED.split())
        ).values(),
        OpPlacementRow.description.label("op_placement"),
        EnvironmentRow.description.label("environment"),
    )
    .select_from(ATTEMPTS)
    .join(PlacementRow, PlacementRow.id == AttemptRow.placement_id)
    .outerjoin(OpPlacementRow, OpPlacementRow.id == MeasurementRow.op_placement_id)
    .order_by(AttemptRow.id)
)


def _machine(connection: sa.Connection, machine_id: int) -> Row:
    gpus = sa.select(*columns_but(GpuRow, ("machine_id",)).values())
    links = sa.select(*columns_but(GpuLinkRow, ("machine_id",)).values())
    machine = sa.select(MachineRow.__table__).where(MachineRow.id == machine_id)
    (facts,) = rows_of(connection, machine)
    of_machine = gpus.where(GpuRow.machine_id == machine_id).order_by(GpuRow.position)
    return {
        "machine_facts": facts,
        "gpus": rows_of(connection, of_machine),
        "links": rows_of(connection, links.where(GpuLinkRow.machine_id == machine_id)),
    }


def _annotations(connection: sa.Connection, ids: dict[str, Any]) -> Row:
    """Return tags and notes, of an attempt also those of its trial and its sweep; `ids` are those
    of each.
    """
    annotations: Row = {}
    for name, table, text in (("tags", TagRow, TagRow.tag), ("notes", NoteRow, NoteRow.note)):
        columns = {column: getattr(table, column) for column in ids}
        whose = sa.case(
            *((column.is_not(None), key.removesuffix("_id")) for key, column in columns.items()),
            else_="",
        ).label("of")
        own = sa.or_(*(columns[key] == id_ for key, id_ in ids.items()))
        statement = sa.select(text, whose, table.added_at).where(own).order_by(table.id)
        annotations[name] = rows_of(connection, statement)
    return annotations


def _sweep(connection: sa.Connection, target: Target) -> Row:
    sweeps = sa.select(SweepRow.__table__).where(SweepRow.id == target.id)
    states = sa.select(RepeatRow.state, sa.func.count()).where(RepeatRow.sweep_id == target.id)
    by_state = states.group_by(RepeatRow.state).order_by(RepeatRow.state)
    left_out = sa.select(LeftOutRow.overrides, LeftOutRow.reason).order_by(LeftOutRow.overrides)
    (sweep,) = rows_of(connection, sweeps)
    return {
        "sweep": sweep,
        "counts": dict(connection.execute(by_state).all()),
        "left_out": rows_of(connection, left_out.where(LeftOutRow.sweep_id == target.id)),
        **_annotations(connection, {"sweep_id": target.id}),
    }
