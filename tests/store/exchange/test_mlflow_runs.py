"""Attempts become runs in a tracking store of MLflow's own, in a SQLite file."""

import os
import shutil
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from scalemark.records.outcomes import Outcome
from store.errors import StoreError
from store.exchange.exports import ExportFormat, export
from tests.filled import NOON, fill
from tests.specs import small

pytestmark = pytest.mark.filterwarnings(
    "ignore:The ``noload`` loader strategy is deprecated:sqlalchemy.exc.SADeprecationWarning"  # MLflow 3.17 on SQLAlchemy 2.1
)

NOON_MS = round(NOON.timestamp() * 1000)
URI = "sqlite:///mlflow.db?password=TOPSECRET"  # SQLite takes no notice of what it does not know


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


def export_to(client, experiment="sweeps", *filters):
    uri = client.tracking_uri
    return export("r.db", uri, ExportFormat.MLFLOW, filters, experiment=experiment)


def runs(client, experiment="sweeps"):
    return client.search_runs([client.get_experiment_by_name(experiment).experiment_id])


@pytest.mark.integration
def test_an_attempt_is_a_run_with_its_axes_measurement_steps_and_times(client):
    fill("r.db", [(small(num_gpus=4), 853.25)], name="first 'sweep'; DROP TABLE runs")
    assert export_to(client).num_attempts == 1
    (run,) = runs(client)
    began_ms = NOON_MS + 60_000
    assert run.info.run_name.startswith("trivial replicated 4 ")
    assert (run.info.status, run.info.start_time, run.info.end_time) == (
        "FINISHED",
        began_ms,
        began_ms + 9_500,
    )
    params = {"model": "trivial", "num_gpus": "4", "batch_size": "2", "learning_rate": "0.01"}
    assert params.items() <= run.data.params.items()
    measured = {"throughput": 853.25, "duration_s": 9.5, "num_measured_steps": 2.0}
    assert measured.items() <= run.data.metrics.items()
    tags = {"outcome": "completed", "sweep": "first 'sweep'; DROP TABLE runs", "repeat": "1"}
    assert {
        f"scalemark.{name}": value for name, value in tags.items()
    }.items() <= run.data.tags.items()
    series = client.get_metric_history(run.info.run_id, "step_s")
    assert [(point.value, point.step, point.timestamp - began_ms) for point in series] == [
        (0.2, 0, 200),
        (0.1, 1, 300),
        (0.1, 2, 400),
    ]
    assert len(client.get_metric_history(run.info.run_id, "loss")) == 3


def test_what_is_exported_twice_is_there_once_in_each_experiment(client):
    fill("r.db", [(small(), 100.0), (small(seed=2), 100.0)])
    export_to(client, "sweeps", "seed=2")
    for experiment in ("sweeps", "sweeps", "others"):
        export_to(client, experiment)
        assert len(runs(client, experiment)) == 2


def test_an_export_that_broke_off_is_finished_by_the_next(client, monkeypatch):
    fill("r.db", [(small(), 100.0)])
    with monkeypatch.context() as patch:
        patch.setattr("store.exchange.exports._log", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            export_to(client)
    assert [run.info.status for run in runs(client)] == ["RUNNING"]
    export_to(client)
    (run,) = runs(client)
    assert run.info.status == "FINISHED"
    assert len(client.get_metric_history(run.info.run_id, "step_s")) == 3


@pytest.mark.parametrize(
    ("outcome", "status"), [(Outcome.INTERRUPTED, "KILLED"), (Outcome.OUT_OF_MEMORY, "FAILED")]
)
def test_the_outcome_is_the_status(client, outcome, status):
    fill("r.db", [(small(), None)], details=[{"outcome": outcome, "duration_s": None}])
    export_to(client)
    (run,) = runs(client)
    began_ms = NOON_MS + timedelta(minutes=1) // timedelta(milliseconds=1)
    assert (run.info.status, run.info.end_time, run.data.metrics) == (status, began_ms, {})


def test_a_simulated_run_and_its_metrics_are_named_so(client):
    fill("r.db", [(small(device_kind="simulated_gpu", engine="simulated"), 100.0)])
    export_to(client)
    (run,) = runs(client)
    assert run.info.run_name.startswith("simulated trivial ")
    assert {name.startswith("simulated_") for name in run.data.metrics} == {True}


def test_a_deleted_experiment_is_not_revived(client):
    fill("r.db", [(small(), 100.0)])
    client.delete_experiment(client.create_experiment("sweeps"))
    with pytest.raises(
        StoreError, match="experiment sweeps is deleted in MLflow: restore it there"
    ):
        export_to(client)


def test_a_database_of_ours_is_refused_and_left_as_it_was():
    fill("r.db", [(small(), 100.0)])
    before = Path("r.db").read_bytes()
    with pytest.raises(StoreError, match=r"r\.db is a database of scalemark's own: give MLflow"):
        export("r.db", f"sqlite:///{Path.cwd()}/r.db", ExportFormat.MLFLOW)
    assert Path("r.db").read_bytes() == before


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("sqlite:///no/such/folder/mlflow.db", "unable to open database file"),
        ("sqlite:///garbage.db", "file is not a database"),
        ("nosuch://user:secret@host/x", r"nosuch://user:\*\*\*@host/x"),
    ],
)
def test_what_mlflow_cannot_write_to_is_reported_without_secrets(uri, expected):
    fill("r.db", [(small(), 100.0)])
    Path("garbage.db").write_bytes(b"no database" * 1000)
    with pytest.raises(StoreError, match=f"MLflow cannot write to .*{expected}") as refused:
        export("r.db", uri, ExportFormat.MLFLOW)
    assert "secret" not in str(refused.value)


def test_without_mlflow_it_is_reported_how_to_install_it(monkeypatch):
    fill("r.db", [(small(), 100.0)])
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(
        StoreError, match=r"MLflow is not installed .*pip install 'scalemark\[mlflow\]' adds it"
    ):
        export("r.db", URI, ExportFormat.MLFLOW)
