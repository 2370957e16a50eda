"""A trainer leaves what no database takes: its attempt has failed, and neither this sweep nor the next ends over it."""

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.conftest import PROJECT
from tests.ran import ran

pytestmark = pytest.mark.integration

POISON = {
    "result.json": json.dumps(
        {"outcome": "completed", "message": {}, "measurement": None, "op_placement": {}}
    ),
    "steps.jsonl": '{"step": 1e999}\n',
    "environment.json": '{"python": "\\ud800"}',
}


def poison(name: str) -> None:
    Path("poison").mkdir()
    (Path("poison") / name).write_text(POISON[name])


def sweep(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        str(PROJECT / "tests" / "tiny_sweep.py"),
        "-m",
        "model=trivial",
        *arguments,
    ]
    return ran(command)


@pytest.mark.parametrize("name", POISON)
def test_a_poisoned_attempt_fails_and_the_next_sweep_works(name):
    poison(name)
    ended = sweep("seed=908,1")
    assert ended.returncode == 1, ended.stderr
    assert "Traceback" not in ended.stderr
    with closing(sqlite3.connect("results.db")) as connection:
        found = connection.execute(
            "SELECT outcome, message FROM attempts ORDER BY outcome"
        ).fetchall()
    assert [outcome for outcome, _ in found][:2] == ["completed", "failed"]
    assert f"{name} is damaged: " in found[1][1]
    again = sweep("seed=2")
    assert again.returncode == 0, again.stderr
