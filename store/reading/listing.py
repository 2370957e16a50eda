"""Lists attempts: the columns there are, and the origin and the values that filters choose. Finds
what a word names, an attempt, a trial or a sweep, and collects everything known of it.
"""

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from scalemark.records.axes import REF, full_name, is_free
from scalemark.records.machine import DeviceKind
from scalemark.records.references import Origin
from scalemark.text.untrusted import visible
from store.database import own_command, reading
from store.errors import StoreError
from store.filters import (
    ID_BEGINNING,
    NOT_AXES,
    Filter,
    attempt_ids,
    begins_id,
    checked,
    deleted_at,
    either,
    id_begins_with,
    nearest,
    parsed,
    shortened,
    unknown_name,
    with_prefixes,
)
from store.reading import references
from store.reading.queries import (
    Row,
    check_sweep,
    columns_but,
    columns_of,
    in_parts,
    rows_of,
)
from store.schema import (
    AttemptRow,
    EnvironmentRow,
    GpuLinkRow,
    GpuRow,
    LeftOutRow,
    MachineRow,
    MeasurementRow,
    OpPlacementRow,
    PlacementRow,
    RepeatRow,
    SweepRow,
    SweepTrialRow,
    TagRow,
    TrialRow,
)
from store.tables import free_columns

_NOT_LISTED = (
    *("attempt_id", "num_steps", "op_placement_id", "verdict_reasons", "gpu_telemetry"),
    *("profile", "replica_times", "truth", "metrics"),
)

RUN_DIR = sa.case(
    (sa.func.substr(AttemptRow.run_dir, 1, 1) == "/", AttemptRow.run_dir),
    else_=SweepRow.run_dir + "/" + AttemptRow.run_dir,
).label("run_dir")
"""The whole path, of an attempt joined with its sweep."""


ATTEMPTS = (
    sa.join(AttemptRow, SweepRow, SweepRow.id == AttemptRow.sweep_id)
    .join(MachineRow, MachineRow.id == AttemptRow.machine_id)
    .outerjoin(EnvironmentRow, EnvironmentRow.id == AttemptRow.environment_id)
    .outerjoin(MeasurementRow, MeasurementRow.attempt_id == AttemptRow.id)
)
"""Each attempt with its sweep, with what it ran on, and with what it measured, if anything."""


LISTABLE: Mapping[str, sa.ColumnElement[Any]] = {
    "attempt": AttemptRow.id.expression,
    "trial": sa.func.substr(TrialRow.id, 1, 8),
    "trial_id": TrialRow.id.expression,
    **columns_but(TrialRow, ("id",)),
    **columns_of(
        AttemptRow, "repeat outcome message exit_code shares_host started_at duration_s deleted_at"
    ),
    **columns_but(MeasurementRow, _NOT_LISTED),
    "num_measured_steps": MeasurementRow.num_steps.expression,
    **columns_of(MachineRow, "host cpu num_cores gpu driver"),
    "machine": MachineRow.key.expression,
    "machine_num_gpus": MachineRow.num_gpus.expression,
    **columns_but(EnvironmentRow, ("id", "key", "description")),
    "sweep": SweepRow.name.expression,
    "origin": SweepRow.origin.expression,
    "run_dir": RUN_DIR.element,
}
"""What can be listed and sorted by: name -> column of an attempt, or of what belongs to it."""


LISTED = (
    *("attempt", "trial", "model", "strategy", "num_gpus", "hosts", "batch_size", "precision"),
    *("data", "device_kind", "injected", "repeat", "outcome", "throughput", "item", "jitter_s"),
    *("verdict", "duration_s", "sweep", "started_at"),
)
"""What is listed unless something else is asked for."""


def listing(
    connection: sa.Connection,
    filters: Sequence[str] = (),
    *,
    sweep: str | None = None,
    deleted: bool = False,
    columns: Sequence[str] = LISTED,
    sort: str | None = None,
    limit: int | None = None,
) -> sa.Select[Any]:
    """Select these columns of the attempts that `filters` choose (see `store.filters`),
    oldest first.

    `sort` names a column, with a minus before it for largest first; what has none comes last.
    `limit` takes the first so many of a sorted list, and the newest of any other.
    Raises StoreError for an unknown filter, column or sweep.
    """
    if sweep is not None:
        check_sweep(connection, sweep)
    known = partial(_listable, {**LISTABLE, **free_columns(connection)})
    chosen = deleted_at(deleted)
    if filters:
        chosen = AttemptRow.id.in_(attempt_ids(filters, deleted=deleted))
    if sweep is not None:
        named = sa.select(SweepRow.id).where(SweepRow.name == sweep).scalar_subquery()
        chosen = sa.and_(chosen, AttemptRow.sweep_id == named)
    order = []
    if sort:
        column = known(sort.removeprefix("-"))
        # by code points: languages would order each server's texts their own way
        if isinstance(column.type, sa.String):
            language = {"sqlite": "BINARY", "postgresql": "C"}[connection.dialect.name]
            column = sa.collate(column, language)
        order = [(column.desc() if sort.startswith("-") else column.asc()).nulls_last()]
    if limit is not None and not sort:
        newest = sa.select(AttemptRow.id).where(chosen)
        newest = newest.order_by(AttemptRow.id.desc()).limit(limit)
        chosen = AttemptRow.id.in_(newest.correlate(None))
    return (
        sa.select(*(known(name).label(name) for name in columns))
        .select_from(ATTEMPTS)
        .join(TrialRow, TrialRow.id == AttemptRow.trial_id)
        .where(chosen)
        .order_by(*order, AttemptRow.id)
        .limit(limit)
    )


