"""`python sweep.py engine=simulated` as its user runs it: the same orchestrator, run folders and store, and no device."""

import json
import re
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from sweeper.devices.host_lock import HostLock
from tests.forked_sweeps import REAL, SCRIPTED, ran

pytestmark = pytest.mark.integration

GRID = [
    "-m",
    "hardware=dgx1_p100",
    "model=resnet50",
    "strategy=replicated_nccl",
    "num_gpus=1,2",
]


def sweep(*arguments: str, into: str = ".") -> subprocess.CompletedProcess[str]:
    Path(into).mkdir(exist_ok=True)
    return ran(SCRIPTED, "engine=simulated", *arguments, cwd=into)


def rows(query: str, database: str = "results.db") -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(database)) as connection:
        return connection.execute(query).fetchall()


RATES = """
    SELECT trials.num_gpus, attempts.repeat, measurements.throughput
    FROM measurements JOIN attempts ON attempts.id = measurements.attempt_id JOIN trials ON trials.id = attempts.trial_id
    ORDER BY 1, 2"""


def test_a_simulated_grid_is_stored_with_a_process_per_repeat():
    with HostLock().try_hold(shares_host=False):  # somebody measures on this host
        forked = sweep(*GRID, "sweep.repeats=2", into="forked")
    assert forked.returncode == 0, forked.stderr
    assert "8 simulated GPUs like Tesla P100-SXM2-16GB: computed by a cost model" in forked.stderr
    rates = rows(RATES, "forked/results.db")
    assert [rate[:2] for rate in rates] == [(1, 1), (1, 2), (2, 1), (2, 2)]
    assert len({rate[2] for rate in rates}) == 4, "each repeat has noise of its own"
    reported = rows("SELECT truth FROM measurements", "forked/results.db")
    assert all(json.loads(truth)["step_s"] > 0 for (truth,) in reported)
    (profile,) = rows("SELECT hardware_profile FROM machines", "forked/results.db")
    assert json.loads(profile[0])["name"] == "dgx1_p100"
    assert {
        injected for (injected,) in rows("SELECT injected FROM trials", "forked/results.db")
    } == {"noise=0.02 process_noise=0.005"}

    spawned = sweep(
        *GRID[:-1], "launcher.start=spawn", "num_gpus=1", "sweep.repeats=3", into="forked"
    )
    assert spawned.returncode == 0, spawned.stderr
    topped_up = [rate[2] for rate in rows(RATES, "forked/results.db") if rate[0] == 1]
    assert len(set(topped_up)) == 3, (
        "the first repeat of a second sweep is no copy of the first one's"
    )

    again = sweep(*GRID, "sweep.dry_run=true", "sweep.repeats=4", into="forked")
    assert "simulated GPUs" in again.stdout
    assert re.search(
        r"\b3 attempts to run; expected: .+ one after another\n", again.stdout
    )  # by those that are stored
    real = ran(SCRIPTED, "hardware=cpu", "model=resnet50", "sweep.dry_run=true", cwd="forked")
    assert "no recorded durations of such trials on this machine: no estimate" in real.stdout


def test_faults_end_trials_as_they_end_real_ones():
    faults = "[{injected.failure_rate:1},{batch_size:[512,1024]}]"
    ended = sweep(
        "hardware=p100_pcie_8",
        "model=resnet50",
        f"hydra.sweeper.grids={faults}",
    )
    assert ended.returncode == 1
    found = rows(
        "SELECT attempts.outcome, attempts.message FROM attempts JOIN trials ON trials.id = attempts.trial_id ORDER BY trials.injected, attempts.id"
    )
    reported = sorted(f"{outcome}: {message}" for outcome, message in found)
    assert [line[:50] for line in reported][:2] == [
        "failed: ended with exit code 1 and left no result:"
    ] * 2, "a crash is tried again"
    assert "simulated: injected.failure_rate=1 met this attempt" in reported[0]
    assert any(
        "out_of_memory: simulated: out of GPU memory: a GPU needs" in line for line in reported
    )


REFUSED = {
    "no-profile-to-change": (
        ["engine=simulated", "hardware.profile.num_gpus=4"],
        "sweep: hardware.profile: this hardware is no profile; choose hardware=dgx1_p100, ",
    ),
    "two-profiles": (
        ["engine=simulated", "hardware=dgx_a100,dgx1_p100"],
        "hardware is one value for the whole sweep",
    ),
    "two-engines": (
        ["hardware=dgx1_p100", "engine=simulated,tensorflow"],
        "engine is one value for the whole sweep",
    ),
    "no-link": (
        [
            "engine=simulated",
            "hardware=p100_pcie_8",
            "hardware.profile.socket_gb_per_s=null",
            "num_gpus=8",
        ],
        "hardware.profile.socket_gb_per_s=6",
    ),
    "no-fp16": (
        ["engine=simulated", "hardware=k80_8", "precision=fp16"],
        "sweep: engine=simulated: ",
    ),
    "no-number": (
        ["engine=simulated", "hardware=k80_8", "hardware.profile.num_cores=many"],
        "hardware.profile.num_cores=many: wanted a whole number",
    ),
}


def test_what_cannot_be_simulated_is_refused_with_the_way_out():
    for folder, (arguments, said) in REFUSED.items():
        Path(folder).mkdir()
        ended = ran(REAL, *arguments, cwd=folder)
        assert ended.returncode == 2, ended
        assert said in ended.stderr
        assert not list(Path(folder).iterdir()), "nothing was begun"
