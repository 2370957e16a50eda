"""Attempts become runs in a tracking store of MLflow's own, in a SQLite file."""

import os
import shutil
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from scalemark.records.measurement import StepSample
from scalemark.records.outcomes import Phase
from store.errors import StoreError
from store.formats.mlflow_runs import UID_TAG, export

pytestmark = pytest.mark.filterwarnings(
    "ignore:The ``noload`` loader strategy is deprecated:sqlalchemy.exc.SADeprecationWarning"  # MLflow 3.17 on SQLAlchemy 2.1
)

URI = "sqlite:///mlflow.db"
BEGAN = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
BEGAN_MS = 1772366400000

ATTEMPT = {
    "attempt_id": 5,
    "attempt_uid": "0b51c0de-1",
    "id": "0123456789abcdef",
    "sweep": "first 'sweep'; DROP TABLE runs",
    "repeat": 1,
    "attempt": 2,
    "model": "resnet50",
    "strategy": "ps_cpu",
    "num_gpus": 4,
    "batch_size": 64,
    "learning_rate": 0.1,
    "xla": "off",
    "host": "node1",
    "gpu": "NVIDIA H200",
    "outcome": "completed",
    "message": "",
    "verdict": "suspect",
    "started_at": BEGAN,
    "duration_s": 60.5,
    "throughput": 853.25,
    "time_to_first_step_s": 20.0,
    "first_step_s": 5.0,
    "num_steps": 100,
    "peak_device_memory_bytes": None,
    "last_loss": float("nan"),
    "run_dir": "not of interest to MLflow",
}


def steps(num_steps, loss=7.0):
    return [
        StepSample(
            step=step,
            phase=Phase.MEASURE,
            start_s=step * 0.5,
            duration_s=0.5,
            data_wait_s=0.0,
            loss=loss,
            num_steps=2,
        )
        for step in range(num_steps)
    ]


@pytest.fixture(scope="session")
def _empty_store(tmp_path_factory) -> Path:
    """Made once: MLflow's own migrations take two seconds."""
    os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
    from mlflow import MlflowClient

    path = tmp_path_factory.mktemp("mlflow") / "mlflow.db"
    MlflowClient(tracking_uri=f"sqlite:///{path}").create_experiment("made once")
    return path


@pytest.fixture
def client(_empty_store):
    """Of mlflow.db in the current folder."""
    from mlflow import MlflowClient

    shutil.copy(_empty_store, "mlflow.db")
    return MlflowClient(tracking_uri=f"sqlite:///{Path.cwd()}/mlflow.db")


def export_to(client, attempts, samples=(), experiment="sweeps"):
    return export(
        attempts,
        lambda attempt_id: samples,
        tracking_uri=client.tracking_uri,
        experiment=experiment,
    )


def runs(client, experiment="sweeps"):
    return client.search_runs([client.get_experiment_by_name(experiment).experiment_id])


@pytest.mark.integration
def test_an_attempt_is_a_run_with_its_axes_measurement_and_times(client):
    assert export_to(client, [ATTEMPT]) == 1
    (run,) = runs(client)
    assert run.info.run_name == "resnet50 ps_cpu 4 01234567"
    assert (run.info.status, run.info.start_time, run.info.end_time) == (
        "FINISHED",
        BEGAN_MS,
        BEGAN_MS + 60_500,
    )
    assert run.data.params == {
        "strategy": "ps_cpu",
        "model": "resnet50",
        "num_gpus": "4",
        "batch_size": "64",
        "learning_rate": "0.1",
        "xla": "off",
    }
    assert run.data.metrics == {
        "throughput": 853.25,
        "time_to_first_step_s": 20.0,
        "first_step_s": 5.0,
        "num_steps": 100.0,
        "duration_s": 60.5,
    }
    assert {
        name: value for name, value in run.data.tags.items() if name.startswith("scalemark.")
    } == {
        UID_TAG: "0b51c0de-1",
        "scalemark.trial_id": "0123456789abcdef",
        "scalemark.sweep": "first 'sweep'; DROP TABLE runs",
        "scalemark.repeat": "1",
        "scalemark.attempt": "2",
        "scalemark.host": "node1",
        "scalemark.gpu": "NVIDIA H200",
        "scalemark.outcome": "completed",
        "scalemark.message": "",
        "scalemark.verdict": "suspect",
    }


def test_steps_are_series_at_the_times_when_they_ended(client):
    """More of them than MLflow takes at once."""
    asked = []

    def samples(attempt_id):
        asked.append(attempt_id)
        return steps(1200)

    export([ATTEMPT], samples, tracking_uri=client.tracking_uri, experiment="sweeps")
    (run,) = runs(client)
    series = client.get_metric_history(run.info.run_id, "step_s")
    assert asked == [5]
    assert [(point.value, point.step) for point in series] == [(0.25, step) for step in range(1200)]
    assert [point.timestamp - BEGAN_MS for point in series[:3]] == [15_500, 16_000, 16_500]
    assert len(client.get_metric_history(run.info.run_id, "loss")) == 1200


