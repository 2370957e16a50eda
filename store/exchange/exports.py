"""Writes attempts for other programs: as CSV or Parquet by pandas, or as runs of MLflow, each once,
by MLflow's own client, which is an optional extra.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from scalemark.host.own_code import command_that_adds
from scalemark.records.machine import DeviceKind
from scalemark.records.measurement import StepSample
from scalemark.records.outcomes import Outcome
from scalemark.text.untrusted import masked, without_secrets
from scalemark.text.wording import guarded
from store.database import open_for_reading, reading
from store.errors import StoreError
from store.filters import NOT_AXES
from store.reading.listing import LISTABLE, full_names, listing
from store.reading.queries import columns_of, steps
from store.schema import AttemptRow, TrialRow, UtcDateTime
from store.trial_rows import free_columns

if TYPE_CHECKING:
    import pandas as pd
    from mlflow import MlflowClient

# of trials; their item gives way to what attempts counted
_AXES = [
    column.name for column in TrialRow.__table__.columns if column.name not in (*NOT_AXES, "item")
]
_TAGS = (
    *("attempt_id", "trial_id", "sweep", "origin", "repeat", "attempt", "outcome", "verdict"),
    *("shares_host", "machine", "host", "cpu", "gpu", "driver", "software_key"),
    *("tensorflow", "keras", "scalemark", "revision"),
)
_MEASURED = (
    *("throughput", "throughput_low", "throughput_high", "median_step_s", "jitter_s"),
    *("p90_step_s", "time_to_first_step_s", "duration_s", "num_measured_steps", "data_wait_share"),
    *("cores_taken_by_others", "steady", "peak_host_memory_bytes", "peak_device_memory_bytes"),
    *("mfu", "peak_flops_per_s", "variable_bytes", "optimizer_state_bytes"),
)
_ALWAYS_THERE = ("attempts", "trials", "sweeps", "machines")

UID_TAG = "scalemark.attempt_uid"
"""The tag by which runs of MLflow that exist are found."""

# every other outcome: FAILED
_STATUS = {Outcome.COMPLETED: "FINISHED", Outcome.INTERRUPTED: "KILLED"}
_AT_ONCE = 1000  # metrics: MLflow's server takes no more in one request
_LONGEST = 6000  # characters of a parameter: MLflow takes no more
_DATABASES = ("sqlite", "postgresql", "mysql", "mssql")  # schemes of tracking URIs


class ExportFormat(StrEnum):
    """The formats that are written."""

    CSV = "csv"
    PARQUET = "parquet"
    MLFLOW = "mlflow"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """The attempts that were written, and where to."""

    num_attempts: int
    path: str


def export(
    url: str,
    out: str,
    wanted: ExportFormat,
    filters: Sequence[str] = (),
    *,
    experiment: str = "scalemark",
) -> Exported:
    """Write all attempts that count, or those that the filters choose: measured and simulated ones,
    which `device_kind` tells apart. `out` is a file, of MLflow its tracking URI.

    Raises StoreError when the file exists, or cannot be written.
    """
    engine = open_for_reading(url)
    try:
        frame = attempts(engine, filters)
        if wanted is ExportFormat.MLFLOW:
            _export_to_mlflow(engine, frame, tracking_uri=out, experiment=experiment)
        else:
            _write(frame, out, wanted)
    finally:
        engine.dispose()
    return Exported(num_attempts=len(frame), path=masked(out))


def attempts(engine: sa.Engine, filters: Sequence[str] = ()) -> pd.DataFrame:
    """Return a row for each attempt that the filters choose, oldest first, with all axes. The types
    of columns do not depend on what is in them.
    """
    import pandas as pd  # here, because it takes longer to import than most commands take

    named = full_names(engine, filters)
    with reading(engine) as connection:
        free = free_columns(connection)
    names = ["attempt_id", "trial_id", *_AXES, *free]
    names += ["sweep", "origin", "repeat", "attempt", "outcome", "item", "started_at", *_MEASURED]
    names += [name for name in _TAGS if name not in names]
    columns = {**LISTABLE, **free}
    columns |= columns_of(AttemptRow, "attempt")
    columns["attempt_id"] = LISTABLE["attempt"]
    statement = listing(engine, named, columns=["trial_id"])
    statement = statement.with_only_columns(*(columns[name].label(name) for name in names))
    dtypes = {name: _dtype(columns[name]) for name in names}
    try:
        with reading(engine) as connection:
            return pd.read_sql(statement, connection, dtype=dtypes)
    except pd.errors.DatabaseError as error:  # pandas wraps what the driver raises
        raise error.__cause__ or error from error


def _dtype(column: Any) -> str:
    kind = column.type
    may_lack = column.nullable or column.table.name not in _ALWAYS_THERE
    if isinstance(kind, sa.Boolean):
        return "boolean" if may_lack else "bool"
    if isinstance(kind, sa.Integer):
        return "Int64" if may_lack else "int64"
    if isinstance(kind, sa.Float):
        return "float64"
    return "datetime64[us, UTC]" if isinstance(kind, UtcDateTime) else "category"


def _write(frame: pd.DataFrame, out: str, wanted: ExportFormat) -> None:
    if "://" in out:
        raise StoreError(f"{masked(out)}: a URL; wanted a file to write to")
    path, draft = Path(out), Path(f"{out}.draft")
    for there in (path, draft):
        if there.exists():
            raise StoreError(
                f"{there}: it is there already; remove it, or give another file with --out"
            )
    try:
        if wanted is ExportFormat.PARQUET:
            frame.to_parquet(draft, index=False)
        else:
            for name in frame.select_dtypes(["category", "object"]):
                frame[name] = frame[name].astype("object").map(_csv_cell)
            frame.to_csv(draft, index=False, encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        why = error.strerror or error
        raise StoreError(f"{out}: {why}; give another file with --out") from error
    finally:
        draft.unlink(missing_ok=True)


def _csv_cell(value: object) -> object:
    """Put an apostrophe before text that a spreadsheet would take for a formula."""
    return guarded(value) if isinstance(value, str) else value


def _export_to_mlflow(
    engine: sa.Engine, frame: pd.DataFrame, *, tracking_uri: str, experiment: str
) -> None:
    """Make one run per attempt that the experiment does not have yet; axes are its parameters.

    A run that was not finished is finished by the next export. Raises StoreError when MLflow is not
    installed, cannot be reached, or refuses.
    """
    # an export of results must not send usage data
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    try:
        from mlflow import MlflowClient
        from mlflow.exceptions import MlflowException
    except ImportError as error:
        raise StoreError(
            f"MLflow is not installed ({error}); {command_that_adds('mlflow')} adds it"
        ) from error
    from alembic.util.exc import CommandError  # MLflow lets these two through
    from sqlalchemy.exc import SQLAlchemyError

    try:
        _check_it_is_not_ours(tracking_uri)
        client = MlflowClient(tracking_uri=tracking_uri)
        known = client.get_experiment_by_name(experiment)
        if known is not None and known.lifecycle_stage != "active":
            raise StoreError(f"experiment {experiment} is deleted in MLflow: restore it there")
        experiment_id = known.experiment_id if known else client.create_experiment(experiment)
        runs = _known_runs(client, experiment_id)
        for record in frame.to_dict("records"):
            row = {str(name): value for name, value in record.items() if _is_known(value)}
            names = ("sweep", "trial_id", "repeat", "attempt", "started_at")
            uid = " ".join(str(row[name]) for name in names)  # the same in every database
            run_id, status = runs.get(uid, ("", "RUNNING"))
            if status == "RUNNING":
                run_id = run_id or _new_run(client, experiment_id, uid, row)
                (samples,) = steps(engine, [row["attempt_id"]]).values() or [[]]
                _log(client, run_id, row, samples)
    except (MlflowException, SQLAlchemyError, CommandError, ImportError, OSError) as error:
        first_line = without_secrets(str(error).partition("\n")[0])
        raise StoreError(f"MLflow cannot write to {masked(tracking_uri)}: {first_line}") from error


def _check_it_is_not_ours(tracking_uri: str) -> None:
    """Raise StoreError for a database of ours, in which MLflow would make its tables."""
    if not tracking_uri.startswith(_DATABASES):
        return
    engine = sa.create_engine(tracking_uri)
    try:
        is_ours = sa.inspect(engine).has_table("sweep_trials")
    finally:
        engine.dispose()
    if is_ours:
        raise StoreError(
            f"{masked(tracking_uri)} is a database of scalemark's own: give MLflow another, as "
            "sqlite:///mlflow.db"
        )


def _known_runs(client: MlflowClient, experiment_id: str) -> dict[str, tuple[str, str]]:
    """Return uid -> run, and its status."""
    runs: dict[str, tuple[str, str]] = {}
    token: str | None = ""
    while token is not None:
        page = client.search_runs([experiment_id], page_token=token or None)
        for run in page:
            runs[run.data.tags.get(UID_TAG, "")] = run.info.run_id, run.info.status
        token = page.token or None
    return runs


def _new_run(client: MlflowClient, experiment_id: str, uid: str, row: Mapping[str, Any]) -> str:
    words = [row.get(name) for name in ("model", "variable_update", "num_gpus")]
    name = " ".join(str(word) for word in (*words, row["trial_id"][:8]) if word)
    run = client.create_run(
        experiment_id,
        start_time=_ms(row["started_at"]),
        tags={UID_TAG: uid},
        run_name=f"{_simulated(row)}{name}",
    )
    return str(run.info.run_id)


def _log(
    client: MlflowClient, run_id: str, row: Mapping[str, Any], samples: Sequence[StepSample]
) -> None:
    from mlflow.entities import Metric, Param, RunTag

    # MLflow shows runs in one table: simulated numbers must not stand among measured ones
    prefix = _simulated(row).replace(" ", "_")
    ended_at = row["started_at"] + timedelta(seconds=row.get("duration_s", 0))
    tags, params, metrics = [], [], []
    for name, value in row.items():
        if name in _TAGS:
            tags.append(RunTag(f"scalemark.{name}", str(value)))
        elif name in _MEASURED:
            metrics.append(Metric(f"{prefix}{name}", float(value), _ms(ended_at), 0))
        elif name != "started_at":
            params.append(Param(name, str(value)[:_LONGEST]))
    client.log_batch(run_id, params=params, tags=tags)
    for step in samples:
        at_ms = _ms(row["started_at"] + timedelta(seconds=step.start_s + step.duration_s))
        step_s = step.duration_s / step.num_steps
        metrics.append(Metric(f"{prefix}step_s", step_s, at_ms, step.step))
        if step.loss is not None:
            metrics.append(Metric(f"{prefix}loss", step.loss, at_ms, step.step))
    for first in range(0, len(metrics), _AT_ONCE):
        client.log_batch(run_id, metrics=metrics[first : first + _AT_ONCE])
    status = _STATUS.get(Outcome(row["outcome"]), "FAILED")
    client.set_terminated(run_id, status=status, end_time=_ms(ended_at))


def _simulated(row: Mapping[str, Any]) -> str:
    return "simulated " if row["device_kind"] == DeviceKind.SIMULATED_GPU else ""


def _is_known(value: object) -> bool:
    """Return whether a cell of a frame is not missing: NaN, NA and NaT equal nothing."""
    if isinstance(value, float):
        return math.isfinite(value)
    return value is not None and str(value) not in ("<NA>", "NaT", "")


def _ms(at: Any) -> int:
    ms: int = round(at.timestamp() * 1000)
    return ms
