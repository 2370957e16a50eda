"""Sweeps on other hosts: virtual nodes of Slurm, servers of ssh on loopback. Nothing is lost, run twice or left running."""

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from scalemark.run_folder import RunFolder
from sweeper.ray_task import LOST
from tests import elsewhere_campaign, forked_sweeps, ray_cluster, sshd
from tests.conftest import PROJECT
from tests.needed import needed
from tests.ran import ran
from tests.slurm import until

pytestmark = pytest.mark.cluster

HARDWARE = ("hardware=cpu", "hardware.num_cpu_devices=4")
TINY = (*HARDWARE, "model=trivial")
OVER_TWO = ("strategy=distributed_replicated", "hosts=2", "num_gpus=2", "num_steps=10")


@pytest.fixture
def ssh_hosts(tmp_path_factory):
    """Hosts a and b, which ssh reaches."""
    needed(sshd.obstacle())
    with sshd.hosts(tmp_path_factory.mktemp("hosts"), ("a", "b")) as started:
        yield started


@pytest.fixture(scope="module")
def ray_nodes():
    """A Ray cluster of three nodes, which takes long to start."""
    with ray_cluster.cluster() as started:
        yield started


@pytest.fixture
def nodes(ray_nodes, monkeypatch):
    """The Ray cluster, with all its nodes."""
    for name, value in ray_nodes.variables.items():
        monkeypatch.setenv(name, value)
    if ray_nodes.down:
        ray_nodes.restart()
    return ray_nodes


def sweep(
    *overrides: str, script: str = forked_sweeps.SCRIPTED
) -> subprocess.CompletedProcess[str]:
    return forked_sweeps.ran(script, "-m", *TINY, *overrides)


def by_ssh(hosts: sshd.Hosts) -> list[str]:
    return ["launcher=ssh", f"launcher.options={hosts.options}", "launcher.hosts=[a,b]"]


FIXTURES = {"slurm": "slurm_cluster", "ssh": "ssh_hosts", "ray": "nodes"}


def long(engine: str, num_trials: int) -> object:
    return pytest.param(
        engine, num_trials, elsewhere_campaign.FAULTS[engine], marks=pytest.mark.slow
    )


@pytest.mark.parametrize(
    ("engine", "num_trials", "faults"),
    [
        ("slurm", 8, (elsewhere_campaign.KILL_SWEEP, "kill a node")),
        ("ssh", 6, (elsewhere_campaign.KILL_SWEEP, "kill a host")),
        ("ray", 6, (elsewhere_campaign.KILL_SWEEP, "kill a node")),
        *(long("slurm", 200), long("ssh", 50), long("ray", 200)),
    ],
)
def test_every_repeat_is_run_once_whatever_is_lost(request, tmp_path, engine, num_trials, faults):
    cluster = request.getfixturevalue(FIXTURES[engine])
    start = getattr(elsewhere_campaign, f"on_{engine}")
    campaign = start(cluster, tmp_path, num_trials, faults)
    campaign.run()
    assert campaign.problems() == [], campaign.summary()
    until(lambda: engine != "slurm" or cluster.run("squeue", "-h") == "")
    until(lambda: cluster.running() == [])


@pytest.mark.slow  # four trials of TensorFlow over two hosts
def test_a_trial_over_two_hosts_has_the_losses_of_one_on_loopback(slurm_cluster, ssh_hosts, nodes):
    losses = {}
    launchers = {
        "local": [],
        "slurm": ["launcher=slurm", "launcher.num_hosts=2"],
        "ssh": by_ssh(ssh_hosts),
        "ray": ["launcher=ray", "launcher.num_hosts=2"],
    }
    for name, overrides in launchers.items():
        # a warm-up takes as many steps as it needs to settle: ten that are measured are enough
        own = (f"store.url={name}.db", f"store.runs_dir=runs-{name}", "min_warm_up_steps=0")
        ended = sweep(*OVER_TWO, *own, *overrides, script=forked_sweeps.REAL)
        assert ended.returncode == 0, ended.stderr
        # of the run folder: the database keeps changes of the loss in ten thousandths
        (trial,) = Path(f"runs-{name}").rglob("trial.json")
        losses[name] = [step.loss for step in RunFolder(trial.parent).read_steps()[:10]]
    assert len(losses["local"]) == 10
    for name in ("slurm", "ssh", "ray"):
        assert losses[name] == pytest.approx(losses["local"], rel=1e-5), losses


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["launcher.slurm.partition=nope"], "no such partition; there are high, main"),
        (
            ["launcher.num_hosts=5"],
            "num_hosts=5: 4 hosts of the default partition are up",
        ),
        (["launcher.slurm.time_min=61"], "time_min=61: wanted 1 to 60 minutes"),
        (["launcher.python=/nowhere/python"], "did not start this project with /nowhere/python"),
        (["num_gpus=8"], "num_gpus=8"),
    ],
)
def test_what_the_cluster_cannot_give_is_refused_at_once(slurm_cluster, overrides, said):
    ended = sweep("launcher=slurm", *overrides)
    assert ended.returncode == 2
    assert said in ended.stderr
    assert "Traceback" not in ended.stderr
    assert slurm_cluster.run("squeue", "-h") == ""


