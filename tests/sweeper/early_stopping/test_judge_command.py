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

from sweeper.early_stopping import judge as judging
from tests import forked_sweeps
from tests.app import Ended, run_app
from tests.conftest import PROJECT
from tests.docs.test_llms import fields_of_json
from tests.scalemark.host.test_refs import commit, git
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
    print(f"METRIC step={step} throughput={SPEED * pace * random.gauss(1.0, 0.01):.2f} loss=LOSS", flush=True)
"""


def sweep(*arguments: str) -> str:
    """Run one trial, and return the beginning of its id."""
    ended = forked_sweeps.ran(forked_sweeps.SCRIPTED, *arguments)
    assert ended.returncode == 0, ended.stderr
    return str(rows("SELECT trial_id FROM attempts ORDER BY id DESC LIMIT 1")[0][0])[:8]


def rows(query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect("results.db")) as connection:
        return connection.execute(query).fetchall()


@pytest.fixture
def judge(capsys, monkeypatch):
    def run(*arguments: str) -> Ended:
        return run_app(capsys, monkeypatch, "judge", *arguments)

    return run


def program(folder: str, speed: float, loss: float = 2.0) -> None:
    Path(folder).mkdir(exist_ok=True)
    Path(folder, "train.py").write_text(
        PROGRAM.replace("SPEED", str(speed)).replace("LOSS", str(loss))
    )


def test_a_faster_simulated_trial_is_better(judge):
    trial = sweep(*SIMULATED)
    ended = judge("--baseline", trial, "precision=fp16", "--json")
    found = json.loads(ended.stdout)
    assert (ended.exit_code, found["verdict"], found["number"]) == (0, "better", 1)
    assert found["low_percent"] > 0
    assert fields_of_json() <= set(found)
    assert found["attempts"] == len(found["change_values"] + found["baseline_values"])
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
    assert len(planned["earlier_values"]) == len(found["baseline_values"]) + 1
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
    assert re.search(r"\[ 1/60\] .* ETA (?!0 s)", ended.stderr), "of 59 more runs at most"

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
    ended = judge("--baseline", trial, "command.run=python3 new/train.py")
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
    ("batch_size=128", "--lower"),
    ("batch_size=128", "--metric", "val_loss", "--lower"),
    ("batch_size=128", "--metric", "val_loss"),
    ("batch_size=128", "--keep", "loss=0.5%"),
    ("batch_size=128", "--keep", "loss=much"),
    ("batch_size=128", "--keep", "throughput=-1%", "--keep", "throughput=-2%"),
    ("batch_size=128", "--aa"),
    ("--aa", "--budget", "7"),
    (),
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


def test_without_a_baseline_it_says_where_its_id_is(judge):
    ended = judge("batch_size=128")
    assert ended.exit_code == 2
    assert "wanted --baseline TRIAL, the trial to beat; scalemark list shows all" in ended.stderr


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


FASTER, NEW = 1100.0, "command.run=python3 new/train.py"


def test_a_faster_change_with_a_broken_loss_is_refused_and_said_in_markdown(judge):
    program("best", 1000.0)
    trial = sweep("command=python3 best/train.py", "read=metric")
    program("new", FASTER, loss=2.2)
    ended = judge("--baseline", trial, NEW, "--keep", "loss=0.5%", "--markdown")
    assert ended.exit_code == 1, ended.stderr
    verdict, _, speed, loss, *_, change, machine = ended.stdout.splitlines()
    assert change == f"- change: '{NEW}'"
    assert "CPU devices" in machine
    assert verdict == "**broken: loss is worse than --keep allows**"
    assert re.fullmatch(r"- throughput \+[\d.]+ % .*", speed)
    assert re.fullmatch(r"- loss \+10\.0 % .*, may rise by less than 0\.5 %: broken", loss)
    (kept,) = rows("SELECT change, verdict FROM judgements")
    assert kept == (f"'{NEW}' --keep loss=0.5%", "broken")

    program("new", FASTER, loss=2.001)
    ended = judge("--baseline", trial, NEW, "--keep", "loss=0.5%", "--json")
    found = json.loads(ended.stdout)
    assert (ended.exit_code, found["verdict"], found["schema_version"]) == (0, "better", 2)
    (kept,) = found["kept"]
    assert (kept["name"], kept["is_kept"], kept["limit"]) == ("loss", True, 0.005)
    assert judge("--baseline", trial, NEW, "--json", "--markdown").exit_code == 2
    assert kept["moved"]["value"] == pytest.approx(0.0005)


def test_a_loss_that_is_lower_is_better(judge):
    program("best", 1000.0)
    trial = sweep("command=python3 best/train.py", "read=metric")
    program("new", 900.0, loss=1.9)
    ended = judge("--baseline", trial, NEW, "--metric", "loss", "--lower")
    assert ended.exit_code == 0, ended.stderr
    assert "judge: metric    loss, less is better" in ended.stderr
    assert ended.stdout.splitlines()[:2] == ["better: loss is better", "loss -5.0 % [-5.0, -5.0]"]
    ended = judge("--baseline", trial, NEW, "--metric", "loss", "--lower", "--json")
    assert json.loads(ended.stdout)["gain_percent"] == pytest.approx(5.0)
    unknown = judge("--baseline", trial, NEW, "--metric", "los", "--lower")
    assert (unknown.exit_code, unknown.stdout) == (2, "")
    assert f"los: no such number in trial {trial}; it has throughput, loss" in unknown.stderr

    program("new", 900.0, loss=float("nan"))
    ended = judge("--baseline", trial, NEW, "--metric", "loss", "--lower")
    assert (ended.exit_code, ended.stdout.splitlines()[0]) == (
        1,
        "failed: the change ended as invalid",
    )


def test_a_trial_against_itself_shows_how_far_runs_spread(judge):
    program("best", 1000.0)
    program_text = Path("best/train.py").read_text()
    repeat = "int(re.search('-r([0-9]+)-', sys.argv[1])[1])"
    Path("best/train.py").write_text(
        f"import random, re, sys\nrandom.seed({repeat})\n{program_text}"
    )
    trial = sweep("command=python3 best/train.py {run_dir}", "read=metric")
    ended = judge("--baseline", trial, "--aa", "--budget", "12", "--keep", "loss=1%", "--json")
    found = json.loads(ended.stdout)
    assert (ended.exit_code, found["verdict"], found["attempts"]) == (0, "quiet", 12)
    assert 0 < found["spread_percent"] < 1
    assert len(found["change_values"]) == len(found["baseline_values"]) == 6
    assert found["kept"][0]["is_kept"]
    assert rows("SELECT count(*) FROM sqlite_master WHERE name = 'judgements'") == [(0,)]

    noisy = judge("--baseline", trial, "--aa", "--budget", "10", "--margin", "0.01")
    assert noisy.exit_code == 1, noisy.stderr
    assert noisy.stdout.startswith(
        "noisy: fewer than four of five gains of 0.01 % are found here\n"
    )
    assert re.search(
        r"\nruns spread by [\d.]+ %: ask for a gain of [\d.]+ % or more\n", noisy.stdout
    )

    Path("best/train.py").write_text("raise SystemExit('broken')")
    failed = judge("--baseline", trial, "--aa")
    assert (failed.exit_code, failed.stdout.splitlines()[0]) == (
        2,
        "undecided: the baseline ended as failed",
    )
    assert rows("SELECT count(*) FROM attempts WHERE outcome = 'failed'") == [(1,)], (
        "more would fail, too"
    )


def test_commits_are_judged_by_their_refs(judge):
    git("init", "-b", "main")
    Path(".gitignore").write_text("runs\nresults.db*\nfigures\n")
    program("best", 1000.0)
    old = commit(readme="one")
    program("best", FASTER)
    new = commit(readme="two")
    trial = sweep("command=python3 best/train.py", "read=metric", f"+axes.ref={old}")
    ended = judge("--baseline", trial, f"+axes.ref={new}", "--json")
    assert ended.exit_code == 0, ended.stderr
    assert json.loads(ended.stdout)["changes"] == [f"+axes.ref={new}"]
    same = judge("--baseline", trial, f"+axes.ref={old}")
    assert (same.exit_code, same.stdout) == (2, "")
    assert "changes nothing of trial" in same.stderr
