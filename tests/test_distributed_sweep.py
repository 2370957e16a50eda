"""`python sweep.py` on trials of several processes, as its user runs it: whatever happens to a rank, the sweep tells and goes on."""

import os
import signal
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from scalemark.run_folder import RunFolder
from tests import stuck
from tests.conftest import PROJECT
from tests.ends import ends
from tests.sweeper.processes import wait_for_end, wait_until
from trainer.own_rank import OwnRank

pytestmark = pytest.mark.integration

GRID = [
    "model=trivial",
    "variable_update=distributed_replicated",
    "hosts=2",
    "num_gpus=4",
    "min_warm_up_steps=1",
]
ENDLESS = "num_steps=100000000"
RANKS = ("worker-0", "ps-0", "worker-1", "ps-1")


class Sweep:
    """That runs, and tells into told.txt."""

    def __init__(self, process: psutil.Popen, descriptor: int) -> None:
        self.process, self._descriptor = process, descriptor

    def wait_for_steps(self) -> dict[str, psutil.Process]:
        """Until a trial that has not ended takes steps; its ranks by name."""
        wait_until(self._is_stepping, self._descriptor)
        ranks = {_name(process): process for process in self.process.children(recursive=True)}
        return {name: process for name, process in ranks.items() if name in RANKS}

    def end(self) -> int:
        """Its exit code."""
        wait_for_end(self._descriptor)
        return self.process.wait()

    def wait_for_outcomes(self, *wanted: str) -> None:
        wait_until(lambda: [outcome for outcome, _ in attempts()] == list(wanted), self._descriptor)

    def _is_stepping(self) -> bool:
        folders = [RunFolder(path.parent) for path in Path("runs").glob("*/*/doing.txt")]
        return any(
            not folder.ended.exists() and folder.last_step() is not None for folder in folders
        )


def _name(process: psutil.Process) -> str:
    """Of forked ranks the kernel knows it, of spawned ones their command line tells. Of what has just ended nobody does."""
    with suppress(psutil.NoSuchProcess):
        for word in process.cmdline():
            if word.startswith("--rank="):
                return OwnRank.from_json(word.removeprefix("--rank=")).rank.name
        return process.name()
    return ""


@contextmanager
def running(*arguments: str) -> Iterator[Sweep]:
    command = [sys.executable, str(PROJECT / "sweep.py"), "-m", *GRID, *arguments]
    with (
        Path("told.txt").open("w") as reported,
        psutil.Popen(
            command, stdout=reported, stderr=reported, env=os.environ | stuck.TELLS
        ) as process,
    ):
        descriptor = os.pidfd_open(process.pid)
        try:
            yield Sweep(process, descriptor)
        finally:
            os.close(descriptor)
            if process.poll() is None:  # the test has failed
                process.terminate()


def attempts() -> list[tuple[str, str]]:
    """Outcome and message of each, as the database has them."""
    if not Path("results.db").exists():
        return []
    with closing(sqlite3.connect("results.db")) as connection:
        tables = connection.execute(
            "SELECT count(*) FROM sqlite_master WHERE name = 'attempts'"
        ).fetchone()
        return (
            connection.execute("SELECT outcome, message FROM attempts ORDER BY id").fetchall()
            if tables[0]
            else []
        )


def test_whatever_happens_to_a_rank_the_sweep_tells_and_goes_on():
    with running("seed=1,2", ENDLESS) as sweep:
        ranks = sweep.wait_for_steps()
        assert set(ranks) == set(RANKS)
        with ends(list(ranks.values())):
            ranks["worker-1"].kill()
        sweep.wait_for_outcomes("failed")
        ranks = sweep.wait_for_steps()
        with ends(list(ranks.values())):
            sweep.process.send_signal(signal.SIGINT)
        assert sweep.end() == 130
    (failed, message), (interrupted, _) = attempts()
    assert (failed, interrupted) == ("failed", "interrupted")
    assert message.startswith("rank worker-1 ended by SIGKILL; see log-worker-1.txt")
    assert (
        Path("told.txt").read_text().splitlines()[-1]
        == "sweep: interrupted; repeat the command to run what is left"
    )


@pytest.mark.slow
@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_a_campaign_of_ranks_that_complete_hang_and_are_orphaned(start):
    by = f"launcher.start={start}"
    with running("num_steps=3", by) as sweep:
        sweep.end()
    assert attempts() == [("completed", "")]
    with running(ENDLESS, by, "launcher.rank_timeout_s=20") as sweep:
        ranks = sweep.wait_for_steps()
        with ends(list(ranks.values())):
            ranks["ps-1"].suspend()
        sweep.wait_for_outcomes("completed", "hung")
        sweep.end()
    reported = "rank ps-1 gave no sign of life for launcher.rank_timeout_s=20; see log-ps-1.txt"
    assert attempts()[1][1].startswith(reported)
    with running(ENDLESS, by, "seed=2") as sweep:
        ranks = sweep.wait_for_steps()
        with ends(list(ranks.values())):
            sweep.process.kill()
    with running("num_steps=3", by, "seed=3") as sweep:
        sweep.end()
    assert [outcome for outcome, _ in attempts()] == [
        "completed",
        "hung",
        "interrupted",
        "completed",
    ]