def test_a_sweep_that_is_killed_while_it_waits_for_an_answer_leaves_no_job(slurm_cluster):
    slurm_cluster.run("sbatch", "--nodes=4", "--exclusive", "--wrap=sleep 600")
    script = [sys.executable, str(PROJECT / "tests" / "tiny_sweep.py"), "-m", *TINY]
    waiting = ("squeue", "-h", "--states=pending", "--format=%j")
    with subprocess.Popen([*script, "launcher=slurm"], stderr=subprocess.DEVNULL) as sweep:
        try:
            until(lambda: "scalemark-" in slurm_cluster.run(*waiting))
        finally:
            sweep.kill()
    until(lambda: slurm_cluster.run(*waiting) == "")
    assert slurm_cluster.run("squeue", "-h", "--states=running", "--format=%j").strip() == "wrap"


def test_a_sweep_inside_a_job_has_steps_of_it_on_all_its_nodes(slurm_cluster):
    script = [sys.executable, str(PROJECT / "tests" / "tiny_sweep.py"), "-m", *TINY]
    job = ("salloc", "--quiet", "--nodes=2", "--mem-per-cpu=300")
    slurm_cluster.run(*job, *script, "launcher=slurm", "seed=1,2,3")
    with closing(sqlite3.connect("results.db")) as connection:
        ((num, hosts),) = connection.execute(
            "SELECT count(*), group_concat(DISTINCT hosts) FROM attempts JOIN placements ON "
            "placements.id = placement_id WHERE outcome = 'completed'"
        )
    assert (num, set(hosts.split(","))) == (3, {"n1", "n2"})
    until(lambda: slurm_cluster.run("squeue", "-h") == "")


def test_what_a_ray_cluster_cannot_give_is_refused_at_once(nodes):
    for overrides, said in [
        # a node that died just now may still be counted
        (["launcher.num_hosts=9"], "hosts of the Ray cluster are up"),
        (["num_gpus=8"], "num_gpus=8"),
        (["launcher.python=/nowhere/python"], "/nowhere/python"),
    ]:
        ended = sweep("launcher=ray", *overrides)
        assert ended.returncode == 2
        assert said in ended.stderr
        assert "Traceback" not in ended.stderr


def test_a_program_of_a_ray_task_has_gpus_of_its_own_and_its_exit_status(nodes):
    asked = {"action": "run", "gpus": 2, "cpus": 0, "bundle": None}
    task = [sys.executable, "-m", "sweeper.ray_task", json.dumps(asked)]
    program = ["sh", "-c", "cat; echo $CUDA_VISIBLE_DEVICES >&2; exit 7"]
    ended = ran([*task, *program], input="in\n" * 100_000, cwd=PROJECT)
    assert (ended.returncode, ended.stdout) == (7, "in\n" * 100_000)
    assert ended.stderr == "0,1\n"


def test_a_ray_task_that_waits_is_lost_when_the_head_is_started_anew(nodes):
    """A bug: it waited for ever, and with it the sweep; then there is no head, and it is refused."""
    asked = {"action": "run", "gpus": 0, "cpus": 64, "bundle": None}
    task = [sys.executable, "-m", "sweeper.ray_task", json.dumps(asked), "true"]
    # or Ray itself gives up, and ends the process, before the head of a busy machine is there again
    patient = {**os.environ, "RAY_gcs_rpc_server_reconnect_timeout_s": "300"}
    with subprocess.Popen(
        task, cwd=PROJECT, stderr=subprocess.PIPE, text=True, env=patient
    ) as waiting:
        logs = nodes.folder / "session_latest" / "logs"
        until(  # it asks for an actor that no node has room for
            lambda: any(
                "PENDING_CREATION" in log.read_text()
                for log in logs.glob(f"python-core-driver-*_{waiting.pid}.log")
            )
        )
        for node in ray_cluster.NODES:
            nodes.kill(node)
        nodes.start("head")
        _, said = waiting.communicate(timeout=300)
    assert waiting.returncode == LOST, said
    assert said.startswith("unable to connect to the program by Ray: ")
    nodes.kill("head")
    ended = sweep("launcher=ray")
    assert ended.returncode == 2
    assert "`ray start --head` starts one" in ended.stderr


