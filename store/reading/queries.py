"""What readers ask of a database, as plain rows. Every query keeps trials whole: none averages over
an axis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from functools import partial
from typing import Any

import sqlalchemy as sa

from scalemark.records import step_arrays
from scalemark.records.measurement import StepSample
from scalemark.records.references import Reference, published
from store.database import reading
from store.errors import NoSweepError, StoreError
from store.filters.filter_values import checked, shortened
from store.filters.selection import attempt_ids, deleted_at, nearest
from store.filters.targets import Target
from store.schema import (
    AttemptRow,
    EnvironmentRow,
    GpuLinkRow,
    GpuRow,
    MachineRow,
    MeasurementRow,
    OpPlacementRow,
    OrchestratorRow,
    PlacementRow,
    ReferenceRow,
    StepArraysRow,
    SweepRow,
    SweepTrialRow,
    TrialRow,
)
from store.trial_rows import free_columns, free_values

Row = dict[str, Any]

_ABOUT_ATTEMPTS = (
    "repeat",
    "outcome",
    "message",
    "exit_code",
    "shares_host",
    "started_at",
    "duration_s",
    "deleted_at",
)
_NOT_LISTED = (
    "attempt_id",
    "num_steps",
    "op_placement_id",
    "verdict_reasons",
    "gpu_telemetry",
    "profile",
    "truth",
)

RUN_DIR = sa.case(
    (sa.func.substr(AttemptRow.run_dir, 1, 1) == "/", AttemptRow.run_dir),
    else_=SweepRow.run_dir + "/" + AttemptRow.run_dir,
).label("run_dir")
"""Of an attempt joined with its sweep: the whole path."""

LISTABLE: Mapping[str, sa.ColumnElement[Any]] = {
    "attempt": AttemptRow.id.expression,
    "trial": sa.func.substr(TrialRow.id, 1, 8),
    "trial_id": TrialRow.id.expression,
    **{column.name: column for column in TrialRow.__table__.columns if column.name != "id"},
    **{name: AttemptRow.__table__.columns[name] for name in _ABOUT_ATTEMPTS},
    **{
        column.name: column
        for column in MeasurementRow.__table__.columns
        if column.name not in _NOT_LISTED
    },
    "num_measured_steps": MeasurementRow.num_steps.expression,
    **{
        name: MachineRow.__table__.columns[name]
        for name in ("host", "cpu", "num_cores", "gpu", "driver")
    },
    "machine": MachineRow.key.expression,
    "machine_num_gpus": MachineRow.num_gpus.expression,
    **{
        column.name: column
        for column in EnvironmentRow.__table__.columns
        if column.name not in ("id", "key", "description")
    },
    "sweep": SweepRow.name.expression,
    "origin": SweepRow.origin.expression,
    "run_dir": RUN_DIR.element,
}
"""What can be listed and sorted by: name -> column of an attempt, or of what belongs to it."""

LISTED = (
    *(
        "attempt",
        "trial",
        "model",
        "strategy",
        "num_gpus",
        "hosts",
        "batch_size",
        "precision",
        "data",
        "device_kind",
    ),
    *(
        "planted",
        "repeat",
        "outcome",
        "throughput",
        "jitter_s",
        "verdict",
        "duration_s",
        "sweep",
        "started_at",
    ),
)
"""What is listed unless something else is asked for."""

_OF_AN_ATTEMPT = (
    AttemptRow.id.label("attempt_id"),
    *(AttemptRow.repeat, AttemptRow.outcome, AttemptRow.started_at, AttemptRow.shares_host),
    *(
        MeasurementRow.throughput,
        MeasurementRow.median_step_s,
        MeasurementRow.jitter_s,
        MeasurementRow.steady,
    ),
    *(MeasurementRow.throughput_low, MeasurementRow.throughput_high),
    *(MeasurementRow.verdict, MeasurementRow.num_parameters),
    MachineRow.key.label("machine"),
    *(MachineRow.host, MachineRow.cpu, MachineRow.num_cores, MachineRow.gpu),
    MachineRow.num_gpus.label("machine_num_gpus"),
    *(
        MachineRow.driver,
        EnvironmentRow.tensorflow,
        EnvironmentRow.scalemark,
        EnvironmentRow.software_key,
    ),
)

_COUNTS = deleted_at(False)


def list_attempts(engine: sa.Engine, *, sweep: str | None = None) -> list[Row]:
    """All attempts, oldest first; or those of one sweep. Raises StoreError when there is no such
    sweep.
    """
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
    """Of the attempts chosen by `filters` (see `store.filters.selection`) these columns, oldest first.

    `sort` names a column, with a minus before it for largest first; what has none comes last.
    Raises StoreError for a filter, a column or a sweep that is none.
    """
    if sweep is not None:
        check_sweep(engine, sweep)
    with reading(engine) as connection:
        known = partial(_listable, {**LISTABLE, **free_columns(connection)})
    statement = (
        sa.select(*(known(name).label(name) for name in columns))
        .select_from(AttemptRow)
        .join(TrialRow, TrialRow.id == AttemptRow.trial_id)
        .join(SweepRow, SweepRow.id == AttemptRow.sweep_id)
        .join(MachineRow, MachineRow.id == AttemptRow.machine_id)
        .outerjoin(EnvironmentRow, EnvironmentRow.id == AttemptRow.environment_id)
        .outerjoin(MeasurementRow, MeasurementRow.attempt_id == AttemptRow.id)
        .where(
            AttemptRow.id.in_(attempt_ids(filters, deleted=deleted))
            if filters
            else deleted_at(deleted)
        )
        .order_by(*([_ordered(sort, known, engine.dialect.name)] if sort else []), AttemptRow.id)
        .limit(limit)
    )
    return statement if sweep is None else statement.where(SweepRow.name == sweep)


def num_attempts(engine: sa.Engine, *, deleted: bool = False) -> int:
    """How many there are in all: of those that count, or of those that are deleted."""
    with reading(engine) as connection:
        return (
            connection.scalar(
                sa.select(sa.func.count()).select_from(AttemptRow).where(deleted_at(deleted))
            )
            or 0
        )


def _listable(known: Mapping[str, sa.ColumnElement[Any]], name: str) -> sa.ColumnElement[Any]:
    if name not in known:
        raise StoreError(f"{shortened(name)}: no such column; {nearest(name[:100], list(known))}")
    return known[name]


def _ordered(
    sort: str, known: Callable[[str], sa.ColumnElement[Any]], dialect: str
) -> sa.ColumnElement[Any]:
    column = known(sort.removeprefix("-"))
    # by code points: languages would order each server's texts their own way
    if isinstance(column.type, sa.String):
        column = sa.collate(column, {"sqlite": "BINARY", "postgresql": "C"}[dialect])
    return (column.desc() if sort.startswith("-") else column.asc()).nulls_last()


def measured(
    engine: sa.Engine, filters: Sequence[str] = (), *, like_sweep: str | None = None
) -> list[Row]:
    """Attempts for which the filters hold, oldest first; only of models that one sweep asked for,
    where it is named. Each has its
    `trial` (id, curve and axes), `machine` and `environment` (None: it ended before that was known)
    as rows that many share, and
    `ran_on`: of each of its hosts the machine's name; empty where all were processes of `machine`.

    Raises StoreError for a filter that is none.
    """
    chosen = _COUNTS if not filters else sa.and_(_COUNTS, AttemptRow.id.in_(attempt_ids(filters)))
    with reading(engine) as connection:
        trials = sa.select(*_OF_A_TRIAL, *free_values(connection))
    if like_sweep is not None:
        asked_for = (
            sa.select(TrialRow.model)
            .join(SweepTrialRow)
            .join(SweepRow)
            .where(SweepRow.name == like_sweep)
        )
        trials = trials.where(TrialRow.model.in_(asked_for))
        chosen = sa.and_(
            chosen,
            AttemptRow.trial_id.in_(sa.select(TrialRow.id).where(TrialRow.model.in_(asked_for))),
        )
    attempts = (
        sa.select(
            AttemptRow.trial_id,
            AttemptRow.machine_id,
            AttemptRow.environment_id,
            *_MEASURED,
            AttemptRow.placement_id,
        )
        .outerjoin(MeasurementRow, MeasurementRow.attempt_id == AttemptRow.id)
        .where(chosen)
        .order_by(AttemptRow.id)
    )
    if filters:
        trials = trials.where(TrialRow.id.in_(sa.select(AttemptRow.trial_id).where(chosen)))
    with reading(engine) as connection:
        machines = _numbered(connection, sa.select(*_OF_A_MACHINE))
        environments = _numbered(connection, sa.select(*_OF_AN_ENVIRONMENT))
        by_id = _numbered(connection, trials)
        machines_of = {row.id: row.hosts.split(",") for row in connection.execute(_OVER_HOSTS)}
        found = connection.execute(attempts).all()
    return [  # columns by number, because there may be tens of thousands
        {
            "attempt_id": row[3],
            "sweep_id": row[4],
            "repeat": row[5],
            "outcome": row[6],
            "shares_host": row[7],
            "throughput": row[8],
            "throughput_low": row[9],
            "throughput_high": row[10],
            "verdict": row[11],
            "steady": row[12],
            "item": row[13],
            "ran_on": machines_of.get(row[14], ()),
            "trial": by_id[row[0]],
            "machine": machines[row[1]],
            "environment": environments.get(row[2]),
        }
        for row in found
    ]


def _of_gpus(figure: sa.ColumnElement[Any]) -> sa.ScalarSelect[Any]:
    """A figure of all GPUs of a machine."""
    return (
        sa.select(figure)
        .where(GpuRow.machine_id == MachineRow.id)
        .correlate(MachineRow)
        .scalar_subquery()
    )


_MEASURED = (
    AttemptRow.id.label("attempt_id"),
    *(AttemptRow.sweep_id, AttemptRow.repeat, AttemptRow.outcome, AttemptRow.shares_host),
    *(
        MeasurementRow.throughput,
        MeasurementRow.throughput_low,
        MeasurementRow.throughput_high,
    ),
    *(MeasurementRow.verdict, MeasurementRow.steady, MeasurementRow.item),
)
_OVER_HOSTS = sa.select(PlacementRow.id, PlacementRow.hosts).where(PlacementRow.hosts != "")
_OF_A_TRIAL = tuple(column for column in TrialRow.__table__.columns if column.name != "spec")
_OF_A_MACHINE = (
    *(MachineRow.id, MachineRow.key, MachineRow.host, MachineRow.cpu, MachineRow.num_cores),
    *(MachineRow.gpu, MachineRow.num_gpus, MachineRow.driver, MachineRow.hardware_profile),
    _of_gpus(sa.func.count(sa.distinct(GpuRow.name))).label("num_gpu_names"),
    _of_gpus(sa.func.min(GpuRow.memory_bytes)).label("gpu_memory_bytes"),
    sa.select(sa.func.count())
    .where(GpuLinkRow.machine_id == MachineRow.id, GpuLinkRow.num_nvlinks > 0)
    .correlate(MachineRow)
    .scalar_subquery()
    .label("num_nvlink_pairs"),
)
_OF_AN_ENVIRONMENT = (
    *(
        EnvironmentRow.id,
        EnvironmentRow.tensorflow,
        EnvironmentRow.scalemark,
        EnvironmentRow.software_key,
    ),
    EnvironmentRow.description,
)


def _numbered(connection: sa.Connection, statement: sa.Executable) -> dict[Any, Row]:
    """Rows by their id."""
    found = connection.execute(statement)
    names = list(found.keys())
    return {row[0]: dict(zip(names, row, strict=True)) for row in found.all()}


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedFor:
    """By one sweep."""

    sweep_id: int
    positions: Mapping[str, int]  # of trials by their ids, also of those that it found finished
    # machine, software, whether the host was shared: its own, whoever measured it
    counted: frozenset[tuple[str, str, bool]]


def asked_for(engine: sa.Engine, sweep: str) -> AskedFor:
    """Raises StoreError when there is no such sweep."""
    check_sweep(engine, sweep)
    of_sweep = sa.select(SweepRow.id).where(SweepRow.name == sweep).scalar_subquery()
    links = sa.select(SweepTrialRow.trial_id, SweepTrialRow.position).where(
        SweepTrialRow.sweep_id == of_sweep
    )
    where = sa.select(
        MachineRow.key, OrchestratorRow.software_key, OrchestratorRow.shares_host
    ).select_from(OrchestratorRow)
    where = where.join(MachineRow).where(OrchestratorRow.sweep_id == of_sweep)
    with reading(engine) as connection:
        counted = {
            (row.key, row.software_key, row.shares_host) for row in connection.execute(where)
        }
        return AskedFor(
            sweep_id=connection.scalars(sa.select(of_sweep)).one(),
            positions={row.trial_id: row.position for row in connection.execute(links)},
            counted=frozenset(
                {*counted, *((machine, software, False) for machine, software, _ in counted)}
            ),
        )


def is_simulated(engine: sa.Engine, sweep: str) -> bool:
    """Whether who ran this sweep last did so on simulated hardware."""
    statement = (
        sa.select(MachineRow.hardware_profile)
        .join(OrchestratorRow, OrchestratorRow.machine_id == MachineRow.id)
        .join(SweepRow, SweepRow.id == OrchestratorRow.sweep_id)
        .where(SweepRow.name == sweep)
        .order_by(OrchestratorRow.id.desc())
        .limit(1)
    )
    return any(row["hardware_profile"] for row in selected(engine, statement))


def chosen_trials(engine: sa.Engine, filters: Sequence[str]) -> set[str]:
    """Ids of trials that have an attempt for which the filters hold. Raises StoreError for a filter
    that is none.
    """
    statement = (
        sa.select(AttemptRow.trial_id).distinct().where(AttemptRow.id.in_(attempt_ids(filters)))
    )
    return {row["trial_id"] for row in selected(engine, statement)}


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


def num_completed(
    engine: sa.Engine, machine_key: str, software_key: str, *, shares_host: bool = False
) -> dict[str, int]:
    """How many completed attempts each trial has on this machine with this software: trial id ->
    count.

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


