"""`scalemark judge` as its user runs it, on simulated trials and on a program of the user's own."""

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sweeper.__main__ import app
from sweeper.early_stopping import judge as judging
from tests.app import Ended, run_app
from tests.conftest import PROJECT
from tests.sweeper.processes import wait_until

pytestmark = pytest.mark.integration

SIMULATED = (
    "engine=simulated",
    "hardware=dgx1_v100",
    "model=resnet50",
    "num_gpus=4",
    "injected.process_noise=0.01",
)
PROGRAM = """\
import random, time
pace = random.gauss(1.0, 0.005)
for step in range(1, 21):
    print(f"METRIC step={step} throughput={SPEED * pace * random.gauss(1.0, 0.01):.2f}", flush=True)
"""


def sweep(*arguments: str) -> str:
    """Run one trial, and return the beginning of its id."""
    command = [sys.executable, str(PROJECT / "tests" / "tiny_sweep.py"), *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return str(rows("SELECT trial_id FROM attempts ORDER BY id DESC LIMIT 1")[0][0])[:8]


def rows(query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect("results.db")) as connection:
        return connection.execute(query).fetchall()


@pytest.fixture
def judge(capsys, monkeypatch):
    def run(*arguments: str) -> Ended:
        return run_app(app, "sweeper", capsys, monkeypatch, "judge", *arguments)

    return run


def program(folder: str, speed: float) -> None:
    Path(folder).mkdir(exist_ok=True)
    Path(folder, "train.py").write_text(PROGRAM.replace("SPEED", str(speed)))


def test_a_faster_simulated_trial_is_better(judge):
    trial = sweep(*SIMULATED)
    ended = judge("--baseline", trial, "precision=fp16", "--json")
    found = json.loads(ended.stdout)
    assert (ended.exit_code, found["verdict"], found["number"]) == (0, "better", 1)
    assert found["low_percent"] > 0
    assert found["attempts"] == len(found["change_throughputs"] + found["baseline_throughputs"])
    (kept,) = rows("SELECT sweep, change, verdict, num_attempts FROM judgements")
    assert kept == (found["sweep"], "precision=fp16", "better", found["attempts"])
    (command,) = rows("SELECT command FROM sweeps WHERE name LIKE 'judge-%'")
    assert command[0] == f"scalemark judge --baseline {trial} precision=fp16 --json"
    planned = rows(
        "SELECT count(*) FROM repeats JOIN sweeps s ON s.id = sweep_id WHERE s.name LIKE 'judge-%'"
    )
    assert planned == [(60,)], "as many as the budget allows"
    assert rows("SELECT DISTINCT reason FROM repeats WHERE state = 'skipped'") == [
        ("judge: better",)
    ]

    second = judge("--baseline", trial, "batch_size=63", "--dry-run", "--json")
    planned = json.loads(second.stdout)
    assert (second.exit_code, planned["number"], planned["wins_before"]) == (0, 2, 1)
    assert len(planned["earlier_throughputs"]) == len(found["baseline_throughputs"]) + 1
    assert rows("SELECT count(*) FROM judgements") == [(1,)], "a plan spends nothing"


def test_a_change_of_the_users_own_program_is_judged(judge, monkeypatch):
    def losses_apart(_: object, faster: list[int], slower: list[int]) -> str:
        assert set(faster).isdisjoint(slower)
        return f"the faster one trains otherwise: {min(len(faster), len(slower)) > 1}"

    monkeypatch.setattr(judging, "losses_apart", losses_apart)
    program("best", 1000.0)
    trial = sweep("command=python3 best/train.py", "read=metric")
    program("new", 1100.0)
    Path("new/other.py").write_text("")
    planned = judge("--baseline", trial, "command.run=python3 new/other.py", "--dry-run")
    assert "python3 new/other.py" in planned.stdout

    ended = judge("--baseline", trial, "command.run=python3 new/train.py", "--margin", "5")
    assert ended.exit_code == 0, ended.stderr
    better, parity, gain = ended.stdout.splitlines()[:3]
    assert better == "better: it is faster"
    assert parity == "the faster one trains otherwise: True"
    assert gain.startswith("throughput +")
    assert re.search(r"\[ 1/60\] .* ETA (?!0:00)", ended.stderr), "of 59 more runs at most"

    program("new", 900.0)
    ended = judge("--baseline", trial, "command.run=python3 new/train.py", "--json")
    assert ended.exit_code == 1, ended.stderr
    assert json.loads(ended.stdout)["verdict"] == "worse"

    program("best", 1001.0)
    planned = judge("--baseline", trial, "command.run=python3 new/train.py", "--dry-run")
    assert "0 runs of the baseline with this software in the last two hours" in planned.stdout

    Path("new/train.py").write_text("raise SystemExit('boom')")
    ended = judge("--baseline", trial, "command.run=python3 new/train.py")
    assert ended.exit_code == 1
    assert ended.stdout.startswith("failed: the change ended as failed\n")
    assert "exit code 1: boom" in ended.stdout

    Path("best/train.py").write_text("raise SystemExit('broken')")
    program("new", 1000.0)
    ended = judge("--baseline", trial, "command.run=python3 new/train.py", "--fresh")
    assert ended.exit_code == 2, "nothing can be judged beside it"
    assert ended.stdout.startswith("undecided: the baseline ended as failed\n")


REFUSED = (
    ("batch_size=64",),
    ("batch_size=64,128",),
    ("batchsize=128",),
    ("model=vgg16",),
    ("num_gpus=64",),
    ("hardware=cpu",),
    ("sweep.repeats=3", "batch_size=128"),
    ("store.url=other.db", "batch_size=128"),
    ("launcher.grace_s=1",),
    ("launcher.share_host=true", "batch_size=128"),
    ("batch_size",),
    ("batch_size=128", "--budget", "4"),
    ("batch_size=128", "--margin", "0"),
    ("batch_size=128", "--db", "none.db"),
    ("batch_size=128", "--baseline", "ffff"),
)


def test_what_cannot_be_judged_is_refused_before_anything_runs(judge, snapshot):
    trial = sweep(*SIMULATED)
    said = {}
    for arguments in REFUSED:
        ended = judge("--baseline", trial, *arguments)
        assert (ended.exit_code, ended.stdout) == (2, "")
        # click names the module that Python was started with: pytest, where it is no worker of xdist
        plain = ended.stderr.replace(trial, "TRIAL").replace("python -m pytest.", "")
        said[" ".join(arguments)] = re.sub(r"takes \S+ s,", "takes SECONDS,", plain)
    assert said == snapshot
    assert rows("SELECT count(*) FROM attempts") == [(1,)]


def test_a_program_that_is_not_in_this_folder_or_misspelled_is_refused(judge, monkeypatch):
    program("best", 1000.0)
    program("new", 1000.0)
    trial = sweep("command=python3 best/train.py", "read=metric")
    misspelled = "command.run=python3 new/train.py --batch {batch_sise}"
    ended = judge("--baseline", trial, misspelled, "batch_size=32", "--dry-run")
    assert ended.exit_code == 2
    assert "{batch_sise} is no placeholder, did you mean {batch_size}?" in ended.stderr

    Path("else").mkdir()
    monkeypatch.chdir("else")
    change = "command.run=python3 ../new/train.py"
    ended = judge("--db", "../results.db", "--baseline", trial, change)
    assert ended.exit_code == 2
    assert f"--baseline {trial}: command.run: " in ended.stderr
    assert "judge in that of the sweep that measured the baseline" in ended.stderr


def test_a_change_of_what_is_trained_on_is_said_plainly(judge):
    trial = sweep(*SIMULATED)
    ended = judge("--baseline", trial, "image_px=128", "--dry-run")
    assert ended.exit_code == 0, ended.stderr
    assert (
        "other work: the two differ in image_px, so that a gain of throughput may" in ended.stdout
    )
    ended = judge("--baseline", trial, "batch_size=128", "--dry-run")
    assert "other work" not in ended.stdout


def test_an_interrupt_ends_it_and_spends_its_number(judge):
    program("best", 1000.0)
    trial = sweep("command=python3 best/train.py", "read=metric")
    program("new", 1000.0)
    slow = Path("new/train.py").read_text().replace("print(", "time.sleep(600); print(", 1)
    Path("new/train.py").write_text(slow)
    command = [sys.executable, "-m", "scalemark", "judge", "--baseline", trial, "--json"]
    running = subprocess.Popen(
        [*command, "command.run=python3 new/train.py"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
    )
    runs = "SELECT 1 FROM repeats WHERE state = 'running' AND pid IS NOT NULL"
    wait_until(lambda: bool(rows(runs)), os.pidfd_open(running.pid))
    running.send_signal(signal.SIGINT)
    stdout, _ = running.communicate()
    assert (running.returncode, json.loads(stdout)["verdict"]) == (130, "interrupted")
    assert rows("SELECT number, verdict FROM judgements") == [(1, "interrupted")]
