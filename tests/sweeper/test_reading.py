"""Kept logs of a sweep are read another way, and nothing runs again."""

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from store import rows
from store.checks import check
from store.rebuild import rebuild
from sweeper import reading
from tests.app import run_app
from tests.conftest import PROJECT
from tests.ran import ran

pytestmark = pytest.mark.integration

PROGRAM = """
import sys, time
num_gpus = int(sys.argv[1])
print("run", file=open("runs.txt", "a"))
for step in range(1, 31):
    time.sleep(0.04)
    print(f"step {step} loss {3 / step}", flush=True)
print("total", 640 * num_gpus, "tokens/s", flush=True)
"""
NONE = r"regex:epoch (?P<step>\d+)"
TOKENS = r"regex:total (?P<total>\S+) tokens/s"
STEPS = r"regex:step (?P<step>\d+) loss (?P<loss>\S+)"
RUNS = Path("runs.txt")


def sweep(read: str, *more: str, name: str = "one") -> subprocess.CompletedProcess:
    arguments = [
        *(sys.executable, str(PROJECT / "tests" / "tiny_sweep.py"), "-m", "hardware=cpu"),
        *(f"command={sys.executable} program.py {{num_gpus}}", "num_gpus=1,2"),
        *(f"sweep.name={name}", f"read={read}", *more),
    ]
    return ran(arguments)


def stored(db: str = "results.db") -> list[tuple]:
    query = """
        SELECT trials.read, attempts.outcome, repeats.state, round(throughput, 6), measurements.item,
            last_loss IS NOT NULL, json_array_length(duration_over_least)
        FROM attempts JOIN trials ON trials.id = attempts.trial_id
        JOIN repeats ON repeats.trial_id = trials.id
        LEFT JOIN measurements ON measurements.attempt_id = attempts.id
        LEFT JOIN step_arrays ON step_arrays.attempt_id = attempts.id ORDER BY num_gpus
    """
    with closing(sqlite3.connect(db)) as connection:
        return connection.execute(query).fetchall()


@pytest.fixture
def again(capsys, monkeypatch):
    return lambda *words: run_app(capsys, monkeypatch, "read", "--sweep", "one", *words)


def test_a_sweep_whose_first_log_is_not_read_goes_on_once_it_is_read_again(again, monkeypatch):
    Path("program.py").write_text(PROGRAM)
    ended = sweep(NONE)
    assert "read its log by one of these" in ended.stderr, ended.stderr
    assert stored() == [(NONE, "invalid", "invalid", None, None, 0, None)]

    ended = again(f"read={TOKENS}", "item=tokens")
    assert ended.exit_code == 0, ended.stderr
    assert stored() == [(TOKENS, "completed", "completed", 640.0, "tokens", 0, None)]
    ended = sweep(TOKENS)
    assert ended.returncode == 2, "without command.item it is another reading"
    assert "`scalemark read --sweep one command.item=`" in ended.stderr
    again("item=")
    assert sweep(TOKENS).returncode == 0
    assert RUNS.read_text() == "run\n" * 2, "the first trial did not run again"
    before = stored()
    assert [row[3] for row in before] == [640.0, 1280.0]

    def killed(*_):
        raise RuntimeError

    with monkeypatch.context() as patched:
        patched.setattr(
            reading.ledger, "exists", lambda *_: patched.setattr(rows, "_add_measured", killed)
        )
        with pytest.raises(RuntimeError):
            again(f"read={STEPS}", "items_per_step=10*num_gpus")
    assert stored() == before

    ended = again(f"read={STEPS}", "items_per_step=10*num_gpus", "--json")
    assert [one["attempts"] for one in json.loads(ended.stdout)] == [1, 1]
    of_steps = stored()
    for read, outcome, _, throughput, item, has_loss, num_calls in of_steps:
        assert (read, outcome, item, has_loss) == (STEPS, "completed", "items", 1)
        assert throughput > 0
        assert num_calls > 1
    assert list(check("results.db")) == []
    rebuild("again.db", ["runs"])
    assert stored("again.db") == stored()

    assert again("read=keras").exit_code == 1
    kept = [one["kept"] for one in json.loads(again("read=keras", "--json").stdout)]
    assert all(why.endswith(": read=keras: found no number.") for why in kept)
    next(Path("runs").glob("*/*-x2-*/watched.json")).unlink()
    _, gone = json.loads(again(f"read={TOKENS}", "--json").stdout)
    assert gone["kept"].endswith("/watched.json is not there: its whole log was not kept")
    Path("runs").rename("moved")
    for moved in json.loads(again(f"read={TOKENS}", "--json").stdout):
        assert moved["kept"].endswith("put it back, or link it there")
    Path("moved").rename("runs")
    assert [row[3] for row in stored()] == [640.0, of_steps[1][3]], "each trial by itself"
    assert again("raed=json").exit_code == 2
    assert RUNS.read_text() == "run\n" * 2


def test_a_renamed_sweep_that_is_read_again_stays_the_same_sweep(again):
    Path("program.py").write_text(PROGRAM)
    assert sweep(STEPS).returncode == 0
    with closing(sqlite3.connect("results.db")) as connection, connection:
        (uid,) = connection.execute("SELECT uid FROM sweeps").fetchone()
        connection.execute("UPDATE sweeps SET name = 'one (2)'")
    assert again(f"read={TOKENS}", "--sweep", "one (2)").exit_code == 0
    rebuild("again.db", ["runs"])
    with closing(sqlite3.connect("again.db")) as connection:
        assert connection.execute("SELECT uid, name FROM sweeps").fetchall() == [(uid, "one (2)")]
    assert list(check("again.db")) == []


def test_trials_are_read_again_in_all_sweeps_that_share_them(again):
    Path("program.py").write_text(PROGRAM)
    assert sweep(STEPS).returncode == 0
    assert sweep(STEPS, name="none").returncode == 0
    assert sweep(STEPS, "sweep.repeats=2", name="two").returncode == 0
    listed = ran([sys.executable, "-m", "scalemark", "list", "--sweep", "none"])
    assert "sweep none were measured by others; see " in listed.stderr
    assert listed.stderr.rstrip().endswith("list --sweep one")
    assert again(f"read={TOKENS}").exit_code == 0
    assert {row[3] for row in stored()} == {640.0, 1280.0}


def test_versions_of_a_program_are_read_again_each_by_itself(again):
    for version, factor in (("a", 640), ("b", 320)):
        Path("program.py").write_text(PROGRAM.replace("640", str(factor)))
        assert sweep(TOKENS, name=version).returncode == 0
    read = json.loads(again(f"read={TOKENS}", "item=tokens", "--sweep", "a", "--json").stdout)
    assert [one["before"] for one in read] == [640.0, 320.0, 1280.0, 640.0]
    assert [one["now"] for one in read] == [640.0, 320.0, 1280.0, 640.0]
    assert len({one["trial"] for one in read}) == 4, "each names its attempts"
