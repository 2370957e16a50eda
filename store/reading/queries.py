"""Queries that return plain rows. All keep trials whole: none averages over an axis."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any

import sqlalchemy as sa

from scalemark.records.attempt import unpack_steps
from scalemark.records.measurement import StepSample, Verdict
from scalemark.stats.welch import known_ratio_interval, typical
from store.database import reading
from store.errors import NoSweepError, StoreError
from store.filters import attempt_ids, checked, deleted_at
from store.rows import in_chunks
from store.schema import (
    AttemptRow,
    EnvironmentRow,
    GpuLinkRow,
    GpuRow,
    MachineRow,
    MeasurementRow,
    OrchestratorRow,
    PlacementRow,
    StepArraysRow,
    SweepRow,
    SweepTrialRow,
    TrialRow,
)
from store.tables import free_values

Row = dict[str, Any]


_COUNTS = deleted_at(False)


def measured(
    connection: sa.Connection, filters: Sequence[str] = (), *, like_sweep: str | None = None
) -> list[Row]:
    """Return the attempts for which the filters hold, oldest first; with `like_sweep` only those of
    models that this sweep asked for. Each has its `trial` (id, curve and axes), `machine` and
    `environment` (None: it ended before that was known) as rows that many share, its `position` in
    its sweep, and `ran_on`: of each of its hosts the machine's name; empty where all were processes
    of `machine`.

    Raises StoreError for an unknown filter.
    """
    chosen = _COUNTS
    if filters:
        chosen = sa.and_(chosen, AttemptRow.id.in_(attempt_ids(filters)))
    trials = sa.select(*_OF_A_TRIAL, *free_values(connection))
    if like_sweep is not None:
        asked_for = (
            sa.select(TrialRow.model)
            .join(SweepTrialRow, SweepTrialRow.trial_id == TrialRow.id)
            .join(SweepRow, SweepRow.id == SweepTrialRow.sweep_id)
        )
        is_alike = TrialRow.model.in_(asked_for.where(SweepRow.name == like_sweep))
        trials = trials.where(is_alike)
        chosen = sa.and_(chosen, AttemptRow.trial_id.in_(sa.select(TrialRow.id).where(is_alike)))
    if filters:
        trials = trials.where(TrialRow.id.in_(sa.select(AttemptRow.trial_id).where(chosen)))
    machines = numbered(connection, sa.select(*_OF_A_MACHINE))
    environments = numbered(connection, sa.select(*_OF_AN_ENVIRONMENT))
    by_id = numbered(connection, trials)
    machines_of = {row.id: row.hosts.split(",") for row in connection.execute(_OVER_HOSTS)}
    statement = _MEASURED.where(chosen).order_by(AttemptRow.id)
    attempts = []
    # shared rows by number, because there may be hundreds of thousands of attempts
    for row in connection.execute(statement).all():
        attempt = dict(zip(_OF_AN_ATTEMPT, row, strict=True))
        attempt["trial"] = by_id[row[0]]
        attempt["machine"] = machines[row[1]]
        attempt["environment"] = environments.get(row[2])
        attempt["ran_on"] = machines_of.get(row[3], ())
        attempts.append(attempt)
    return attempts


def columns_of(table: type[Any], names: str) -> dict[str, sa.Column[Any]]:
    """Return the columns with these names, which spaces part."""
    return {name: table.__table__.columns[name] for name in names.split()}


def columns_but(table: type[Any], names: Collection[str]) -> dict[str, sa.Column[Any]]:
    columns = table.__table__.columns
    return {column.name: column for column in columns if column.name not in names}


def num_attempts(connection: sa.Connection, *, deleted: bool = False) -> int:
    """Count the attempts that count, or those that are deleted."""
    statement = sa.select(sa.func.count()).select_from(AttemptRow).where(deleted_at(deleted))
    return connection.scalar(statement) or 0


def _of_all(figure: sa.ColumnElement[Any], *which: sa.ColumnElement[bool]) -> Any:
    """Select a figure of all GPUs, or links, of a machine."""
    return sa.select(figure).where(*which).correlate(MachineRow).scalar_subquery()


_OF_AN_ATTEMPT = {
    **columns_of(AttemptRow, "trial_id machine_id environment_id placement_id"),
    "attempt_id": AttemptRow.id,
    **columns_of(AttemptRow, "sweep_id repeat outcome shares_host"),
    "position": SweepTrialRow.position,
    **columns_of(
        MeasurementRow,
        "throughput throughput_low throughput_high median_step_s cores_taken_by_others verdict "
        "steady item reported mfu variable_bytes optimizer_state_bytes peak_device_memory_bytes "
        "peak_host_memory_bytes last_loss",
    ),
    # of most attempts JSON's null, which would be read anew for each of hundreds of thousands
    "metrics": sa.case(
        (sa.cast(MeasurementRow.metrics, sa.Text) != "null", MeasurementRow.metrics)
    ),
    "verdict_reasons": sa.case(
        (MeasurementRow.verdict == Verdict.SUSPECT, MeasurementRow.verdict_reasons)
    ),
}
_ASKED_FOR = sa.and_(
    SweepTrialRow.sweep_id == AttemptRow.sweep_id, SweepTrialRow.trial_id == AttemptRow.trial_id
)
_MEASURED = (
    sa.select(*_OF_AN_ATTEMPT.values())
    .select_from(AttemptRow)
    .outerjoin(MeasurementRow, MeasurementRow.attempt_id == AttemptRow.id)
    .outerjoin(SweepTrialRow, _ASKED_FOR)
)
_OVER_HOSTS = sa.select(PlacementRow.id, PlacementRow.hosts).where(PlacementRow.hosts != "")
_OF_A_TRIAL = tuple(columns_but(TrialRow, ("spec",)).values())
_IS_ITS_GPU = GpuRow.machine_id == MachineRow.id
_OF_A_MACHINE = (
    *columns_of(
        MachineRow, "id key host cpu num_cores gpu num_gpus driver hardware_profile"
    ).values(),
    _of_all(sa.func.count(sa.distinct(GpuRow.name)), _IS_ITS_GPU).label("num_gpu_names"),
    _of_all(sa.func.min(sa.cast(GpuRow.compute_capability, sa.Float)), _IS_ITS_GPU).label(
        "compute_capability"
    ),
    _of_all(
        sa.func.count(), GpuLinkRow.machine_id == MachineRow.id, GpuLinkRow.num_nvlinks > 0
    ).label("num_nvlink_pairs"),
)
_OF_AN_ENVIRONMENT = tuple(
    columns_of(EnvironmentRow, "id tensorflow scalemark software_key revision description").values()
)


def numbered(connection: sa.Connection, statement: sa.Executable) -> dict[Any, Row]:
    """Return rows by their id, which is the first column."""
    result = connection.execute(statement)
    names = list(result.keys())
    return {row[0]: dict(zip(names, row, strict=True)) for row in result.all()}


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepTrials:
    """The trials that one sweep asked for."""

    sweep_id: int
    positions: Mapping[str, int]  # of trials by their ids, also of those that it found finished
    # machine, software, whether the host was shared: its own, whoever measured it
    counted: frozenset[tuple[str, str, bool]]


def asked_for(connection: sa.Connection, sweep: str) -> SweepTrials:
    """Raises StoreError when there is no such sweep."""
    check_sweep(connection, sweep)
    of_sweep = sa.select(SweepRow.id).where(SweepRow.name == sweep).scalar_subquery()
    links = sa.select(SweepTrialRow.trial_id, SweepTrialRow.position).where(
        SweepTrialRow.sweep_id == of_sweep
    )
    where = (
        sa.select(MachineRow.key, OrchestratorRow.software_key, OrchestratorRow.shares_host)
        .select_from(OrchestratorRow)
        .join(MachineRow)
        .where(OrchestratorRow.sweep_id == of_sweep)
    )
    counted = set()
    for machine, software, shares_host in connection.execute(where):
        # what ran alone counts for a sweep that shares its host, too
        counted |= {(machine, software, shares_host), (machine, software, False)}
    return SweepTrials(
        sweep_id=connection.scalars(sa.select(of_sweep)).one(),
        positions=dict(connection.execute(links).all()),
        counted=frozenset(counted),
    )


def steps(engine: sa.Engine, attempt_ids: Sequence[int]) -> dict[int, list[StepSample]]:
    """Return every call of the training function of attempts in order, warm-up included."""
    statement = sa.select(*StepArraysRow.__table__.columns)
    arrays = in_parts(engine, statement, StepArraysRow.attempt_id.expression, attempt_ids)
    return {row["attempt_id"]: unpack_steps(row) for row in arrays}


def printed_numbers(metrics: Mapping[str, Any] | None, last_loss: float | None) -> dict[str, Any]:
    """Return the numbers beside the speed of an attempt by name: `loss`, and what it printed."""
    printed = dict(metrics or {})
    if last_loss is not None:
        printed["loss"] = last_loss
    return printed


_LEAST_LOSS_GAP = 0.01  # repeats of one seed differ by rounding alone, or not at all
_LOSSES = 5  # at the end, of which the median counts


def losses_apart(engine: sa.Engine, faster: Sequence[int], slower: Sequence[int]) -> str:
    """Say that two trials train otherwise: after as many steps their losses differ beyond their own
    repeats. Empty where they do not, and where a side has no two attempts with losses above 0.
    """
    curves = steps(engine, [*faster, *slower])
    num_steps = min((run[-1].step + run[-1].num_steps for run in curves.values()), default=0)
    losses: list[list[float]] = []
    for side in (faster, slower):
        of_side = []
        for run in (curves[attempt_id] for attempt_id in side if attempt_id in curves):
            known = [call.loss for call in run if call.step + call.num_steps <= num_steps]
            last = [loss for loss in known if loss is not None][-_LOSSES:]
            if last and median(last) > 0:
                of_side.append(median(last))
        losses.append(of_side)
    low, high = known_ratio_interval(*losses)
    if low is None or high is None or low <= 1 <= high:
        return ""
    of_faster, of_slower = map(typical, losses)
    if abs(of_faster / of_slower - 1) < _LEAST_LOSS_GAP:
        return ""
    return (
        f"the faster one trains otherwise: after {num_steps} steps its loss is {of_faster:.4g} and "
        f"that of the other {of_slower:.4g}, which is more than their own repeats differ"
    )


def in_parts(
    engine: sa.Engine,
    statement: sa.Select[Any],
    column: sa.ColumnElement[int],
    values: Sequence[int],
) -> list[Row]:
    """Return the rows of many values of a column: databases take only so many at once."""
    parts = []
    for part in in_chunks(values):
        parts += selected(engine, statement.where(column.in_(part)))
    return parts


def check_sweep(connection: sa.Connection, sweep: str) -> None:
    """Raises StoreError when there is no sweep of this name."""
    newest = sa.select(SweepRow.name).order_by(SweepRow.id.desc())
    if connection.scalar(newest.where(SweepRow.name == sweep)) is None:
        names = connection.scalars(newest.limit(5))
        raise NoSweepError(f"{sweep}: no such sweep; the newest are {', '.join(names) or 'none'}")


@contextmanager
def queried(engine: sa.Engine, sql: str) -> Iterator[tuple[list[str], Iterator[Sequence[Any]]]]:
    """Yield columns and rows of a statement that only reads. Raises StoreError for others."""
    with reading(engine) as connection:
        try:
            # a cursor on PostgreSQL's side takes one statement, and no other than one that reads
            options = {**STREAMED, "no_parameters": True}
            result = connection.exec_driver_sql(checked(sql, ""), execution_options=options)
            if not result.returns_rows:
                raise StoreError("the statement returns no rows; query only reads")
            yield list(result.keys()), map(tuple, result)
        except sa.exc.DBAPIError as error:
            connection.rollback()
            # below it PostgreSQL shows a statement that is not the user's
            cause = str(error.orig).partition("\n")[0]
            if "no such table" in cause or ("relation" in cause and "does not exist" in cause):
                inspected = sa.inspect(connection)
                names = sorted([*inspected.get_table_names(), *inspected.get_view_names()])
                cause += f"; tables and views: {', '.join(names)}"
            elif "readonly" in cause:
                cause += "; query only reads, as SELECT * FROM throughput"
            else:
                cause += "; SELECT * FROM throughput LIMIT 1 shows the columns of that view"
            raise StoreError(cause) from error


_AT_A_TIME = 1_000  # rows that are held
STREAMED = {"stream_results": True, "yield_per": _AT_A_TIME}


def rows(engine: sa.Engine, sql: str, **parameters: Any) -> list[Row]:
    """Return rows of one of our own statements, values as the driver has them."""
    return selected(engine, sa.text(sql).bindparams(**parameters))


def selected(engine: sa.Engine, statement: sa.Executable) -> list[Row]:
    """Return rows of one of our own statements."""
    with reading(engine) as connection:
        return rows_of(connection, statement)


def rows_of(connection: sa.Connection, statement: sa.Executable) -> list[Row]:
    return [dict(row) for row in connection.execute(statement).mappings()]