def test_hosts_that_do_not_answer_or_lack_the_project_are_refused(ssh_hosts):
    ended = sweep(*by_ssh(ssh_hosts), "launcher.python=/nowhere/python")
    assert ended.returncode == 2, ended.stderr
    assert "/nowhere/python" in ended.stderr
    ssh_hosts.kill("b")
    ended = sweep(*by_ssh(ssh_hosts))
    assert ended.returncode == 2
    assert "launcher=ssh: b did not start this project" in ended.stderr
    assert "Connection refused" in ended.stderr
    assert not Path("results.db").exists()


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["launcher=ssh"], "launcher.hosts is empty"),
        (["launcher=ssh", "launcher.hosts=[a,a]"], "wanted names of hosts, each once"),
        (["launcher=ssh", "launcher.hosts=['-oProxyCommand=x']"], "wanted names of hosts"),
        (["launcher=prefix"], "launcher.prefix.command is empty"),
        (["launcher=prefix", "launcher.prefix.command='a {nope}'"], "wanted words with {host}"),
        (["launcher=prefix", "launcher.prefix.command=/nowhere"], "/nowhere: No such file"),
        (
            ["launcher=prefix", "launcher.hosts=[a,b]", "launcher.prefix.command=env"],
            "write {host} where it names one",
        ),
        (
            ["launcher=prefix", "launcher.prefix.command=./true"],
            "ended with exit code 0 and ran nothing",
        ),
        (["launcher.hosts=[a]"], "launcher=local ignores it"),
        (["launcher.orphan_timeout_s=20"], "orphan_timeout_s: launcher=local ignores it"),
        (["launcher=prefix", "engine=simulated"], "choose launcher=local"),
        (["launcher=slurm"], "no srun on the path"),
    ],
)
def test_settings_that_cannot_be_are_refused(monkeypatch, overrides, said):
    monkeypatch.setenv("PATH", "/nowhere")
    Path("true").symlink_to("/bin/true")
    ended = sweep(*overrides)
    assert ended.returncode == 2, ended.stderr
    assert said in ended.stderr
    assert "Traceback" not in ended.stderr


def test_two_names_of_one_host_are_refused():
    """A bug: a trial over both waited for ever for the lock that it held itself."""
    env = "launcher.prefix.command='env X={host}'"
    ended = sweep("launcher=prefix", "launcher.hosts=[a,b]", env)
    assert ended.returncode == 2, ended.stderr
    assert "launcher.hosts: a and b are the same host; name it once" in ended.stderr


def test_a_host_whose_folder_of_attempts_is_full_is_refused():
    """A bug: each attempt there ended without a result, and the reason was in no log."""
    Path("small").mkdir()
    words = 'mount -t tmpfs -o size=1m none small; TMPDIR=$PWD/small exec "$@"'
    Path("there").write_text(f"#!/bin/sh\n{words}\n")
    Path("there").chmod(0o755)
    ended = sweep("launcher=prefix", "launcher.prefix.command='unshare -m ./there'")
    assert ended.returncode == 2, ended.stderr
    assert f"attempts work in {Path.cwd()}/small: only 1 MiB free, a sweep wants 64" in ended.stderr


READ = r"read=regex:step (?P<step>\d+) rate (?P<throughput>\S+)"
TRAINS = """#!/bin/sh
for step in 1 2 3 4 5 6 7 8 9 10 11 12; do echo "step $step rate 10$((step % 3))"; done
"""
PYTHON = """#!/bin/sh
echo '{"path": "python", "python": "%s", "packages": {}, "imported": []}'
"""


def by_prefix(words: str, *overrides: str) -> subprocess.CompletedProcess[str]:
    """Sweep a program of one's own on hosts a and b, which have programs and a variable of their
    own; `words` are those of the program.
    """
    own = f"{Path.cwd()}/{{host}}"
    variables = f"PATH={own}:{os.environ['PATH']} SCALEMARK_LOCK_DIR={own} MALLOC_ARENA_MAX=2"
    prefix = f"launcher.prefix.command='env {variables}'"
    there = ["launcher=prefix", "launcher.hosts=[a,b]", prefix]
    program = [f"command={words}", READ, "min_warm_up_steps=1"]
    return forked_sweeps.ran(forked_sweeps.SCRIPTED, "-m", *HARDWARE, *there, *program, *overrides)


def program_there(name: str, **text_of: str) -> None:
    for host, text in text_of.items():
        Path(host).mkdir(exist_ok=True)
        Path(host, name).write_text(text)
        Path(host, name).chmod(0o755)


def test_own_programs_that_ran_on_other_hosts_are_finished_earlier():
    """A bug: their software was described on the host of the sweep, which even lacked them."""
    program_there("trains", a=TRAINS, b=TRAINS)
    first = by_prefix("trains {seed}", "seed=1,2")
    assert first.returncode == 0, first.stderr
    again = by_prefix("trains {seed}", "seed=1,2")
    assert again.returncode == 0, again.stderr
    assert "2 finished earlier" in again.stderr


def test_a_program_that_a_host_lacks_or_has_in_another_version_is_refused():
    program_there("trains", a=TRAINS)
    lacking = by_prefix("trains {seed}")
    assert lacking.returncode == 2
    assert "launcher=prefix: b: command.run: trains: no such program in PATH" in lacking.stderr
    program_there("python", a=PYTHON % "3.12.1", b=PYTHON % "3.13.0")
    differing = by_prefix("python -m trains")
    assert differing.returncode == 2
    assert "a and b differ: python 3.12.1 -> 3.13.0" in differing.stderr
    assert not Path("results.db").exists()


def test_the_installer_of_sshd_has_nothing_to_do_where_it_is():
    needed(sshd.obstacle())
    ended = ran([PROJECT / "scripts" / "install-sshd"])
    assert (ended.returncode, ended.stderr) == (0, "")