def attempt_details(engine: sa.Engine, attempt_ids: Sequence[int]) -> list[Row]:
    """Of these attempts everything that can be listed, `verdict_reasons`, `recorded_profile` (a
    `scalemark.records.measurement.Profile`),
    `recorded_telemetry` (of each GPU a `scalemark.records.measurement.GpuTelemetry`), `truth` (of simulated ones,
    as in `scalemark.records.measurement.Result`), and `devices`: the slots it held, as "0,1".
    """
    with reading(engine) as connection:
        listable = {**LISTABLE, **free_columns(connection)}
    listed = (column.label(name) for name, column in listable.items())
    columns = [
        *listed,
        MeasurementRow.verdict_reasons,
        MeasurementRow.profile.label("recorded_profile"),
    ]
    columns += [
        MeasurementRow.gpu_telemetry.label("recorded_telemetry"),
        MeasurementRow.truth,
        PlacementRow.devices,
    ]
    statement = (
        with_its_machine(*columns)
        .join(SweepRow, SweepRow.id == AttemptRow.sweep_id)
        .join(PlacementRow, PlacementRow.id == AttemptRow.placement_id)
        .order_by(AttemptRow.id)
    )
    return in_parts(engine, statement, AttemptRow.id.expression, attempt_ids)


def steps(engine: sa.Engine, attempt_ids: Sequence[int]) -> dict[int, list[StepSample]]:
    """Of these attempts, those that stepped: every call of the training function in order, warm-up
    included.
    """
    statement = sa.select(*StepArraysRow.__table__.columns)
    found = in_parts(engine, statement, StepArraysRow.attempt_id.expression, attempt_ids)
    return {row["attempt_id"]: step_arrays.unpack(row) for row in found}


