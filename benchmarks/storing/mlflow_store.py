"""The same results in MLflow: a run per attempt in its SQLite tracking store, written and read as
its documentation tells.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from pathlib import Path

from scalemark.records.step_arrays import unpack
from store.exchange.portable import PortableAttempt

NUM_TRIALS = 1_000  # three attempts each
_MOST_METRICS = 1000  # that MLflow takes at once


class Store:
    """A new tracking store, with one experiment."""

    def __init__(self, path: Path) -> None:
        os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
        warnings.simplefilter("ignore")
        import mlflow  # here, because it takes seconds
        from mlflow.entities import Metric, Param, RunTag

        self._mlflow, self._Metric, self._Param, self._RunTag = mlflow, Metric, Param, RunTag
        mlflow.set_tracking_uri(f"sqlite:///{path}")
        self._client = mlflow.MlflowClient()
        self._experiment = self._client.create_experiment("results")
        self._run_ids: list[str] = []

    def write(self, attempts: Sequence[PortableAttempt]) -> None:
        """Axes as params, the measurement and every step as metrics, in as few calls as it
        takes.
        """
        for attempt in attempts:
            at_ms = int(attempt.started_at.timestamp() * 1000)
            run = self._client.create_run(
                self._experiment, start_time=at_ms, run_name=attempt.run_dir
            )
            axes = (
                "model",
                "num_gpus",
                "batch_size",
                "precision",
                "variable_update",
                "local_parameter_device",
                "all_reduce",
            )
            params = [
                self._Param(axis, str(getattr(attempt.spec, axis)))
                for axis in (*axes, "data", "optimizer", "seed")
            ]
            tags = [
                self._RunTag("sweep", attempt.sweep.name),
                self._RunTag("trial", attempt.trial_id),
            ]
            assert attempt.measured is not None
            assert attempt.steps is not None
            reported = attempt.measured.measurement
            metrics = [
                self._Metric(name, float(value), at_ms, 0)
                for name, value in reported.items()
                if value is not None and not isinstance(value, str)
            ]
            for step in unpack(attempt.steps.columns()):
                metrics.append(self._Metric("step_s", step.duration_s, at_ms, step.step))
                if step.loss is not None:
                    metrics.append(self._Metric("loss", step.loss, at_ms, step.step))
            for begin in range(0, len(metrics), _MOST_METRICS):
                self._client.log_batch(
                    run.info.run_id, metrics[begin : begin + _MOST_METRICS], params, tags
                )
                params, tags = [], []
            self._client.set_terminated(run.info.run_id, "FINISHED", at_ms + 30_000)
            self._run_ids.append(run.info.run_id)

    def listed(self) -> object:
        """Params are text to it, so num_gpus >= 4 is reported as what it can be."""
        wanted = (
            "params.model = 'resnet50' and params.batch_size = '64' and params.precision = 'bf16'"
        )
        pages = [
            self._client.search_runs(
                [self._experiment],
                f"{wanted} and params.num_gpus = '{num_gpus}'",
                max_results=50_000,
            )
            for num_gpus in (4, 8)
        ]
        return [run for page in pages for run in page]

    def shown(self) -> object:
        run_id = self._run_ids[4]
        history = [self._client.get_metric_history(run_id, name) for name in ("step_s", "loss")]
        return self._client.get_run(run_id), history

    def frame(self) -> object:
        return self._mlflow.search_runs([self._experiment], max_results=1_000_000)
