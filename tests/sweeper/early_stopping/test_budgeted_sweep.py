"""A sweep with a budget, by its command: what is refused, interrupted, continued and stored."""

import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import PROJECT
from tests.ran import ran
from tests.slurm import until

pytestmark = pytest.mark.integration

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
    until(lambda: list((tmp_path / "runs").glob("*/*/log.txt")))
    sweep.send_signal(2)
    _, stderr = sweep.communicate(timeout=60)
    assert sweep.returncode == 130, stderr
    (tmp_path / "go").touch()
    again = ran(words, cwd=PROJECT)
    assert again.returncode == 0, again.stderr
    num_completed = repeats(tmp_path)["completed"]
    decided = ran(words, cwd=PROJECT)
    assert re.search(r"\d finished earlier, \d not worth running", decided.stderr)
    assert repeats(tmp_path)["completed"] == num_completed


def test_what_is_no_budget_is_refused_before_the_plan(tmp_path):
    refused = ran(command(tmp_path, "sweep.budget=2"), cwd=PROJECT)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "sweep.budget=2: wanted a time as 2h, 90m or 2h30m" in one_line(refused.stderr)
    assert not (tmp_path / "r.db").exists()
