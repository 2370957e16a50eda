"""`launcher=agents`: the controller plans, watches and reports; agents run. Whoever of them ends, the sweep can go on."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from scalemark.records.outcomes import State
from store.errors import StoreError
from tests.conftest import PROJECT
from tests.sweeper.agents.test_agent import once_running
from tests.sweeper.processes import hears, wait_until
from tests.sweeper.sharing import agent, completed, reported, rows, states

pytestmark = pytest.mark.integration

TINY = [
    sys.executable,
    str(PROJECT / "tests" / "tiny_sweep.py"),
    "model=trivial",
    "hardware=cpu",
    "hardware.num_cpu_devices=4",
    "sweep.name=s",
]


def controller(url: str, *arguments: str) -> subprocess.Popen[str]:
    """Once it has written its sweep down, and hears signals."""
    environment = os.environ | {"SCALEMARK_DB": url}
    process = subprocess.Popen(
        [*TINY, "launcher=agents", *arguments],
        env=environment,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    wait_for_begin(url, process)
    return process


def wait_for_begin(url: str, process: subprocess.Popen[str]) -> None:
    def has_begun() -> bool:
        try:
            sql = f"SELECT 1 FROM orchestrators WHERE pid = {process.pid} AND host = '{os.uname().nodename}'"
            return rows(url, sql) == [(1,)] and hears(
                process.pid, signal.SIGTERM
            )  # and so Ctrl-C, too
        except StoreError:
            return False  # it has not made the tables yet

    descriptor = os.pidfd_open(process.pid)
    wait_until(has_begun, descriptor)
    os.close(descriptor)


def test_a_killed_controller_is_replaced_by_the_same_command(
    postgresql_url,
):
    grid = [
        "seed=907,901,1,900",
        "sweep.repeats=2",
        "retry.crashed=1",
    ]  # the first waits for a file `go`
    first = controller(postgresql_url, *grid)
    runner = agent(postgresql_url)
    once_running(postgresql_url, runner)
    first.kill()
    first.communicate()
    second = controller(postgresql_url, *grid)
    Path("go").touch()
    said = reported(second)
    assert second.returncode == 1, said
    assert reported(runner)
    assert runner.returncode == 0
    assert states(postgresql_url) == {State.COMPLETED: 6, State.FAILED: 2}
    assert len(set(completed(postgresql_url))) == 6
    assert "start an agent on each host, with SCALEMARK_DB set as here:" in said
    assert "tiny_agent.py --sweep s" in said
    assert "2 failed: as it was reported\n    trivial-replicated_none-x1  " in said
    assert "sweep s: " in said
    assert said.splitlines()[-1].endswith("log.txt")
    ((finished,),) = rows(postgresql_url, "SELECT finished_at FROM sweeps")
    assert finished is not None


def test_ctrl_c_ends_what_agents_run_and_leaves_it_to_the_next_command(postgresql_url):
    watching = controller(postgresql_url, "seed=903", "launcher.agents.lease_s=20")
    runner = agent(postgresql_url)
    once_running(postgresql_url, runner)
    watching.send_signal(signal.SIGINT)
    said = reported(watching)
    assert watching.returncode == 130, said
    assert "repeat the command to run what is left" in said
    assert "sweep s: 1 interrupted; results in " in said
    assert "tried again" not in said
    assert "interrupted" in reported(runner)
    assert runner.returncode == 130
    assert states(postgresql_url) == {State.PENDING: 1}


def test_two_agents_train_and_the_sweep_ends_with_tables_and_charts(postgresql_url, tmp_path):
    environment = os.environ | {"SCALEMARK_DB": postgresql_url}
    quick = [
        "model=trivial",
        "num_steps=3",
        "min_warm_up_steps=1",
        "hardware=cpu",
        "hardware.num_cpu_devices=4",
        "sweep.name=s",
    ]
    command = [
        sys.executable,
        str(PROJECT / "sweep.py"),
        "-m",
        *quick,
        "num_gpus=1,2",
        "launcher=agents",
    ]
    watching = subprocess.Popen(
        command, env=environment, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    wait_for_begin(postgresql_url, watching)
    real = [sys.executable, "-m", "sweeper", "agent", "--sweep", "s"]
    hosts = [
        environment | {"SCALEMARK_LOCK_DIR": str(tmp_path / host), "PYTHONPATH": str(PROJECT)}
        for host in ("one", "two")
    ]
    agents = [subprocess.Popen(real, env=host, stderr=subprocess.PIPE, text=True) for host in hosts]
    tables, said = watching.communicate()
    assert [(reported(one), one.returncode)[1] for one in agents] == [0, 0]
    assert watching.returncode == 0, said
    assert "2 completed" in said
    assert "strategy" in tables
    assert Path("figures/scaling-trivial.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["launcher=agents", "hardware=cpu"],
            "store.url is a SQLite file, which one host alone can write to; set store.url or SCALEMARK_DB",
        ),
        (
            ["launcher.agents.num_hosts=4"],
            "launcher.agents.num_hosts=4: launcher=local ignores it; leave it out, or choose launcher=ray, slurm",
        ),
        (
            ["launcher=agents", "launcher.slurm.partition=main"],
            "launcher.slurm.partition=main: launcher=agents ignores it; leave it out, or choose launcher=slurm",
        ),
        (
            ["launcher=agents", "store.url=postgresql://h/d", "sweep.race=true", "sweep.repeats=3"],
            "sweep.race=true: one process decides",
        ),
        (
            ["launcher=agents", "store.url=postgresql://h/d", "sweep.skip_larger_after_oom=true"],
            "sweep.skip_larger_after_oom=true: one process decides",
        ),
        (
            [
                "launcher=agents",
                "store.url=postgresql://h/d",
                "engine=simulated",
                "hardware=dgx1_p100",
            ],
            "engine=simulated: launcher=agents has hosts run trials",
        ),
        (
            ["launcher=agents", "store.url=postgresql://h/d", "launcher.agents.lease_s=1"],
            "launcher.agents.lease_s=1: wanted seconds, 3 or more",
        ),
        (
            ["launcher=agents", "store.url=postgresql://h/d", "launcher.agents.pool=' '"],
            "launcher.agents.pool is empty",
        ),
    ],
)
def test_what_cannot_be_shared_and_what_would_have_no_effect_is_refused(arguments, said):
    from sweeper.errors import SweepRefusedError
    from sweeper.planning.settings import check
    from tests.conf.test_resolve import config

    with pytest.raises(SweepRefusedError) as refused:
        check(config(*arguments))
    assert said in str(refused.value)


def test_a_job_that_is_shorter_than_a_trial_may_take_is_doubted():
    from sweeper.planning.launcher_settings import doubts
    from tests.conf.test_resolve import config

    (doubt,) = doubts(config("launcher=slurm", "launcher.slurm.time_min=30"))
    assert doubt.startswith(
        "launcher.slurm.time_min=30: an attempt may take launcher.timeout_s=3600, longer than its job"
    )
    assert (
        doubts(config("launcher=slurm", "launcher.slurm.time_min=30", "launcher.timeout_s=1800"))
        == []
    )
    assert doubts(config("launcher=slurm")) == []
