"""A sweep with a budget, by its command: what is refused, interrupted, continued and stored."""

import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.ran import ran

pytestmark = pytest.mark.integration

PROJECT = Path(__file__).resolve().parents[3]
GRID = ["-m", "model=trivial", "hardware=cpu", "num_gpus=1,2,4", "strategy=ps_cpu,replicated_none"]


def command(folder: Path, *more: str) -> list[str]:
    """tests.tiny_trainer is as fast as its seed says, and a fourth of that with ps_cpu."""
    stored = [f"store.url={folder}/r.db", f"store.runs_dir={folder}/runs", "sweep.name=s"]
    return [sys.executable, "-m", "tests.tiny_sweep", *GRID, *stored, "sweep.repeats=2", *more]


def repeats(folder: Path) -> dict[str, int]:
    """State -> repeats of the sweep, with the newest row of each."""
    with sqlite3.connect(folder / "r.db") as connection:
        return dict(connection.execute("SELECT state, count(*) FROM repeats GROUP BY state"))


def one_line(text: str) -> str:
    return " ".join(text.split())


def test_what_a_budget_left_out_runs_without_one(tmp_path):
    first = ran(command(tmp_path, "seed=4000", "sweep.budget=1h"), cwd=PROJECT)
    assert first.returncode == 0, first.stderr
    said = one_line(first.stderr)
    assert "sweep.budget: surely runs 1 attempt; then, as far as it lasts, the fewest GPUs" in said
    assert "budget: trivial: fastest so far replicated_none x" in said
    assert "budget: spent " in said
    with sqlite3.connect(tmp_path / "r.db") as connection:
        reasons = connection.execute("SELECT reason FROM repeats WHERE state = 'skipped'")
        assert all(reason.startswith("budget: ") for (reason,) in reasons)
    assert repeats(tmp_path)["skipped"] > 0
    whole = ran(command(tmp_path, "seed=4000"), cwd=PROJECT)
    assert whole.returncode == 0, whole.stderr
    assert repeats(tmp_path) == {"completed": 12}


def test_interrupted_it_goes_on_and_repeats_nothing(tmp_path):
    words = command(tmp_path, "seed=907", "sweep.budget=1h")  # waits until a file `go` is there
    sweep = subprocess.Popen(words, cwd=PROJECT, stderr=subprocess.PIPE, text=True)
    _wait_until_running(tmp_path, sweep)
    sweep.send_signal(2)
    _, stderr = sweep.communicate(timeout=60)
    assert sweep.returncode == 130, stderr
    (tmp_path / "go").touch()
    again = ran(words, cwd=PROJECT)
    assert again.returncode == 0, again.stderr
    num_completed = repeats(tmp_path)["completed"]
    decided = ran(words, cwd=PROJECT)
    assert "nothing to run" in decided.stderr or "finished earlier" in decided.stderr
    assert repeats(tmp_path)["completed"] == num_completed


def _wait_until_running(folder: Path, sweep: subprocess.Popen[str]) -> None:
    deadline_s = time.monotonic() + 60
    while not list((folder / "runs").glob("*/*/log.txt")):
        assert sweep.poll() is None, sweep.communicate()[1]
        assert time.monotonic() < deadline_s
        time.sleep(0.05)


def test_a_budget_that_is_shorter_than_a_trial_runs_one(tmp_path):
    short = ran(command(tmp_path, "seed=4000", "sweep.budget=0.000001gpu_h"), cwd=PROJECT)
    assert short.returncode == 0, short.stderr
    assert "it is shorter than one trial, which ran alone" in one_line(short.stderr)
    assert repeats(tmp_path) == {"completed": 1, "skipped": 11}


@pytest.mark.parametrize("value", ["-1h", "0", "2", "1e9h", "nan"])
def test_what_is_no_budget_is_refused_before_the_plan(tmp_path, value):
    refused = ran(command(tmp_path, f"sweep.budget={value}"), cwd=PROJECT)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert f"sweep.budget={value}: wanted a time as 2h, 90m or 2h30m" in one_line(refused.stderr)
    assert not (tmp_path / "r.db").exists()
