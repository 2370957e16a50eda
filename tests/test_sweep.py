"""`python sweep.py` as its user runs it: real subprocesses, real TensorFlow, a real database."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.conftest import PROJECT

TINY = ["model=trivial", "num_steps=3", "min_warm_up_steps=1"]


def sweep(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(PROJECT / "sweep.py"), *arguments], capture_output=True, text=True, check=False)


def outcomes(database: str = "results.db") -> list[str]:
    with sqlite3.connect(database) as connection:
        return [outcome for (outcome,) in connection.execute("SELECT outcome FROM attempts ORDER BY id")]


def test_a_grid_ends_in_the_database_in_tables_and_in_a_chart_and_is_not_run_twice():
    grid = ["-m", *TINY, "strategy=ps_cpu,replicated_nccl,replicated_pscpu", "num_gpus=1,2"]
    first = sweep(*grid)
    assert first.returncode == 0, first.stderr
    assert outcomes() == ["completed"] * 4
    assert "left out: all_reduce=nccl: NCCL needs one physical GPU per replica" in first.stderr
    assert "          num_gpus=1; num_gpus=2\n" in first.stderr
    assert "[4/4] trivial-replicated_pscpu-x2" in first.stderr
    assert "strategy          1 CPU stand-in  2 CPU stand-ins" in first.stdout
    assert Path("figures/trivial.png").stat().st_size > 10_000
    run_dirs = [path for path in Path("runs").glob("*/*") if path.is_dir()]
    assert len(run_dirs) == 4
    for run_dir in run_dirs:
        files = {"trial.json", "machine.json", "environment.json", "steps.jsonl", "result.json", "log.txt"}
        assert files <= {path.name for path in run_dir.iterdir()}
    second = sweep(*grid)
    assert second.returncode == 0
    assert "4 finished earlier" in second.stderr
    assert outcomes() == ["completed"] * 4
    assert second.stdout == first.stdout


def test_auto_is_resolved_printed_and_stored():
    assert sweep(*TINY).returncode == 0
    with sqlite3.connect("results.db") as connection:
        (spec,) = connection.execute("SELECT spec FROM trials").fetchone()
    assert "auto" not in json.loads(spec).values()


def test_a_dry_run_prints_the_plan_and_makes_nothing():
    ended = sweep("experiment=cloud_article", "sweep.dry_run=true")
    assert ended.returncode == 0
    assert ended.stdout.count("1 to run") == 80
    assert ended.stdout.count("left out: ") == 1
    assert ended.stdout.count("num_gpus=8") == 5
    assert list(Path().iterdir()) == []


def test_an_interrupted_sweep_is_continued_under_its_name():
    first = sweep(*TINY, "sweep.name=mine", "learning_rate=1e30")
    assert (first.returncode, outcomes()) == (1, ["invalid"])
    assert sweep("-m", *TINY, "sweep.name=mine", "learning_rate=1e30,0.1").returncode == 1
    assert outcomes() == ["invalid", "invalid", "completed"]
    assert sorted(path.name[-5:] for path in Path("runs/mine").iterdir()) == ["r1-a1", "r1-a1", "r1-a2"]


def test_charts_that_cannot_be_drawn_spoil_no_result():
    Path("figures/trivial.png").mkdir(parents=True)
    ended = sweep(*TINY)
    assert ended.returncode == 1
    assert "the results are stored, draw them with python -m plots charts" in ended.stderr
    assert outcomes() == ["completed"]


def test_a_failed_trial_is_recorded_and_the_others_go_on():
    ended = sweep("-m", *TINY, "learning_rate=1e30,0.1")
    assert ended.returncode == 1
    assert outcomes() == ["invalid", "completed"]
    assert "invalid: the loss is not finite" in ended.stderr


def test_a_trial_that_takes_too_long_is_ended():
    ended = sweep("model=trivial", "num_steps=100000000", "launcher.timeout_s=8")
    assert ended.returncode == 1
    assert outcomes() == ["timed_out"]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_sweep_keeps_what_was_finished_and_leaves_no_process(how):
    slow = ["-m", "model=trivial", "min_warm_up_steps=1", "num_steps=3,100000000"]
    process = psutil.Popen([sys.executable, str(PROJECT / "sweep.py"), *slow], stderr=subprocess.PIPE, text=True)
    with process.stderr:
        for line in process.stderr:
            if line.startswith("[1/2]"):
                break
        trainer = _wait_for_trainer(process)
        process.send_signal(how)
        rest = process.stderr.read()
    assert process.wait() == 130
    assert outcomes() == ["completed", "interrupted"]
    assert "Traceback" not in rest
    assert rest.splitlines()[-1] == "sweep: interrupted; repeat the command to run what is left"
    assert not psutil.pid_exists(trainer.pid)


def test_a_killed_sweep_leaves_no_process():
    process = psutil.Popen(
        [sys.executable, str(PROJECT / "sweep.py"), "model=trivial", "num_steps=100000000"], stderr=subprocess.DEVNULL
    )
    trainer = _wait_for_trainer(process)
    process.kill()
    process.wait()
    psutil.wait_procs([trainer], timeout=20)
    assert not trainer.is_running() or trainer.status() == psutil.STATUS_ZOMBIE


def _wait_for_trainer(process: psutil.Popen) -> psutil.Process:
    """The trainer, once it has run steps: by then it has asked to die with its parent."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        trainers = [child for child in process.children() if "trainer" in child.cmdline()]
        if trainers and any(
            path.stat().st_size for path in Path("runs").glob("*/*/steps.jsonl") if "100000000" in _steps_asked(path)
        ):
            return trainers[0]
        time.sleep(0.1)
    pytest.fail("the trainer did not start")


