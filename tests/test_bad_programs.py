"""Programs that misbehave, each in its way, in one sweep: every one gets its outcome, and the others run."""

import shlex
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.conftest import PROJECT
from tests.ran import ran

pytestmark = pytest.mark.integration

PROGRAM = """
import os, signal, subprocess, sys, time
kind = sys.argv[1]
if kind == "daemon":
    if os.fork():
        sys.exit()
    os.setsid()
    if os.fork():
        os._exit(0)
    time.sleep(1000)
if kind == "binary":
    os.write(1, bytes(range(256)) * 10_000)
if kind == "crash":
    os.kill(os.getpid(), signal.SIGSEGV)
if kind == "module":
    import no_such_module
if kind == "memory":
    raise MemoryError
if kind == "children":
    subprocess.Popen(["sleep", "1000"], start_new_session=True)
if kind == "silent":
    sys.exit()
begin = time.monotonic()
for number in range(20):
    time.sleep(0.002)
    end = time.monotonic()
    rate = "nan" if kind == "unrated" else 2 / (end - begin)
    begin = end
    ending = "\\r" if kind == "bar" else "\\n"
    print(f"step {number} rate {rate}", end=ending, flush=True)
if kind == "error":
    raise ValueError("at last")
"""
OUTCOMES = {
    "silent": "invalid",  # not the one that runs first, for a log without numbers would end it all
    "bar": "completed",
    "binary": "completed",
    "children": "completed",
    "crash": "failed",
    "daemon": "invalid",
    "error": "failed",
    "memory": "out_of_memory",
    "module": "unsupported",
    "unrated": "invalid",
}


def test_each_program_that_misbehaves_has_its_outcome():
    Path("bad.py").write_text(PROGRAM)
    command = [
        *(sys.executable, str(PROJECT / "tests" / "tiny_sweep.py"), "-m", "hardware=cpu"),
        f"command={sys.executable} bad.py {{kind}}",
        r"read=regex:step (?P<step>\d+) rate (?P<throughput>\S+)",
        "+axes.kind=" + ",".join(OUTCOMES),
    ]
    ended = ran(command)
    assert ended.returncode == 1, ended.stderr
    assert "Traceback" not in ended.stderr + ended.stdout
    with closing(sqlite3.connect("results.db")) as connection:
        query = "SELECT json_extract(spec, '$.free.kind'), outcome, attempt FROM attempts JOIN trials ON trials.id = attempts.trial_id"
        found = connection.execute(query).fetchall()
        ((stored,),) = connection.execute("SELECT command FROM sweeps").fetchall()
    assert shlex.split(stored)[1:] == command[2:], "as it was typed, to be typed again"
    assert {kind: outcome for kind, outcome, _ in found} == OUTCOMES
    assert [kind for kind, _, attempt in found if attempt == 2] == ["crash"], "tried again"