def test_a_loss_that_is_no_number_is_left_out(client):
    export_to(client, [ATTEMPT], steps(3, loss=None))
    (run,) = runs(client)
    assert "loss" not in run.data.metrics
    assert run.data.metrics["step_s"] == 0.25


def test_what_is_exported_twice_is_there_once(client):
    other = ATTEMPT | {"attempt_uid": "0b51c0de-2", "attempt_id": 6}
    assert export_to(client, [ATTEMPT], steps(3)) == 1
    assert export_to(client, [ATTEMPT, other, other], steps(3)) == 1
    assert export_to(client, [ATTEMPT, other], steps(3)) == 0
    assert sorted(run.data.tags[UID_TAG] for run in runs(client)) == ["0b51c0de-1", "0b51c0de-2"]


def test_each_experiment_has_its_own(client):
    assert [export_to(client, [ATTEMPT], experiment=name) for name in ("a", "b", "a")] == [1, 1, 0]


def test_an_export_that_broke_off_is_finished_by_the_next(client):
    def broken(attempt_id):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        export([ATTEMPT], broken, tracking_uri=client.tracking_uri, experiment="sweeps")
    assert [run.info.status for run in runs(client)] == ["RUNNING"]
    assert export_to(client, [ATTEMPT], steps(3)) == 1
    (run,) = runs(client)
    assert run.info.status == "FINISHED"
    assert len(client.get_metric_history(run.info.run_id, "step_s")) == 3


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        ("completed", "FINISHED"),
        ("interrupted", "KILLED"),
        ("failed", "FAILED"),
        ("out_of_memory", "FAILED"),
        ("hung", "FAILED"),
    ],
)
def test_the_outcome_is_the_status(client, outcome, status):
    unmeasured = dict.fromkeys(
        (
            "throughput",
            "duration_s",
            "verdict",
            "time_to_first_step_s",
            "first_step_s",
            "num_steps",
        )
    )
    export_to(client, [ATTEMPT | unmeasured | {"outcome": outcome}])
    (run,) = runs(client)
    assert (run.info.status, run.info.end_time, run.data.metrics) == (status, BEGAN_MS, {})


def test_texts_longer_than_mlflow_takes_are_cut(client):
    export_to(client, [ATTEMPT | {"sweep": "s" * 10_000, "model": "m" * 10_000}])
    (run,) = runs(client)
    assert (len(run.data.tags["scalemark.sweep"]), len(run.data.params["model"])) == (8000, 6000)


def test_a_deleted_experiment_is_not_revived(client):
    client.delete_experiment(client.create_experiment("sweeps"))
    with pytest.raises(
        StoreError,
        match="experiment sweeps is deleted in MLflow: restore it there, or name another",
    ):
        export_to(client, [ATTEMPT])


@pytest.mark.parametrize("db", ["sqlite"], indirect=True)
def test_a_database_of_ours_is_refused_and_left_as_it_was(writer):
    before = Path("r.db").read_bytes()
    with pytest.raises(
        StoreError, match=r"r\.db is a database of scalemark's own: give MLflow another"
    ):
        export(
            [ATTEMPT],
            lambda attempt_id: [],
            tracking_uri=f"sqlite:///{Path.cwd()}/r.db",
            experiment="sweeps",
        )
    assert Path("r.db").read_bytes() == before


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("sqlite:///no/such/folder/mlflow.db", "unable to open database file"),
        ("sqlite:///garbage.db", "file is not a database"),
        ("nosuch://user:secret@host/x", r"nosuch://\*\*\*@host/x"),
    ],
)
def test_what_mlflow_cannot_write_to_is_reported_without_secrets(uri, expected):
    Path("garbage.db").write_bytes(b"no database" * 1000)
    with pytest.raises(StoreError, match=f"MLflow cannot write to .*{expected}") as refused:
        export([ATTEMPT], lambda attempt_id: [], tracking_uri=uri, experiment="sweeps")
    assert "secret" not in str(refused.value)


def test_without_mlflow_it_is_reported_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(
        StoreError, match=r"MLflow is not installed .*pip install 'scalemark\[mlflow\]' adds it"
    ):
        export([ATTEMPT], lambda attempt_id: [], tracking_uri=URI, experiment="sweeps")


def test_a_time_without_zone_is_refused(client):
    with pytest.raises(ValueError, match="without zone"):
        export_to(client, [ATTEMPT | {"started_at": datetime(2026, 3, 1)}])


def test_a_simulated_run_and_its_metrics_are_named_so(client):
    assert export_to(client, [ATTEMPT | {"device_kind": "simulated_gpu"}], steps(1)) == 1
    (run,) = runs(client)
    assert run.info.run_name == "simulated resnet50 ps_cpu 4 01234567"
    assert run.data.params["device_kind"] == "simulated_gpu"
    assert {name.startswith("simulated_") for name in run.data.metrics} == {True}
    assert run.data.metrics["simulated_throughput"] == 853.25