def _listable(known: Mapping[str, sa.ColumnElement[Any]], name: str) -> sa.ColumnElement[Any]:
    full = full_name(name, known)
    if full not in known:
        raise StoreError(f"{shortened(name)}: no such column; {nearest(name[:100], list(known))}")
    return known[full]


def attempt_details(engine: sa.Engine, attempt_ids: Sequence[int]) -> list[Row]:
    """Return everything that can be listed of these attempts, and what
    `scalemark.records.measurement` has for them: `verdict_reasons`, `recorded_profile` (a Profile),
    `recorded_telemetry` (a GpuTelemetry of each GPU), `recorded_replica_times`, `truth` (of
    simulated ones, as in Result), `metrics` (of a user's program, likewise); and `devices`: the
    slots it held, as "0,1".
    """
    with reading(engine) as connection:
        listable = {**LISTABLE, **free_columns(connection)}
    statement = (
        sa.select(
            *(column.label(name) for name, column in listable.items()),
            MeasurementRow.verdict_reasons,
            MeasurementRow.profile.label("recorded_profile"),
            MeasurementRow.gpu_telemetry.label("recorded_telemetry"),
            MeasurementRow.replica_times.label("recorded_replica_times"),
            MeasurementRow.truth,
            MeasurementRow.metrics,
            PlacementRow.devices,
        )
        .select_from(ATTEMPTS)
        .join(TrialRow, TrialRow.id == AttemptRow.trial_id)
        .join(PlacementRow, PlacementRow.id == AttemptRow.placement_id)
        .where(deleted_at(False))
        .order_by(AttemptRow.id)
    )
    return in_parts(engine, statement, AttemptRow.id.expression, attempt_ids)


def origin_filter(origin: Origin) -> str:
    """Return the filter that chooses the attempts of an origin."""
    sign = "=" if origin is Origin.SIMULATED else "!="
    return f"device_kind{sign}{DeviceKind.SIMULATED_GPU}"


def origin_note(origin: str, sweep: str, others: Sequence[str]) -> str:
    """Say that an origin was taken for its newest sweep; empty where there are no others."""
    if not others:
        return ""
    options = " or ".join(f"--origin {other}" for other in others)
    return (
        f"origin: {origin}, as the newest sweep that matches ({visible(sweep)}); "
        f"{options} has the others"
    )


def newest_first(
    connection: sa.Connection,
    filters: Sequence[str] = (),
    *,
    sweep: str | None = None,
    deleted: bool = False,
) -> Mapping[Origin, str]:
    """Return the origins of the attempts that `filters` choose, each with its newest sweep: that
    measured one of them, or asked for its trial. With `sweep` it is of this sweep's trials alone.

    Raises StoreError for an unknown filter.
    """
    chosen = deleted_at(deleted)
    if filters:
        chosen = AttemptRow.id.in_(attempt_ids(filters, deleted=deleted))
    links = SweepTrialRow
    newest_of: dict[Origin, int] = {}
    profiles = sa.select(MachineRow.hardware_profile != "").distinct()
    for is_simulated in connection.scalars(profiles).all():
        # machines are few, so that neither all trials nor all attempts are looked through
        machines = sa.select(MachineRow.id).where(
            (MachineRow.hardware_profile != "") == is_simulated
        )
        of_origin = sa.and_(chosen, AttemptRow.machine_id.in_(machines))
        asked = sa.exists().where(AttemptRow.trial_id == links.trial_id, of_origin)
        for column, which in ((AttemptRow.sweep_id, of_origin), (links.sweep_id, asked)):
            newest = sa.select(column).where(which).order_by(column.desc()).limit(1)
            if sweep is not None:
                named = sa.select(SweepRow.id).where(SweepRow.name == sweep)
                newest = newest.where(column == named.scalar_subquery())
            sweep_id = connection.scalar(newest)
            if sweep_id is not None:
                origin = Origin.SIMULATED if is_simulated else Origin.MEASURED
                newest_of[origin] = max(sweep_id, newest_of.get(origin, 0))
    names = sa.select(SweepRow.id, SweepRow.name).where(SweepRow.id.in_(newest_of.values()))
    name_of = dict(connection.execute(names).all())
    # of one sweep that has both, measured ones
    in_order = sorted(newest_of, key=lambda origin: (-newest_of[origin], origin))
    return {origin: name_of[newest_of[origin]] for origin in in_order}