def _steps_asked(steps: Path) -> str:
    return (steps.parent / "trial.json").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["model=resnet51"], "did you mean resnet50?"),
        (["-m", "model=resnet50,resnet51"], "did you mean resnet50?"),
        (["num_gpu=2"], "did you mean num_gpus?"),
        (["all_reduce=ncll"], "did you mean nccl?"),
        (["experiment=quik"], "did you mean quick?"),
        (["num_gpus=0"], "num_gpus=0: wanted 1 or more"),
        (["num_gpus=17"], "num_gpus=17: there are 16 CPU stand-ins"),
        (["hardware=gpu"], "hardware=gpu: no usable GPU"),
        (["data=photos", "data.dir=/no/such"], "data.dir=/no/such: no such folder"),
        (["sweep.name=a/b"], "sweep.name=a/b: wanted letters"),
        (["sweep.repeats=0"], "sweep.repeats=0: wanted 1 to 1000"),
        (["num_steps=99999999999999999999"], "num_steps=99999999999999999999: wanted 2147483647 or less"),
        (["-m", "seed=range(1,100000000)"], "sweep.max_trials=1000"),
        (["model.name=../evil"], "a fact of the files in conf/model/"),
        (["strategy=ps_cpu", "all_reduce=none"], "give either"),
        (["launcher.timeout_s=-1"], "launcher.timeout_s=-1.0: wanted seconds, more than 0"),
        (["store.url=/"], "/: a folder; a database is a file"),
        (["store.url=foreign.db"], "a database of another program"),
        (["store.runs_dir=foreign.db/x"], "is not a folder"),
        (["nonsense"], "wanted AXIS=VALUE"),
    ],
)
def test_a_wrong_command_is_answered_in_one_line_before_anything_runs(arguments, message):
    with sqlite3.connect("foreign.db") as connection:
        connection.execute("CREATE TABLE theirs (id)")
    ended = sweep(*arguments)
    assert ended.returncode == 2
    assert message in ended.stderr
    assert len(ended.stderr.splitlines()) <= 3
    assert "Traceback" not in ended.stderr
    assert {path.name for path in Path().iterdir()} == {"foreign.db"}


def test_a_corrupt_data_folder_is_refused_with_the_file_named():
    folder = Path("set")
    folder.mkdir()
    (folder / "train-00000-of-00001").write_text("damaged")
    (folder / "index.json").write_text(json.dumps({"set": "photos", "shards": {"train-00000-of-00001": "0" * 64}}))
    ended = sweep("data=photos", "data.dir=set")
    assert ended.returncode == 2
    assert "train-00000-of-00001 is not what index.json says" in ended.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
def test_a_full_disk_ends_the_sweep_with_a_word_and_keeps_what_was_finished():
    disk = Path("disk")
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=80m", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("this container may not mount")
    try:
        command = [sys.executable, str(PROJECT / "sweep.py"), "-m", *TINY, "seed=1,2,3", "store.url=disk/r.db"]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        lines = []
        with process.stderr:
            for line in process.stderr:
                lines.append(line)
                if line.startswith("[1/3]"):
                    _fill(disk)
        assert process.wait() == 2
        assert "full; free some space and repeat the command; finished trials are kept" in lines[-1]
        (disk / "ballast").unlink()
        assert outcomes("disk/r.db") == ["completed"]
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


def _fill(disk: Path) -> None:
    with (disk / "ballast").open("wb", buffering=0) as ballast:
        for size in (2**20, 2**12, 1):
            try:
                while True:
                    ballast.write(b"0" * size)
            except OSError:
                continue
