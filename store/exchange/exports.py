"""Writes attempts for other programs: as CSV or Parquet by pandas, or as runs of MLflow, each once,
by MLflow's own client, which is an optional extra.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scalemark.host.own_code import command_that_adds
from scalemark.records.machine import DeviceKind
from scalemark.records.outcomes import Outcome
from scalemark.text.untrusted import masked, without_secrets
from scalemark.text.wording import guarded
from store.errors import StoreError

if TYPE_CHECKING:
    import pandas as pd
    from mlflow import MlflowClient

UID_TAG = "scalemark.attempt_uid"
"""The tag by which runs of MLflow that exist are found."""

_TAGS = (
    *("attempt_id", "trial_id", "sweep", "origin", "repeat", "attempt", "outcome", "verdict"),
    *("machine", "host", "gpu", "software_key", "tensorflow"),
)
_MEASURED = (
    *("throughput", "throughput_low", "throughput_high", "median_step_s", "jitter_s"),
    *("p90_step_s", "time_to_first_step_s", "duration_s", "num_measured_steps", "data_wait_share"),
    *("cores_taken_by_others", "steady", "peak_host_memory_bytes", "peak_device_memory_bytes"),
    *("mfu", "peak_flops_per_s", "variable_bytes", "optimizer_state_bytes"),
)
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
    from store import api  # here, because pandas takes longer to import than most commands take

    database = api.open(url)
    try:
        frame = database.attempts_of_all_origins(*filters)
        if wanted is ExportFormat.MLFLOW:
            _export_to_mlflow(frame, database.steps, tracking_uri=out, experiment=experiment)
        else:
            _write(frame, out, wanted)
    finally:
        database.engine.dispose()
    return Exported(num_attempts=len(frame), path=masked(out))


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
    attempts: pd.DataFrame,
    steps: Callable[[int], pd.DataFrame],
    *,
    tracking_uri: str,
    experiment: str,
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
        for record in attempts.to_dict("records"):
            row: dict[str, Any] = {str(name): value for name, value in record.items()}
            uid = _uid(row)
            run_id, is_whole = runs.get(uid, ("", False))
            if not is_whole:
                run_id = run_id or _new_run(client, experiment_id, uid, row)
                _log(client, run_id, row, steps(row["attempt_id"]))
    except (MlflowException, SQLAlchemyError, CommandError, ImportError, OSError) as error:
        first_line = without_secrets(str(error).partition("\n")[0])
        raise StoreError(f"MLflow cannot write to {masked(tracking_uri)}: {first_line}") from error


def _check_it_is_not_ours(tracking_uri: str) -> None:
    """Raise StoreError for a database of ours, in which MLflow would make its tables."""
    if not tracking_uri.startswith(_DATABASES):
        return
    import sqlalchemy as sa

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


def _known_runs(client: MlflowClient, experiment_id: str) -> dict[str, tuple[str, bool]]:
    """Return uid -> run, and whether it is finished."""
    runs: dict[str, tuple[str, bool]] = {}
    token: str | None = None
    while True:
        page = client.search_runs(
            [experiment_id], filter_string=f"tags.`{UID_TAG}` LIKE '%'", page_token=token
        )
        for run in page:
            runs[run.data.tags[UID_TAG]] = run.info.run_id, run.info.status != "RUNNING"
        token = page.token
        if not token:
            return runs


def _uid(row: Mapping[str, Any]) -> str:
    """Identify an attempt in every database: names of sweeps may come again, with another time."""
    words = [row["sweep"], row["trial_id"], row["repeat"], row["attempt"], _ms(row["started_at"])]
    return " ".join(map(str, words))


def _new_run(client: MlflowClient, experiment_id: str, uid: str, row: Mapping[str, Any]) -> str:
    words = [row["model"], row["variable_update"], row["num_gpus"], row["trial_id"][:8]]
    name = " ".join(str(word) for word in words if _is_known(word))
    run = client.create_run(
        experiment_id,
        start_time=_ms(row["started_at"]),
        tags={UID_TAG: uid},
        run_name=f"{_simulated(row)}{name}",
    )
    return str(run.info.run_id)


def _log(client: MlflowClient, run_id: str, row: Mapping[str, Any], steps: pd.DataFrame) -> None:
    from mlflow.entities import Metric, Param, RunTag

    # MLflow shows runs in one table: simulated numbers must not stand among measured ones
    prefix = _simulated(row).replace(" ", "_")
    ended_at = row["started_at"]
    if _is_known(row["duration_s"]):
        ended_at += timedelta(seconds=row["duration_s"])
    tags, params, metrics = [], [], []
    for name, value in row.items():
        if not _is_known(value) or name == "started_at":
            continue
        if name in _TAGS:
            tags.append(RunTag(f"scalemark.{name}", str(value)))
        elif name not in _MEASURED:
            params.append(Param(name, str(value)[:_LONGEST]))
        elif math.isfinite(value):
            metrics.append(Metric(f"{prefix}{name}", float(value), _ms(ended_at), 0))
    client.log_batch(run_id, params=params, tags=tags)
    for step in steps.to_dict("records"):
        at_ms = _ms(row["started_at"] + timedelta(seconds=step["start_s"] + step["duration_s"]))
        values = {"step_s": step["duration_s"] / step["num_steps"], "loss": step["loss"]}
        for name, number in values.items():
            if math.isfinite(number):
                metrics.append(Metric(f"{prefix}{name}", number, at_ms, step["step"]))
    for first in range(0, len(metrics), _AT_ONCE):
        client.log_batch(run_id, metrics=metrics[first : first + _AT_ONCE])
    status = _STATUS.get(Outcome(row["outcome"]), "FAILED")
    client.set_terminated(run_id, status=status, end_time=_ms(ended_at))


def _simulated(row: Mapping[str, Any]) -> str:
    return "simulated " if row["device_kind"] == DeviceKind.SIMULATED_GPU else ""


def _is_known(value: object) -> bool:
    """Return whether a cell of a frame is not missing: NaN, NA and NaT equal nothing."""
    return value is not None and bool(str(value) not in ("nan", "<NA>", "NaT", ""))


def _ms(at: Any) -> int:
    ms: int = round(at.timestamp() * 1000)
    return ms
