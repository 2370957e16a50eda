"""What readers ask of a database, as plain rows. Every query keeps trials whole: none averages over an axis."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

import sqlalchemy as sa

from store.database import reading
from store.errors import StoreError
from store.filter_values import checked, shortened
from store.references import Reference
from store.schema import (
    AttemptRow,
    EnvironmentRow,
    MachineRow,
    MeasurementRow,
    OpPlacementRow,
    PlacementRow,
    ReferenceRow,
    SweepRow,
    SweepTrialRow,
    TrialRow,
)
from store.selection import attempt_ids, deleted_at, nearest
from store.targets import Target

Row = dict[str, Any]

_ABOUT_ATTEMPTS = ("repeat", "outcome", "message", "exit_code", "shares_host", "started_at", "duration_s", "deleted_at")
_NOT_LISTED = ("attempt_id", "num_steps", "op_placement_id", "verdict_reasons", "gpu_telemetry", "profile")

RUN_DIR = sa.case(
    (sa.func.substr(AttemptRow.run_dir, 1, 1) == "/", AttemptRow.run_dir), else_=SweepRow.run_dir + "/" + AttemptRow.run_dir
).label("run_dir")
"""Of an attempt joined with its sweep: the whole path."""

LISTABLE: Mapping[str, sa.ColumnElement[Any]] = {
    "attempt": AttemptRow.id.expression,
    "trial": sa.func.substr(TrialRow.id, 1, 8),
    "trial_id": TrialRow.id.expression,
    **{column.name: column for column in TrialRow.__table__.columns if column.name != "id"},
    **{name: AttemptRow.__table__.columns[name] for name in _ABOUT_ATTEMPTS},
    **{column.name: column for column in MeasurementRow.__table__.columns if column.name not in _NOT_LISTED},
    "num_measured_steps": MeasurementRow.num_steps.expression,
    **{name: MachineRow.__table__.columns[name] for name in ("host", "cpu", "num_cores", "gpu", "driver")},
    "machine": MachineRow.key.expression,
    "machine_num_gpus": MachineRow.num_gpus.expression,
    **{column.name: column for column in EnvironmentRow.__table__.columns if column.name not in ("id", "key", "description")},
    "sweep": SweepRow.name.expression,
    "origin": SweepRow.origin.expression,
    "run_dir": RUN_DIR.element,
}
"""What can be listed and sorted by: name -> column of an attempt, or of what belongs to it."""

LISTED = (
    *("attempt", "trial", "model", "strategy", "num_gpus", "batch_size", "precision", "data", "device_kind"),
    *("repeat", "outcome", "images_per_second", "jitter_s", "verdict", "duration_s", "sweep", "started_at"),
)
"""What is listed unless something else is asked for."""

_OF_AN_ATTEMPT = (
    AttemptRow.id.label("attempt_id"),
    *(AttemptRow.repeat, AttemptRow.outcome, AttemptRow.started_at, AttemptRow.shares_host),
    *(MeasurementRow.images_per_second, MeasurementRow.median_step_s, MeasurementRow.jitter_s, MeasurementRow.steady),
    *(MeasurementRow.verdict, MeasurementRow.num_parameters),
    MachineRow.key.label("machine"),
    *(MachineRow.host, MachineRow.cpu, MachineRow.num_cores, MachineRow.gpu),
    MachineRow.num_gpus.label("machine_num_gpus"),
    *(MachineRow.driver, EnvironmentRow.tensorflow, EnvironmentRow.scalemark, EnvironmentRow.software_key),
)

_COUNTS = deleted_at(False)


def list_attempts(engine: sa.Engine, *, sweep: str | None = None) -> list[Row]:
    """All attempts, oldest first; or those of one sweep. Raises StoreError when there is no such sweep."""
    return selected(engine, listing(engine, sweep=sweep))


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
    """Of the attempts chosen by `filters` (see `store.selection`) these columns, oldest first.

    `sort` names a column, with a minus before it for largest first; what has none comes last. Raises StoreError for a filter, a
    column or a sweep that is none.
    """
    if sweep is not None:
        check_sweep(engine, sweep)
    statement = (
        sa.select(*(_listable(name).label(name) for name in columns))
        .select_from(AttemptRow)
        .join(TrialRow, TrialRow.id == AttemptRow.trial_id)
        .join(SweepRow, SweepRow.id == AttemptRow.sweep_id)
        .join(MachineRow, MachineRow.id == AttemptRow.machine_id)
        .outerjoin(EnvironmentRow, EnvironmentRow.id == AttemptRow.environment_id)
        .outerjoin(MeasurementRow, MeasurementRow.attempt_id == AttemptRow.id)
        .where(AttemptRow.id.in_(attempt_ids(filters, deleted=deleted)) if filters else deleted_at(deleted))
        .order_by(*([_ordered(sort, engine.dialect.name)] if sort else []), AttemptRow.id)
        .limit(limit)
    )
    return statement if sweep is None else statement.where(SweepRow.name == sweep)


def _listable(name: str) -> sa.ColumnElement[Any]:
    if name not in LISTABLE:
        raise StoreError(f"{shortened(name)}: no such column; {nearest(name[:100], list(LISTABLE))}")
    return LISTABLE[name]


def _ordered(sort: str, dialect: str) -> sa.ColumnElement[Any]:
    column = _listable(sort.removeprefix("-"))
    if isinstance(column.type, sa.String):  # by code points: languages would order each server's texts their own way
        column = sa.collate(column, {"sqlite": "BINARY", "postgresql": "C"}[dialect])
    return (column.desc() if sort.startswith("-") else column.asc()).nulls_last()


def measured(engine: sa.Engine, *, sweep: str | None = None) -> list[Row]:
    """All attempts with all axes, measurement and machine; or those of the trials that one sweep asked for.

    Trials which that sweep found finished already are among them. Raises StoreError when there is no such sweep.
    """
    statement = with_its_machine(*TrialRow.__table__.columns, *_OF_AN_ATTEMPT)
    if sweep is None:
        return selected(engine, statement.order_by(AttemptRow.id))
    check_sweep(engine, sweep)
    in_its_order = (
        statement.join(SweepTrialRow, SweepTrialRow.trial_id == TrialRow.id)
        .join(SweepRow, SweepRow.id == SweepTrialRow.sweep_id)
        .where(SweepRow.name == sweep)
        .order_by(SweepTrialRow.position, AttemptRow.id)
    )
    return selected(engine, in_its_order)


def with_its_machine(*columns: Any) -> sa.Select[Any]:
    """Of attempts that count, their trial, machine, environment and measurement."""
    return (
        sa.select(*columns)
        .select_from(AttemptRow)
        .join(TrialRow, TrialRow.id == AttemptRow.trial_id)
        .join(MachineRow, MachineRow.id == AttemptRow.machine_id)
        .outerjoin(EnvironmentRow, EnvironmentRow.id == AttemptRow.environment_id)
        .outerjoin(MeasurementRow, MeasurementRow.attempt_id == AttemptRow.id)
        .where(_COUNTS)
    )


def num_completed(engine: sa.Engine, machine_key: str, software_key: str, *, shares_host: bool = False) -> dict[str, int]:
    """How many completed attempts each trial has on this machine with this software: trial id -> count.

    Those that ran side by side with others count only for a sweep that `shares_host` itself.
    """
    statement = (
        sa.select(AttemptRow.trial_id, sa.func.count().label("num"))
        .join(MachineRow, MachineRow.id == AttemptRow.machine_id)
        .join(EnvironmentRow, EnvironmentRow.id == AttemptRow.environment_id)
        .where(
            AttemptRow.outcome == "completed",
            MachineRow.key == machine_key,
            EnvironmentRow.software_key == software_key,
            AttemptRow.shares_host.in_((False, True) if shares_host else (False,)),
            _COUNTS,
        )
        .group_by(AttemptRow.trial_id)
    )
    return {row["trial_id"]: row["num"] for row in selected(engine, statement)}


def with_its_trial(engine: sa.Engine, target: Target) -> Row:
    """All rows of an attempt, or of a trial and all its attempts, deleted ones, too."""
    if target.column == "trial_id":
        trial_id = target.id
    else:
        (trial_id,) = selected(engine, sa.select(AttemptRow.trial_id).where(target.has_attempt()))[0].values()
    (trial,) = selected(engine, sa.select(*TrialRow.__table__.columns).where(TrialRow.id == trial_id))
    statement = (
        sa.select(
            *_OF_AN_ATTEMPT,
            *(SweepRow.name.label("sweep"), AttemptRow.sweep_id, AttemptRow.machine_id, AttemptRow.attempt),
            *(AttemptRow.message, AttemptRow.exit_code, AttemptRow.duration_s, AttemptRow.deleted_at, RUN_DIR),
            *(column for column in PlacementRow.__table__.columns if column.name not in ("id", "key", "shares_host")),
            *(column for column in MeasurementRow.__table__.columns if column.name not in _NOT_SHOWN),
            OpPlacementRow.description.label("op_placement"),
            EnvironmentRow.description.label("environment"),
        )
        .select_from(AttemptRow)
        .join(SweepRow, SweepRow.id == AttemptRow.sweep_id)
        .join(MachineRow, MachineRow.id == AttemptRow.machine_id)
        .join(PlacementRow, PlacementRow.id == AttemptRow.placement_id)
        .outerjoin(EnvironmentRow, EnvironmentRow.id == AttemptRow.environment_id)
        .outerjoin(MeasurementRow, MeasurementRow.attempt_id == AttemptRow.id)
        .outerjoin(OpPlacementRow, OpPlacementRow.id == MeasurementRow.op_placement_id)
        .where(target.has_attempt())
        .order_by(AttemptRow.id)
    )
    return {"trial": trial, "attempts": selected(engine, statement)}


_SHOWN_ALREADY = {column.name for column in _OF_AN_ATTEMPT}
_NOT_SHOWN = {"attempt_id", "op_placement_id", *_SHOWN_ALREADY}


def list_references(engine: sa.Engine) -> list[Row]:
    """The fields of every reference, in the order in which they were added."""
    columns = [getattr(ReferenceRow, field.name) for field in fields(Reference)]
    return selected(engine, sa.select(*columns).order_by(ReferenceRow.id))


def check_sweep(engine: sa.Engine, sweep: str) -> None:
    """Raises StoreError when there is no sweep of this name."""
    newest = sa.select(SweepRow.name).order_by(SweepRow.id.desc())
    if not selected(engine, newest.where(SweepRow.name == sweep)):
        names = [row["name"] for row in selected(engine, newest.limit(5))]
        raise StoreError(f"{sweep}: no such sweep; the newest are {', '.join(names) or 'none'}")


def query(engine: sa.Engine, sql: str) -> tuple[list[str], list[Sequence[Any]]]:
    """Columns and rows of any statement that only reads. Raises StoreError for others, and with what is wrong in the SQL."""
    with queried(engine, sql) as (columns, found):
        return columns, list(found)


@contextmanager
def queried(engine: sa.Engine, sql: str) -> Iterator[tuple[list[str], Iterator[Sequence[Any]]]]:
    """As `query`, row by row."""
    with reading(engine) as connection:
        try:
            # a cursor on PostgreSQL's side takes one statement, and no other than one that reads
            options = {"stream_results": True, "no_parameters": True, "yield_per": _AT_A_TIME}
            result = connection.execution_options(**options).exec_driver_sql(checked(sql, ""))
            if not result.returns_rows:
                raise StoreError("the statement returns no rows; query only reads")
            yield list(result.keys()), map(tuple, result)
        except sa.exc.DBAPIError as error:
            connection.rollback()
            cause = str(error.orig).partition("\n")[0]  # below it PostgreSQL shows a statement that is not the user's
            hint = f"; tables and views: {', '.join(_names(connection))}" if _no_such_table(cause) else ""
            raise StoreError(f"{cause}{hint}") from error


@contextmanager
def streamed(engine: sa.Engine, statement: sa.Select[Any]) -> Iterator[tuple[list[str], Iterator[Sequence[Any]]]]:
    """Columns and rows of one of our own statements, row by row."""
    with reading(engine) as connection:
        result = connection.execution_options(stream_results=True, yield_per=_AT_A_TIME).execute(statement)
        yield list(result.keys()), map(tuple, result)


_AT_A_TIME = 1_000  # rows that are held


def rows(engine: sa.Engine, sql: str, **parameters: Any) -> list[Row]:
    """Rows of one of our own statements, values as the driver has them."""
    return selected(engine, sa.text(sql).bindparams(**parameters))


def selected(engine: sa.Engine, statement: sa.Executable) -> list[Row]:
    """Rows of one of our own statements."""
    with reading(engine) as connection:
        return [dict(row) for row in connection.execute(statement).mappings()]


def _no_such_table(cause: str) -> bool:
    return "no such table" in cause or ("relation" in cause and "does not exist" in cause)


def _names(connection: sa.Connection) -> list[str]:
    inspected = sa.inspect(connection)
    return sorted([*inspected.get_table_names(), *inspected.get_view_names()])
