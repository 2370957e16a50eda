"""A box of which others hold GPUs, as its user sees it: real processes, and a driver that answers from files."""

import os
import re
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import ClassVar

import pytest

from tests.conftest import PROJECT
from tests.sweeper import fake_box

pytestmark = pytest.mark.integration

PROGRAM = """
import os, pathlib, sys, time

box, run_dir = pathlib.Path(os.environ["SCALEMARK_TEST_BOX"]), pathlib.Path(sys.argv[1])
seen = os.environ["CUDA_VISIBLE_DEVICES"].split(",")
for uuid in seen:
    (box / uuid / str(os.getpid())).write_text("500")
comes = pathlib.Path("colleague")  # takes the first GPU as soon as we run
if comes.exists():
    (box / seen[0] / comes.read_text()).write_text("30823")
    comes.unlink()

def num_samples():
    path = run_dir / "telemetry.jsonl"
    return path.read_text().count("\\n") if path.exists() else 0

step, first = 0, 0
while step < 80 or num_samples() < first + 2:
    time.sleep(0.02)
    step += 1
    if step == 20:
        first = num_samples()
    print(f"step {step} of ours", flush=True)
"""


@pytest.fixture
def colleague() -> Iterator[subprocess.Popen]:
    process = subprocess.Popen(["sleep", "600"])
    yield process
    process.kill()
    process.wait()


@pytest.fixture(autouse=True)
def _leave_no_sweep() -> Iterator[None]:
    """One that a failed test left running would fail another test, too."""
    yield
    for sweep in Sweep.begun:
        sweep.process.kill()
        sweep.process.wait()
    Sweep.begun.clear()


class Sweep:
    """A sweep of a program that runs on a fake box, and what it has printed so far."""

    begun: ClassVar[list["Sweep"]] = []

    def __init__(self, num_gpus: int, *arguments: str, program: str = PROGRAM) -> None:
        Path("program.py").write_text(program)
        self.environment = fake_box.make(Path.cwd(), num_gpus)
        self.box = Path("box")
        self._arguments = arguments

    def start(self, **variables: str) -> None:
        command = f"command={sys.executable} program.py {{run_dir}}"
        with Path("stderr.txt").open("w") as stderr:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, str(PROJECT / "tests" / "tiny_sweep.py"), "-m", command),
                    r"read=regex:step (?P<step>\d+) of ours",
                    "hardware=gpu",
                    *self._arguments,
                ],
                env=self.environment | variables,
                stderr=stderr,
                stdout=stderr,
            )
        self.begun.append(self)

    @property
    def text(self) -> str:
        return Path("stderr.txt").read_text()

    def until_said(self, pattern: str) -> None:
        while not re.search(pattern, self.text):
            assert self.process.poll() is None, self.text
            time.sleep(0.05)

    def end(self) -> None:
        assert self.process.wait() == 0, self.text


def rows(query: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect("results.db")) as connection:
        return connection.execute(query).fetchall()


ATTEMPTS = """
    SELECT trials.num_gpus, attempts.outcome, placements.visible_devices
    FROM attempts JOIN trials ON trials.id = attempts.trial_id
    JOIN placements ON placements.id = attempts.placement_id ORDER BY attempts.id"""


def test_a_sweep_goes_around_a_colleague_and_waits_for_the_rest(colleague):
    sweep = Sweep(4, "num_gpus=1,2,4")
    fake_box.hold(sweep.box, "GPU-0", colleague.pid, 30823)
    sweep.start()
    who = rf"GPU 0 \(pid {colleague.pid} sleep of \w+"
    sweep.until_said(rf"waiting: {who}\) is in use by others")
    assert re.search(rf"in use by others: {who}\)", sweep.text)
    narrow = rows(ATTEMPTS)
    assert sorted(num_gpus for num_gpus, _, _ in narrow) == [1, 2]
    assert all(outcome == "completed" for _, outcome, _ in narrow), sweep.text
    assert not any("GPU-0" in visible for _, _, visible in narrow)
    colleague.terminate()
    sweep.end()
    assert rows(ATTEMPTS)[2:] == [(4, "completed", "GPU-0,GPU-1,GPU-2,GPU-3")]
    assert sweep.text.count("waiting: GPU 0") == 1


def test_an_attempt_whose_gpu_is_taken_meanwhile_is_tried_again(colleague):
    Path("colleague").write_text(str(colleague.pid))
    sweep = Sweep(1, "num_gpus=1")
    sweep.start()
    sweep.until_said(r"waiting: GPU 0 \(pid \d+ sleep")
    reason = "1 other process computed on GPU-0"
    assert "(tried again after disturbed)" in sweep.text
    assert rows("SELECT message FROM attempts") == [(reason,)]
    assert rows(ATTEMPTS) == [(1, "invalid", "GPU-0")]
    assert rows("SELECT verdict FROM measurements") == [("invalid",)]
    colleague.terminate()
    sweep.end()
    assert [outcome for _, outcome, _ in rows(ATTEMPTS)] == ["invalid", "completed"]
    (doubts,) = rows("SELECT verdict_reasons FROM measurements ORDER BY attempt_id DESC LIMIT 1")
    assert "other process" not in str(doubts)


def test_a_mask_leaves_out_the_gpus_of_others(colleague):
    sweep = Sweep(4, "num_gpus=2")
    fake_box.hold(sweep.box, "GPU-0", colleague.pid, 30823)
    sweep.start(CUDA_VISIBLE_DEVICES="2,3")
    sweep.end()
    assert "2 usable GPUs" in sweep.text
    assert rows(ATTEMPTS) == [(2, "completed", "GPU-2,GPU-3")]


def test_ctrl_c_ends_a_sweep_that_waits(colleague):
    sweep = Sweep(1, "num_gpus=1")
    fake_box.hold(sweep.box, "GPU-0", colleague.pid, 30823)
    sweep.start()
    sweep.until_said("waiting: GPU 0")
    os.kill(sweep.process.pid, 2)
    assert sweep.process.wait() == 130, sweep.text
    assert "1 not started" in sweep.text