_MOST_NAMED = 8


def hint(connection: sa.Connection, filters: Sequence[str]) -> str:
    """Name the nearest value, or some values, of the first axis that no trial has as asked, the
    nearest free axis where none has this name, or two filters of one name. Empty where each filter
    alone selects something, and all have names of their own.
    """
    columns = free_columns(connection)
    columns |= columns_but(TrialRow, NOT_AXES)
    for wanted in parsed(filters):
        if is_free(wanted.name) and wanted.name not in columns:
            others = nearest(wanted.name, sorted(filter(is_free, columns)) or ["no free axes"])
            end = " " if others.endswith("?") else "; "
            return f"no trial there has {wanted.name}; {others}{end}"
        if is_free(wanted.name) and (wanted.value.startswith(("'", '"')) or "," in wanted.value):
            return r"a value is written without quotes, a comma within it as \,; "
        if wanted.name not in columns or wanted.operator != "=" or "," in wanted.value:
            continue
        column = columns[wanted.name]
        values = connection.scalars(sa.select(column).distinct()).all()
        known = list(map(str, sorted(value for value in values if value not in (None, ""))))
        if not known or wanted.value in known:
            continue
        near = difflib.get_close_matches(wanted.value[:100], known, n=3)
        if near and not known[0].isdecimal():
            return f"did you mean {wanted.name}={', '.join(map(visible, near))}? "
        more = ", ..." if len(known) > _MOST_NAMED else ""
        return f"{wanted.name} is {', '.join(map(visible, known[:_MOST_NAMED]))}{more} there; "
    by_name: dict[str, Filter] = {}
    for wanted in parsed(filters):
        if wanted.operator == "=":
            other = by_name.setdefault(wanted.name, wanted)
            if other.value != wanted.value:
                return f"{either(other, wanted)}; "
    return ""


def full_names(connection: sa.Connection, filters: Sequence[str]) -> list[str]:
    """Return as `with_prefixes` does, without a look at the database where none is needed.

    Where the only numbers were measured elsewhere, the StoreError says so.
    """
    if not any(unknown_name(text) or text.lstrip().startswith(REF) for text in filters):
        return list(filters)
    try:
        return with_prefixes(connection, filters)
    except StoreError:
        if instead := references.instead(connection):
            name = Path(connection.engine.url.database or "").name
            raise StoreError(f"{name}: {instead}") from None
        raise


_NEWEST_NAMED = 5  # sweeps, in a message


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One attempt, trial or sweep of the database."""

    column: str  # attempt_id, trial_id or sweep_id: as tags call it
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
    listing = own_command(engine, "list")
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
        newest = sa.select(SweepRow.name).order_by(SweepRow.id.desc()).limit(_NEWEST_NAMED)
        names = ", ".join(map(shortened, connection.scalars(newest))) or "none"
    if len(meant) == 1:
        return meant[0]
    if not meant:
        raise StoreError(
            f"{shortened(which)}: no attempt, trial or sweep; wanted the number of an attempt, 4 "
            f"hexadecimal digits or more of a trial's id, or the name of a sweep (the newest: "
            f"{names}); see `{listing}`"
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
    """Return `trial` and its `attempts`, each with its `machine_facts`, `gpus`, `links` and
    `tags`; of a sweep `sweep`, `counts` of its repeats, and `left_out`. Raises StoreError when
    there is no such thing.
    """
    target = find(engine, which)
    with reading(engine) as connection:
        if target.column == "sweep_id":
            return _sweep(connection, target)
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
            row["tags"] = _tags(connection, ids)
        tags = _tags(connection, {"trial_id": trial_id})
    return {"trial": trial, "attempts": attempts, "tags": tags}


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


def _tags(connection: sa.Connection, ids: dict[str, Any]) -> list[Row]:
    """Return tags, of an attempt also those of its trial and its sweep; `ids` are those of each."""
    columns = {column: getattr(TagRow, column) for column in ids}
    whose = sa.case(
        *((column.is_not(None), key.removesuffix("_id")) for key, column in columns.items()),
        else_="",
    ).label("of")
    own = sa.or_(*(columns[key] == id_ for key, id_ in ids.items()))
    statement = sa.select(TagRow.tag, whose, TagRow.added_at).where(own)
    return rows_of(connection, statement.order_by(TagRow.id))


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
        "tags": _tags(connection, {"sweep_id": target.id}),
    }
