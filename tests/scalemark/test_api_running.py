"""`scalemark.sweep` runs what `python sweep.py -m` runs, and refuses what it refuses."""

import logging
import sqlite3
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

import scalemark

SIMULATED = ("engine=simulated", "hardware=p100_pcie_8", "model=trivial")


@pytest.mark.parametrize(
    "override",
    ["--dry-run", "sweep.dry_run=true", "strategy=nccl", "model x", "num_gpus=", "xla=on,"],
)
def test_what_the_command_refuses_is_an_exception(override, snapshot):
    with pytest.raises(scalemark.SweepRefusedError) as refusal:
        scalemark.sweep(*SIMULATED, override)
    assert str(refusal.value) == snapshot
    assert not Path("results.db").exists()


def test_a_database_that_cannot_be_is_an_exception():
    Path("notes.txt").write_text("no database")
    with pytest.raises(scalemark.StoreError, match=r"notes\.txt"):
        scalemark.sweep(*SIMULATED, "store.url=notes.txt")


def test_logging_is_left_to_the_caller():
    """A bug: handlers of the caller were closed, and with absl's the stream below it."""
    closed = []

    class Handler(logging.Handler):
        def close(self) -> None:
            closed.append(self)
            super().close()

    handler = Handler()
    logging.getLogger("caller").addHandler(handler)
    try:
        with pytest.raises(scalemark.SweepRefusedError):
            scalemark.sweep(*SIMULATED, "sweep.dry_run=true")
        assert closed == []
    finally:
        logging.getLogger("caller").removeHandler(handler)


def test_another_thread_is_refused():
    refused = []

    def run() -> None:
        try:
            scalemark.sweep(*SIMULATED)
        except scalemark.SweepRefusedError as error:
            refused.append(str(error))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert refused[0].startswith("scalemark.sweep: it runs in the main thread alone")


@pytest.mark.integration
def test_a_sweep_on_cpu_devices_gives_its_results(capfd):
    before = list(sys.argv)
    quick = ("num_steps=4", "min_warm_up_steps=2", "min_window_s=0", "store.url=own.db")
    results = scalemark.sweep("model=trivial", "strategy=ps_cpu", "num_gpus=1,2", *quick)
    frame = results.trials()
    assert frame[["strategy", "num_gpus", "outcome", "device_kind"]].to_numpy().tolist() == [
        ["ps_cpu", 1, "completed", "cpu_device"],
        ["ps_cpu", 2, "completed", "cpu_device"],
    ]
    assert (frame["throughput"] > 0).all()
    assert "2 completed; results in own.db" in capfd.readouterr().err
    assert sys.argv == before
    with closing(sqlite3.connect("own.db")) as connection:
        ((command,),) = connection.execute("SELECT command FROM sweeps").fetchall()
    assert command.startswith("sweep.py model=trivial strategy=ps_cpu num_gpus=1,2 ")


@pytest.mark.integration
def test_failed_trials_are_results_and_not_exceptions():
    results = scalemark.sweep(*SIMULATED, "num_gpus=1,2", "batch_size=1,1000000")
    outcomes = results.trials(batch_size=1_000_000)["outcome"].tolist()
    assert outcomes == ["out_of_memory", "out_of_memory"]


@pytest.mark.integration
def test_the_same_sweep_again_gives_the_finished_trials():
    first = scalemark.sweep(*SIMULATED, "num_gpus=1,2")
    again = scalemark.sweep(*SIMULATED, "num_gpus=1,2,4")
    assert first.trials()["num_gpus"].tolist() == [1, 2]
    assert again.trials()["num_gpus"].tolist() == [1, 2, 4]
