"""`launcher=slurm` over four virtual nodes and PostgreSQL: a sweep is finished whatever becomes of its nodes and jobs."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests import slurm_campaign
from tests.conftest import PROJECT
from tests.slurm import PATIENCE_S, until
from tests.slurm_campaign import became, num_completed, rows, start
from tests.sweeper.processes import hears

pytestmark = pytest.mark.cluster

ENDLESS, WAITS = 903, 907  # seeds of tests.tiny_trainer


@pytest.fixture
def running(postgresql_url, slurm_cluster):
    """running(*arguments): a sweep's command, killed at the end where it still runs."""
    commands = []

    def running(*arguments: str):
        commands.append(start(postgresql_url, Path.cwd(), *arguments))
        return commands[-1]

    yield running
    for command in commands:
        if command.poll() is None:
            command.kill()
            command.communicate()


def num_running(url: str) -> int:
    return (
        int(
            rows(url, "SELECT count(*) FROM repeats WHERE state = 'running' AND pid IS NOT NULL")[
                0
            ][0]
        )
        if num_repeats(url)
        else 0
    )


def num_repeats(url: str) -> int:
    return int(rows(url, "SELECT count(*) FROM pg_class WHERE relname = 'repeats'")[0][0])


def test_trials_of_a_killed_node_run_elsewhere_once(postgresql_url, slurm_cluster, tmp_path):
    """A campaign of `tests.slurm_campaign`: nodes are killed on the way, each repeat completes once."""
    reported = slurm_campaign.run(
        slurm_cluster, postgresql_url, tmp_path, num_trials=24, kill_at=[6], timeout_s=PATIENCE_S
    )
    assert reported.states == {"completed": 24}, reported.said
    assert reported.num_twice == 0
    until(lambda: slurm_cluster.processes() == [])


@pytest.mark.slow  # the test of a canceled agent ends so
def test_ctrl_c_gives_back_what_runs_and_leaves_no_job(postgresql_url, slurm_cluster, running):
    command = running(f"seed={ENDLESS}", "sweep.repeats=2")
    until(lambda: num_running(postgresql_url) == 2)
    os.kill(command.pid, signal.SIGINT)
    _, said = command.communicate(timeout=PATIENCE_S)
    assert command.returncode == 130, said
    assert became(postgresql_url, 0, said).states == {"pending": 2}
    until(lambda: slurm_cluster.run("squeue", "-h") == "")
    until(lambda: slurm_cluster.processes() == [])


def test_a_canceled_agent_is_replaced_and_its_trial_runs_elsewhere(
    postgresql_url, slurm_cluster, running
):
    command = running("launcher.agents.num_hosts=1", f"seed={ENDLESS}")
    until(lambda: num_running(postgresql_url) == 1)
    (first,) = slurm_cluster.run("squeue", "-h", "-r", "-o", "%i").split()
    slurm_cluster.run("scancel", first)
    running_jobs = ("squeue", "-h", "-r", "-t", "running", "-o", "%i")
    until(
        lambda: (
            first not in slurm_cluster.run(*running_jobs).split()
            and slurm_cluster.run(*running_jobs)
        )
    )
    until(lambda: num_running(postgresql_url) == 1)
    os.kill(command.pid, signal.SIGINT)
    _, said = command.communicate(timeout=PATIENCE_S)
    assert command.returncode == 130, said
    assert became(postgresql_url, 0, said).states == {"pending": 1}
    until(lambda: slurm_cluster.run("squeue", "-h") == "")
    until(lambda: slurm_cluster.processes() == [])


@pytest.mark.slow  # tests of launchers/slurm.py have a controller follow another
def test_the_next_controller_finds_the_agents_of_a_killed_one(
    postgresql_url, slurm_cluster, running
):
    command = running(f"seed={ENDLESS}")
    until(lambda: num_running(postgresql_url) == 1)
    jobs = slurm_cluster.run("squeue", "-h", "-r", "-o", "%i")
    command.kill()
    command.communicate()
    successor = running(f"seed={ENDLESS}")
    until(lambda: len(rows(postgresql_url, "SELECT 1 FROM orchestrators")) > 2)
    until(lambda: hears(successor.pid, signal.SIGTERM))  # and so Ctrl-C, too
    assert slurm_cluster.run("squeue", "-h", "-r", "-o", "%i") == jobs
    os.kill(successor.pid, signal.SIGINT)
    successor.communicate(timeout=PATIENCE_S)
    until(lambda: slurm_cluster.run("squeue", "-h") == "")


@pytest.mark.slow  # test_srun.py trains over two nodes, and tests of launchers/slurm.py have jobs of two
def test_trials_over_two_hosts_get_jobs_of_two_nodes(postgresql_url, slurm_cluster, running):
    command = running("variable_update=distributed_replicated", "hosts=1,2", "num_gpus=2")
    _, said = command.communicate(timeout=PATIENCE_S)
    assert num_completed(postgresql_url) == 2, said
    placed = rows(
        postgresql_url,
        "SELECT hosts, rank_start FROM attempts JOIN placements ON placements.id = placement_id ORDER BY 2",
    )
    assert placed[1][1] == "srun"
    assert str(placed[1][0]) in ("n1,n2", "n2,n3", "n3,n4", "n1,n3", "n1,n4", "n2,n4")


