"""Attempts as MLflow runs, so that people who live in MLflow find them there. MLflow is an optional
extra.
"""

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
from scalemark.records.trial import AXES
from store.errors import StoreError

if TYPE_CHECKING:
    from mlflow import MlflowClient

UID_TAG = "scalemark.attempt_uid"
"""Tells runs that are exported already."""

_MEASURED = [field.name for field in fields(Measurement)]
_AXES = ["strategy", *(name for name in AXES if name not in _MEASURED)]
_TAGS = (
    "sweep",
    "host",
    "gpu",
    "verdict",
    "outcome",
    "message",
    "repeat",
    "attempt",
    "tensorflow",
    "scalemark",
    "driver",
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
    """How many runs were made: one per attempt that the experiment does not have yet.

    An attempt is a row of axes, measurement and machine with `attempt_id` (what `steps` takes),
    `attempt_uid` (the same in every database that holds it), `id` (the trial's), `outcome`,
    `started_at` and `duration_s`; `num_steps` is what was measured. What is None or missing is left
    out. A run that an export left unfinished is finished by the next. Raises StoreError when MLflow
    is not installed, cannot be reached, or refuses.
    """
    # who exports results has not asked to be counted
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
        where, why = (
            _CREDENTIALS.sub("//***@", text)
            for text in (tracking_uri, next(iter(str(error).splitlines()), ""))
        )
        raise StoreError(f"MLflow cannot write to {where}: {why}") from error


def _check_it_is_not_ours(tracking_uri: str) -> None:
    """MLflow would make its tables among ours."""
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
    """Uid -> run, and whether it is whole."""
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
    began_ms = _ms(attempt["started_at"])
    duration_s = attempt.get("duration_s")
    ended_ms = began_ms + round(duration_s * 1000) if isinstance(duration_s, int | float) else None
    if not run_id:
        trial = (
            f"{attempt.get('model')} {attempt.get('strategy')} {attempt.get('num_gpus')} "
            f"{str(attempt['id'])[:8]}"
        )
        name = f"{_simulated(attempt, ' ')}{trial}"
        run_id = client.create_run(
            experiment_id, start_time=began_ms, tags={UID_TAG: uid}, run_name=name
        ).info.run_id
    client.log_batch(
        run_id,
        params=[Param(name, str(attempt[name])[:_LONGEST_PARAM]) for name in _told(attempt, _AXES)],
        tags=[
            RunTag("scalemark.trial_id", str(attempt["id"])),
            *(
                RunTag(f"scalemark.{name}", str(attempt[name])[:_LONGEST_TAG])
                for name in _told(attempt, _TAGS)
            ),
        ],
    )
    told = [
        (name, attempt[name], ended_ms or began_ms, 0)
        for name in _told(attempt, [*_MEASURED, "duration_s"])
    ]
    points = [*told, *_series(attempt, began_ms, steps(attempt_id))]
    _log_metrics(
        client,
        run_id,
        [
            (f"{_simulated(attempt, '_')}{name}", value, at_ms, step)
            for name, value, at_ms, step in points
        ],
    )
    status = _STATUS.get(Outcome(str(attempt["outcome"])), "FAILED")
    client.set_terminated(
        run_id, status=status, end_time=ended_ms if ended_ms is not None else began_ms
    )
    known[uid] = run_id, True
    return True


def _simulated(attempt: Mapping[str, object], then: str) -> str:
    """What names of runs and metrics begin with that MLflow must not show among measured ones; else
    nothing.
    """
    return f"simulated{then}" if attempt.get("device_kind") == DeviceKind.SIMULATED_GPU else ""


_Point = tuple[str, object, int, int]  # name, value, time in ms, step


def _series(
    attempt: Mapping[str, object], began_ms: int, samples: Sequence[StepSample]
) -> list[_Point]:
    """Seconds per step and loss of every call, at the time when it ended."""
    until_first_step, first_step = attempt.get("time_to_first_step_s"), attempt.get("first_step_s")
    before_s = (
        until_first_step - first_step
        if isinstance(until_first_step, float) and isinstance(first_step, float)
        else 0.0
    )
    points: list[_Point] = []
    for sample in samples:
        at_ms = began_ms + round((before_s + sample.start_s + sample.duration_s) * 1000)
        points.append(("step_s", sample.duration_s / sample.num_steps, at_ms, sample.step))
        if sample.loss is not None:
            points.append(("loss", sample.loss, at_ms, sample.step))
    return points


def _log_metrics(client: MlflowClient, run_id: str, points: Sequence[_Point]) -> None:
    from mlflow.entities import Metric

    metrics = [
        Metric(name, float(value), at_ms, step)
        for name, value, at_ms, step in points
        if isinstance(value, int | float) and math.isfinite(value)
    ]
    for first in range(0, len(metrics), _AT_ONCE):
        client.log_batch(run_id, metrics=metrics[first : first + _AT_ONCE])


def _told(attempt: Mapping[str, object], names: Iterable[str]) -> list[str]:
    return [name for name in names if attempt.get(name) is not None]


def _ms(at: object) -> int:
    assert isinstance(at, datetime)
    if at.utcoffset() is None:
        raise ValueError(f"{at}: a time without zone")
    return round(at.timestamp() * 1000)
