"""A sweep of a model of the user's own, from the command line to tables, pictures and answers."""

import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from tests import forked_sweeps
from tests.conftest import PROJECT
from tests.own_models import TOKENS, written
from tests.ran import ran

pytestmark = pytest.mark.integration

TINY = ["num_steps=3", "min_warm_up_steps=1", "min_window_s=0"]


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return ran([sys.executable, *command])


def sweep(*arguments: str) -> subprocess.CompletedProcess[str]:
    return forked_sweeps.ran(forked_sweeps.REAL, "-m", *arguments)


def answer(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> str:
    monkeypatch.setenv("PYTHONPATH", str(PROJECT))
    ended = run("-m", "scalemark", *arguments)
    return ended.stdout + ended.stderr


def rows(query: str) -> list[tuple[object, ...]]:
    with sqlite3.connect("results.db") as connection:
        return connection.execute(query).fetchall()


def test_two_versions_of_a_file_are_swept_and_never_mixed(monkeypatch):
    reference = written(TOKENS, "nets/my_model.py")
    grid = [f"model={reference}", "num_gpus=1,2", "strategy=ps_cpu", *TINY]
    first = sweep(*grid)
    assert first.returncode == 0, first.stderr
    assert "2 completed" in first.stderr
    assert sweep(*grid).returncode == 0
    assert rows("SELECT count(*) FROM attempts") == [(2,)]  # done already

    written(TOKENS.replace("Dense(8", "Dense(9"), "nets/my_model.py")
    changed = sweep(*grid)
    assert changed.returncode == 0, changed.stderr
    assert "2 completed" in changed.stderr
    assert rows("SELECT count(*) FROM attempts") == [(4,)]

    folders = [path.name for path in Path("runs").glob("*/nets_my_model.py_build-*")]
    assert len(folders) == 4
    tables = answer(monkeypatch, "table")
    assert tables.count("nets/my_model.py:build (model_digest ") == 2
    assert re.search(r"\bdevices +tokens/s .*speed-up", tables)
    drawn = answer(monkeypatch, "chart", "--chart", "scaling")
    pictures = sorted(path.name for path in Path("figures").glob("scaling-*_build*.png"))
    assert len(pictures) == 2, drawn


def test_what_the_cost_model_does_not_know_is_said(monkeypatch):
    reference = written(TOKENS)
    simulated = sweep(f"model={reference}", "engine=simulated", "hardware=dgx1_p100")
    assert simulated.returncode == 2
    assert "engine=simulated does not know the layers of a model of your own" in simulated.stderr
    assert not Path("runs").exists()

    assert sweep(f"model={reference}", "num_gpus=1,2", *TINY).returncode == 0
    assert "the time of a step is known of trials that count images" in answer(
        monkeypatch, "explain"
    )
    advice = answer(monkeypatch, "advise")
    assert "my_model.py:build: " in advice
    assert "tokens/s" in advice


def test_a_wrong_model_ends_its_trials_and_not_the_others():
    reference = written("def build():\n    return 3\n")
    ended = sweep(f"model={reference},trivial", *TINY)
    assert ended.returncode == 1
    assert "1 completed, 1 unsupported" in ended.stderr
    assert "build() returns 3; wanted a keras.Model" in ended.stderr


def test_a_file_that_is_not_there_is_refused_before_anything_starts():
    written(TOKENS)
    ended = sweep("model=trivial,my_modle.py:build", *TINY)
    assert ended.returncode == 2
    assert "my_modle.py: there is no such file; did you mean my_model.py?" in ended.stderr
    assert not Path("runs").exists()