def only_job(cluster) -> str:
    (job,) = cluster.run("squeue", "-h", "-r", "-t", "RUNNING", "-o", "%i").split()
    return job


def test_an_agent_whose_time_is_over_gives_its_trial_back(postgresql_url, slurm_cluster, running):
    """By the signal that Slurm sends then to a job's script; the test that is slow waits for Slurm to do so."""
    command = running("launcher.agents.num_hosts=1", "launcher.slurm.time_min=3", f"seed={ENDLESS}")
    until(lambda: num_running(postgresql_url) == 1)
    first = only_job(slurm_cluster)
    slurm_cluster.run("scancel", "--batch", "--signal=TERM", first)
    check_that_another_job_takes_over(postgresql_url, slurm_cluster, command, first)


@pytest.mark.slow  # Slurm gives no job less than minutes
def test_a_time_limit_of_slurm_ends_an_agent_and_no_trial_is_lost(
    postgresql_url, slurm_cluster, running
):
    command = running("launcher.agents.num_hosts=1", "launcher.slurm.time_min=3", f"seed={ENDLESS}")
    until(lambda: num_running(postgresql_url) == 1)
    first = only_job(slurm_cluster)
    until(
        lambda: num_interrupted(postgresql_url) == 1, timeout_s=900
    )  # Slurm looks at time limits once a minute
    check_that_another_job_takes_over(postgresql_url, slurm_cluster, command, first)


def num_interrupted(url: str) -> int:
    return len(rows(url, "SELECT 1 FROM attempts WHERE outcome = 'interrupted'"))


def check_that_another_job_takes_over(url: str, cluster, command, first: str) -> None:
    until(lambda: num_interrupted(url) == 1 and num_running(url) == 1)
    assert only_job(cluster) != first
    os.kill(command.pid, signal.SIGINT)
    _, said = command.communicate(timeout=PATIENCE_S)
    assert command.returncode == 130, said
    assert "ended: it was sent SIGTERM" in said
    reported = rows(url, "SELECT message FROM attempts ORDER BY id")
    assert reported == [
        ("its agent was ended by SIGTERM; others run it",),
        ("the sweep was interrupted",),
    ]
    assert became(url, 0, said).states == {"pending": 1}


@pytest.mark.parametrize("times", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_on_interrupt_finish_ends_trials_at_the_second_ctrl_c(
    postgresql_url, slurm_cluster, running, tmp_path, times
):
    command = running(
        "launcher.agents.num_hosts=2",
        f"seed={WAITS}",
        "sweep.repeats=9",
        "sweep.on_interrupt=finish",
    )
    until(lambda: num_running(postgresql_url) == 2)
    os.kill(command.pid, signal.SIGINT)
    until(lambda: rows(postgresql_url, "SELECT settings ->> 'wish' FROM sweeps") == [("1",)])
    assert num_running(postgresql_url) == 2
    if times == 1:
        (tmp_path / "go").touch()
    else:
        os.kill(command.pid, signal.SIGINT)
    _, said = command.communicate(timeout=PATIENCE_S)
    assert command.returncode == 130, said
    assert became(postgresql_url, 0, said).states == (
        {"completed": 2, "pending": 7} if times == 1 else {"pending": 9}
    )
    until(lambda: slurm_cluster.run("squeue", "-h") == "")
    until(lambda: slurm_cluster.processes() == [])


PROGRAM = """
import os, sys, time
print("host", *sys.argv[1:], "in", os.getcwd(), flush=True)
for step in range(30):
    print(f"step {step} rate 100", flush=True)
    time.sleep(0.01)
"""


def test_programs_run_on_nodes_and_over_two_of_them(postgresql_url, slurm_cluster, tmp_path):
    Path("train.py").write_text(PROGRAM)
    words = "train.py {hosts} {host_rank} {main_host} {free_port} {num_gpus}"
    sweep = subprocess.run(
        [
            *(sys.executable, str(PROJECT / "sweep.py"), "-m", "launcher=slurm", "hardware=cpu"),
            *(f"command='{sys.executable} {words}'", "read=regex:rate (\\d+)", "sweep.name=s"),
            *("num_gpus=2", "hosts=1,2", "hardware.num_cpu_devices=2"),
            *("launcher.agents.num_hosts=2", "launcher.agents.pool=virtual"),
            f"launcher.slurm.setup=['export SCALEMARK_LOCK_DIR={tmp_path}/$SLURMD_NODENAME']",
        ],
        env={**os.environ, "SCALEMARK_DB": postgresql_url},
        capture_output=True,
        text=True,
        check=False,
    )
    assert num_completed(postgresql_url) == 2, sweep.stderr
    said = set()
    for log in Path("runs/s").glob("*-r1-a1/log*.txt"):
        lines = log.read_text().splitlines()
        said.add(next(line for line in lines if line.startswith("host ")).partition(" in ")[::2])
    here = str(Path.cwd())
    assert {folder for _, folder in said} == {here}
    of_one, first, second = sorted(words for words, _ in said)
    assert of_one.startswith("host 1 0 127.0.0.1 ")
    assert first.startswith("host 2 0 ")
    assert second == first.replace("host 2 0", "host 2 1")
    until(lambda: slurm_cluster.processes() == [])
