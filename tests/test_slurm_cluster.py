"""The Slurm clusters that tests start run jobs on four nodes, which can be killed, and never outlive the tests."""

import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from tests.conftest import PROJECT
from tests.ends import ends
from tests.installers import printed_by, refused_by
from tests.needed import needed
from tests.slurm import NODES, Cluster, cluster, obstacle, until

pytestmark = pytest.mark.cluster


@pytest.fixture
def _programs() -> None:
    needed(obstacle())


def submit(to: Cluster, script: str, *options: str) -> str:
    return to.run(
        "sbatch", "--parsable", "--output=/dev/null", *options, f"--wrap={script}"
    ).strip()


def test_jobs_get_nodes_and_devices_of_their_own(slurm_cluster, tmp_path):
    reported = tmp_path / "reported"
    script = f"srun sh -c 'echo $SLURMD_NODENAME $CUDA_VISIBLE_DEVICES >>{reported}'"
    submit(slurm_cluster, script, "--nodes=4", "--gres=gpu:2", "--wait")
    assert sorted(reported.read_text().splitlines()) == [f"{node} 0,1" for node in NODES]


def test_a_killed_node_takes_its_jobs_along_and_comes_back(slurm_cluster):
    on = {
        node: submit(slurm_cluster, "setsid sleep 600 & sleep 600", f"--nodelist={node}")
        for node in ("n1", "n2")
    }
    until(lambda: all(len(slurm_cluster.processes(node)) == 3 for node in on))
    with ends([psutil.Process(pid) for pid in slurm_cluster.processes("n1")]):
        slurm_cluster.kill_node("n1")
    assert len(slurm_cluster.processes("n2")) == 3
    slurm_cluster.restart_node("n1")
    assert slurm_cluster.run("srun", "--nodelist=n1", "printenv", "SLURMD_NODENAME") == "n1\n"
    assert slurm_cluster.run("squeue", "-h", "-j", on["n2"], "-o", "%T").strip() == "RUNNING"


@pytest.mark.usefixtures("_programs")
def test_clusters_run_side_by_side_and_leave_nothing_behind():
    with cluster() as staying, ExitStack() as stack:
        going = stack.enter_context(cluster())
        submit(going, "setsid sleep 600 & sleep 600")
        jobs = until(lambda: found if len(found := going.processes()) == 3 else [])
        controller = int((going.folder / "slurmctld.pid").read_text())
        with ends([psutil.Process(pid) for pid in [controller, *jobs]]):
            stack.close()
        assert not going.folder.exists()
        assert staying.run("squeue", "-h") == ""


TEST_RUN = """
import sys
from tests.slurm import cluster

with cluster() as started:
    started.run("sbatch", "--output=/dev/null", "--wrap=setsid sleep 600 & sleep 600")
    while len(processes := started.processes()) < 3:
        pass
    print(started.folder, *processes, flush=True)
    sys.stdin.read()
"""


@pytest.mark.usefixtures("_programs")
def test_a_killed_test_run_leaves_no_cluster_running():
    run = subprocess.Popen(
        [sys.executable, "-c", TEST_RUN],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
    )
    with run:
        assert run.stdout
        folder, *pids = run.stdout.readline().split()
        daemons = [int(path.read_text()) for path in Path(folder).glob("*.pid")]
        assert len(daemons) == 1 + len(NODES)
        supervisor = psutil.Process(run.pid).children()
        with ends([*(psutil.Process(int(pid)) for pid in [*pids, *daemons]), *supervisor]):
            os.killpg(run.pid, signal.SIGKILL)
    assert not Path(folder).exists()


@pytest.mark.usefixtures("_programs")
def test_a_cluster_started_by_hand_says_what_to_export_and_ends_at_ctrl_c():
    run = subprocess.Popen(
        [sys.executable, "-m", "tests.slurm"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=PROJECT,
    )
    with run:
        assert run.stdout
        name, _, config = run.stdout.readline().strip().partition("=")
        assert name == "export SLURM_CONF"
        assert Path(config).exists()
        run.send_signal(signal.SIGINT)
        _, reported = run.communicate()
    assert run.returncode == 0, reported
    assert "nodes n1, n2, n3, n4 are idle" in reported
    assert not Path(config).parent.exists()


def test_without_programs_tests_are_skipped_but_fail_in_ci(tmp_path):
    missing = obstacle(path=str(tmp_path))
    with pytest.raises(
        pytest.skip.Exception,
        match=r"no Slurm programs \(slurmctld, .*\): run scripts/install-slurm",
    ):
        needed(missing, in_ci=False)
    with pytest.raises(
        pytest.fail.Exception, match=r"no Slurm programs .*: run scripts/install-slurm"
    ):
        needed(missing, in_ci=True)


def test_ci_has_the_programs():
    lines = (PROJECT / ".ci" / "run").read_text().splitlines()
    tests = next(number for number, line in enumerate(lines) if line.startswith("test_command 2"))
    assert "scripts/install-slurm" in lines[:tests]


@pytest.mark.usefixtures("_programs")
def test_the_installer_does_nothing_where_the_programs_are():
    assert printed_by("install-slurm") == ""


def test_the_installer_says_what_to_do_where_it_cannot_install(tmp_path):
    assert (
        "and no apt-get to install them with; or install Slurm's controller, daemon and client"
        in refused_by("install-slurm", tmp_path, {":/usr/sbin:/sbin": ""})
    )
