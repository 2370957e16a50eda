"""Exports attempts as MLflow runs. MLflow is an optional extra."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from typing import TYPE_CHECKING

from scalemark.host.extras import command_that_adds
from scalemark.records.devices import DeviceKind
from scalemark.records.measurement import Measurement, StepSample
from scalemark.records.outcomes import Outcome
from scalemark.records.trial import AXES, free_names
from store.errors import StoreError

if TYPE_CHECKING:
    from mlflow import MlflowClient

UID_TAG = "scalemark.attempt_uid"
"""The tag by which runs that exist are found."""

_MEASURED = [field.name for field in fields(Measurement)]
_AXES = ["strategy", *(name for name in AXES if name not in _MEASURED), "item"]
_TAGS = (
    *("sweep", "host", "gpu", "verdict", "outcome", "message", "repeat", "attempt"),
    *("tensorflow", "scalemark", "driver"),
)
# every other outcome: FAILED
_STATUS = {Outcome.COMPLETED: "FINISHED", Outcome.INTERRUPTED: "KILLED"}
_AT_ONCE = 1000  # metrics: MLflow's server takes no more in one request
_LONGEST_PARAM, _LONGEST_TAG = 6000, 8000  # characters: MLflow takes no more
_DATABASES = ("sqlite", "postgresql", "mysql", "mssql")  # schemes of tracking URIs
_CREDENTIALS = re.compile(r"//[^/@\s]*@")


def export(
    attempts: Iterable[Mapping[str, object]],
    steps: Callable[[int], Sequence[StepSample]],
    *,
    tracking_uri: str,
    experiment: str,
) -> int:
    """Make one run per attempt that the experiment does not have yet, and return how many.

    An attempt is a row of axes, free ones too, measurement and machine with `attempt_id` (for
    `steps`), `attempt_uid` (the same in every database), `id` (of the trial), `outcome`,
    `started_at` and `duration_s`; `num_steps` was measured. The next export finishes a run that is
    not finished.
    Raises StoreError when MLflow is not installed, cannot be reached, or refuses.
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
        experiment_id = _experiment_id(client, experiment)
        known = _known_runs(client, experiment_id)
        return sum(
            _export_one(client, experiment_id, attempt, steps, known) for attempt in attempts
        )
    except (MlflowException, SQLAlchemyError, CommandError, ImportError, OSError) as error:
        first_line = str(error).partition("\n")[0]
        said = f"MLflow cannot write to {tracking_uri}: {first_line}"
        raise StoreError(_CREDENTIALS.sub("//***@", said)) from error


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
        where = _CREDENTIALS.sub("//***@", tracking_uri)
        raise StoreError(
            f"{where} is a database of scalemark's own: give MLflow another, as sqlite:///mlflow.db"
        )


def _experiment_id(client: MlflowClient, name: str) -> str:
    found = client.get_experiment_by_name(name)
    if found is None:
        return client.create_experiment(name)
    if found.lifecycle_stage != "active":
        raise StoreError(
            f"experiment {name} is deleted in MLflow: restore it there, or name another"
        )
    return found.experiment_id


def _known_runs(client: MlflowClient, experiment_id: str) -> dict[str, tuple[str, bool]]:
    """Return uid -> run, and whether it is finished."""
    known: dict[str, tuple[str, bool]] = {}
    token: str | None = None
    while True:
        page = client.search_runs(
            [experiment_id], filter_string=f"tags.`{UID_TAG}` LIKE '%'", page_token=token
        )
        for run in page:
            known[run.data.tags[UID_TAG]] = run.info.run_id, run.info.status != "RUNNING"
        token = page.token
        if not token:
            return known


def _export_one(
    client: MlflowClient,
    experiment_id: str,
    attempt: Mapping[str, object],
    steps: Callable[[int], Sequence[StepSample]],
    known: dict[str, tuple[str, bool]],
) -> bool:
    from mlflow.entities import Param, RunTag

    uid, attempt_id = str(attempt["attempt_uid"]), attempt["attempt_id"]
    assert isinstance(attempt_id, int)
    run_id, is_whole = known.get(uid, ("", False))
    if is_whole:
        return False
    began_ms = ended_ms = _ms(attempt["started_at"])
    duration_s = attempt.get("duration_s")
    if isinstance(duration_s, int | float):
        ended_ms = began_ms + round(duration_s * 1000)
    simulated = "simulated" if attempt.get("device_kind") == DeviceKind.SIMULATED_GPU else ""
    if not run_id:
        names = (attempt.get(axis) for axis in ("model", "strategy", "num_gpus"))
        name = " ".join([simulated, *map(str, names), str(attempt["id"])[:8]]).strip()
        run = client.create_run(
            experiment_id, start_time=began_ms, tags={UID_TAG: uid}, run_name=name
        )
        run_id = run.info.run_id
    axes = _known(attempt, [*_AXES, *free_names(attempt)])
    params = [Param(name, str(attempt[name])[:_LONGEST_PARAM]) for name in axes]
    tags = [RunTag("scalemark.trial_id", str(attempt["id"]))]
    for name in _known(attempt, _TAGS):
        tags.append(RunTag(f"scalemark.{name}", str(attempt[name])[:_LONGEST_TAG]))
    client.log_batch(run_id, params=params, tags=tags)
    points: list[_Point] = []
    for name in _known(attempt, [*_MEASURED, "duration_s"]):
        points.append((name, attempt[name], ended_ms, 0))
    points += _series(attempt, began_ms, steps(attempt_id))
    # MLflow shows runs in one table: simulated numbers must not stand among measured ones
    _log_metrics(client, run_id, points, prefix=f"{simulated}_" if simulated else "")
    status = _STATUS.get(Outcome(str(attempt["outcome"])), "FAILED")
    client.set_terminated(run_id, status=status, end_time=ended_ms)
    known[uid] = run_id, True
    return True


_Point = tuple[str, object, int, int]  # name, value, time in ms, step


def _series(
    attempt: Mapping[str, object], began_ms: int, samples: Sequence[StepSample]
) -> list[_Point]:
    """Return seconds per step and loss of every call, at the time when it ended."""
    until_first_step = attempt.get("time_to_first_step_s")
    first_step = attempt.get("first_step_s")
    before_s = 0.0
    if isinstance(until_first_step, float) and isinstance(first_step, float):
        before_s = until_first_step - first_step
    points: list[_Point] = []
    for sample in samples:
        at_ms = began_ms + round((before_s + sample.start_s + sample.duration_s) * 1000)
        points.append(("step_s", sample.duration_s / sample.num_steps, at_ms, sample.step))
        if sample.loss is not None:
            points.append(("loss", sample.loss, at_ms, sample.step))
    return points


def _log_metrics(client: MlflowClient, run_id: str, points: Sequence[_Point], prefix: str) -> None:
    from mlflow.entities import Metric

    metrics = []
    for name, value, at_ms, step in points:
        if isinstance(value, int | float) and math.isfinite(value):
            metrics.append(Metric(f"{prefix}{name}", float(value), at_ms, step))
    for first in range(0, len(metrics), _AT_ONCE):
        client.log_batch(run_id, metrics=metrics[first : first + _AT_ONCE])


def _known(attempt: Mapping[str, object], names: Iterable[str]) -> list[str]:
    return [name for name in names if attempt.get(name) is not None]


def _ms(at: object) -> int:
    assert isinstance(at, datetime)
    if at.utcoffset() is None:
        raise ValueError(f"{at}: a time without zone")
    return round(at.timestamp() * 1000)
