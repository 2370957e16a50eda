"""Lists attempts: the columns there are, and the origin and the values that filters choose."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from scalemark.records.axes import full_name, is_free
from scalemark.records.machine import DeviceKind
from scalemark.records.references import Origin
from scalemark.text.untrusted import visible
from store.database import reading
from store.errors import StoreError
from store.filters import (
    NOT_AXES,
    attempt_ids,
    deleted_at,
    nearest,
    parsed,
    shortened,
    unknown_name,
    with_prefixes,
)
from store.reading import references
from store.reading.queries import Row, check_sweep, columns_but, columns_of, in_parts, selected
from store.schema import (
    AttemptRow,
    EnvironmentRow,
    MachineRow,
    MeasurementRow,
    PlacementRow,
    SweepRow,
    SweepTrialRow,
    TrialRow,
)
from store.trial_rows import free_columns

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
    engine: sa.Engine,
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
        check_sweep(engine, sweep)
    with reading(engine) as connection:
        known = partial(_listable, {**LISTABLE, **free_columns(connection)})
    chosen = deleted_at(deleted)
    if filters:
        chosen = AttemptRow.id.in_(attempt_ids(filters, deleted=deleted))
    if sweep is not None:
        named = sa.select(SweepRow.id).where(SweepRow.name == sweep).scalar_subquery()
        chosen = sa.and_(chosen, AttemptRow.sweep_id == named)
    order = [_ordered(sort, known, engine.dialect.name)] if sort else []
    if limit is not None and not order:
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


def _ordered(
    sort: str, known: Callable[[str], sa.ColumnElement[Any]], dialect: str
) -> sa.ColumnElement[Any]:
    column = known(sort.removeprefix("-"))
    # by code points: languages would order each server's texts their own way
    if isinstance(column.type, sa.String):
        column = sa.collate(column, {"sqlite": "BINARY", "postgresql": "C"}[dialect])
    return (column.desc() if sort.startswith("-") else column.asc()).nulls_last()


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
    engine: sa.Engine,
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
    with reading(engine) as connection:
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
        name_of = {row.id: row.name for row in connection.execute(names)}
    # of one sweep that has both, measured ones
    in_order = sorted(newest_of, key=lambda origin: (-newest_of[origin], origin))
    return {origin: name_of[newest_of[origin]] for origin in in_order}


_MOST_NAMED = 8


def hint(engine: sa.Engine, filters: Sequence[str]) -> str:
    """Name the nearest value, or some values, of the first axis that no trial has as asked, and the
    nearest free axis where none has this name. Empty where each filter alone selects something.
    """
    with reading(engine) as connection:
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
        column = columns[wanted.name].label("value")
        values = {row["value"] for row in selected(engine, sa.select(column).distinct())}
        known = list(map(str, sorted(value for value in values if value)))
        if not known or wanted.value in known:
            continue
        near = difflib.get_close_matches(wanted.value[:100], known, n=3)
        if near and not known[0].isdecimal():
            return f"did you mean {wanted.name}={', '.join(map(visible, near))}? "
        more = ", ..." if len(known) > _MOST_NAMED else ""
        return f"{wanted.name} is {', '.join(map(visible, known[:_MOST_NAMED]))}{more} there; "
    return ""


def full_names(engine: sa.Engine, filters: Sequence[str]) -> list[str]:
    """Return as `with_prefixes` does, without a look at the database where none is needed.

    Where the only numbers were measured elsewhere, the StoreError says so.
    """
    if not any(unknown_name(text) for text in filters):
        return list(filters)
    try:
        with reading(engine) as connection:
            return with_prefixes(connection, filters)
    except StoreError:
        if instead := references.shown_by(engine):
            raise StoreError(f"{Path(engine.url.database or '').name}: {instead}") from None
        raise