def in_parts(
    engine: sa.Engine,
    statement: sa.Select[Any],
    column: sa.ColumnElement[int],
    values: Sequence[int],
) -> list[Row]:
    """The rows of so many values of a column, asked for in parts: databases take only so many at
    once.
    """
    parts = (values[start : start + _AT_A_TIME] for start in range(0, len(values), _AT_A_TIME))
    return [row for part in parts for row in selected(engine, statement.where(column.in_(part)))]


def with_its_trial(engine: sa.Engine, target: Target) -> Row:
    """All rows of an attempt, or of a trial and all its attempts, deleted ones, too."""
    if target.column == "trial_id":
        trial_id = target.id
    else:
        (trial_id,) = selected(engine, sa.select(AttemptRow.trial_id).where(target.has_attempt()))[
            0
        ].values()
    with reading(engine) as connection:
        free = free_columns(connection)
    (trial,) = selected(
        engine,
        sa.select(*TrialRow.__table__.columns, *free.values()).where(TrialRow.id == trial_id),
    )
    trial = {name: value for name, value in trial.items() if name not in free or value is not None}
    statement = (
        sa.select(
            *_OF_AN_ATTEMPT,
            *(
                SweepRow.name.label("sweep"),
                AttemptRow.sweep_id,
                AttemptRow.machine_id,
                AttemptRow.attempt,
            ),
            *(
                AttemptRow.message,
                AttemptRow.exit_code,
                AttemptRow.duration_s,
                AttemptRow.deleted_at,
                RUN_DIR,
            ),
            *(
                column
                for column in PlacementRow.__table__.columns
                if column.name not in ("id", "key", "shares_host")
            ),
            *(
                column
                for column in MeasurementRow.__table__.columns
                if column.name not in _NOT_SHOWN
            ),
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


def known_references(engine: sa.Engine | None) -> list[Row]:
    """As `list_references`; without a database those that come with scalemark."""
    return (
        [asdict(reference) for reference in published()]
        if engine is None
        else list_references(engine)
    )


def check_sweep(engine: sa.Engine, sweep: str) -> None:
    """Raises StoreError when there is no sweep of this name."""
    newest = sa.select(SweepRow.name).order_by(SweepRow.id.desc())
    if not selected(engine, newest.where(SweepRow.name == sweep)):
        names = [row["name"] for row in selected(engine, newest.limit(5))]
        raise NoSweepError(f"{sweep}: no such sweep; the newest are {', '.join(names) or 'none'}")


def query(engine: sa.Engine, sql: str) -> tuple[list[str], list[Sequence[Any]]]:
    """Columns and rows of any statement that only reads. Raises StoreError for others, and with
    what is wrong in the SQL.
    """
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
            # below it PostgreSQL shows a statement that is not the user's
            cause = str(error.orig).partition("\n")[0]
            hint = (
                f"; tables and views: {', '.join(_names(connection))}"
                if _no_such_table(cause)
                else ""
            )
            raise StoreError(f"{cause}{hint}") from error


@contextmanager
def streamed(
    engine: sa.Engine, statement: sa.Select[Any]
) -> Iterator[tuple[list[str], Iterator[Sequence[Any]]]]:
    """Columns and rows of one of our own statements, row by row."""
    with reading(engine) as connection:
        result = connection.execution_options(stream_results=True, yield_per=_AT_A_TIME).execute(
            statement
        )
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
