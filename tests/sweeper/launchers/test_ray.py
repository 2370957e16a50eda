"""`launcher=ray` on a Ray cluster of two nodes and PostgreSQL; and what is refused before any trial starts."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from scalemark.records.attempt import RANK_LOST
from scalemark.records.machine import DeviceKind
from scalemark.records.outcomes import Outcome, State
from scalemark.run_folder import RunFolder
from store.errors import StoreError
from sweeper.devices.machine import Inventory
from sweeper.errors import SweepRefusedError
from sweeper.launchers.ray import Launcher
from sweeper.ray import feasible
from sweeper.ray.cluster import Node
from tests.conf.test_resolve import config
from tests.conftest import PROJECT
from tests.ray_supervisor import VARIABLES
from tests.slurm import until as wait_for
from tests.sweeper.processes import wait_until
from tests.sweeper.sharing import completed, rows, states
from tests.trainer.ranks_over_hosts import RANKS, TRAINS, Ranks, new_trial
from tests.trainer.tiny_ranks import MODULE, SERVE

pytestmark = pytest.mark.cluster

ENDLESS, UNTIL_TOLD = 903, 907  # seeds of tests.tiny_trainer
HERE = {"PYTHONPATH": str(PROJECT)}


class Cluster:
    """Of nodes n1 and n2, with 1 CPU and 2 GPUs each."""

    def __init__(self, supervisor: subprocess.Popen[str], address: str) -> None:
        self.address, self._supervisor = address, supervisor

    def kill(self, node: str) -> None:
        self._ask(node)

    def replace(self, node: str) -> None:
        """One that was killed."""
        self._ask(node)

    def _ask(self, what: str) -> None:
        assert self._supervisor.stdin
        assert self._supervisor.stdout
        print(what, file=self._supervisor.stdin, flush=True)
        assert self._supervisor.stdout.readline() == "done\n"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """One for all tests of this file: it takes a quarter of a minute to start."""
    folder = Path(tempfile.mkdtemp(prefix="scalemark-ray-"))  # short: names of sockets are
    command = [sys.executable, "-m", "tests.ray_supervisor", str(folder)]
    with (folder / "supervisor.txt").open("w") as log:
        supervisor = subprocess.Popen(
            command,
            cwd=PROJECT,
            env=os.environ | HERE,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    with supervisor:
        assert supervisor.stdout
        address = supervisor.stdout.readline().strip()
        assert address, (folder / "supervisor.txt").read_text()
        yield Cluster(supervisor, address)
        supervisor.stdin.close()  # type: ignore[union-attr]  # a pipe
        supervisor.wait()
    shutil.rmtree(folder)


def sweep(
    cluster: Cluster,
    url: str,
    *arguments: str,
    program: str = "tests/tiny_sweep.py",
    trains: str = "model=trivial",
) -> subprocess.Popen[str]:
    """Over both nodes."""
    asked = [
        *(
            "-m",
            "launcher=ray",
            f"launcher.ray.address={cluster.address}",
            "launcher.agents.num_hosts=2",
            "hardware=cpu",
        ),
        *(
            "hardware.num_cpu_devices=2",
            trains,
            "sweep.name=s",
            "launcher.agents.lease_s=30",
            *arguments,
        ),
    ]
    return subprocess.Popen(
        [sys.executable, str(PROJECT / program), *asked],
        env=os.environ | VARIABLES | {"SCALEMARK_DB": url},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def until(process: subprocess.Popen[str], url: str, sql: str) -> None:
    """Until that is true in the database."""

    def is_true() -> bool:
        try:
            return rows(url, sql) == [(True,)]
        except StoreError:
            return False  # it has not made the tables yet

    descriptor = os.pidfd_open(process.pid)
    wait_until(is_true, descriptor)
    os.close(descriptor)


BOTH_RUN = "SELECT count(DISTINCT orchestrator_id) = 2 FROM repeats WHERE state = 'running' AND pid IS NOT NULL"


def test_agents_have_hosts_of_their_own_and_end_with_their_tasks(cluster):
    script = str(PROJECT / "tests" / "sweeper" / "launchers" / "ray_agents.py")
    ran = subprocess.run(
        [sys.executable, script, cluster.address],
        env=os.environ | VARIABLES | HERE,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    reported = json.loads(ran.stdout)
    assert reported.pop("no folder").startswith("/none/ray-")
    assert reported == {
        "devices": ["gpu", 2],
        "waits": ["hosts are busy"],
        "logs": ["GPUs 0,1, secret hush\n"] * 2,
        "killed": ["its Ray worker died"],
        "stopped": ["by SIGTERM", "by SIGTERM", "its Ray worker died"],
        "left": [],
    }


def test_ctrl_c_gives_back_what_runs_and_leaves_no_agent(cluster, postgresql_url):
    command = sweep(cluster, postgresql_url, f"seed={ENDLESS}", "sweep.repeats=2")
    until(command, postgresql_url, BOTH_RUN)
    command.send_signal(signal.SIGINT)
    _, said = command.communicate()
    assert command.returncode == 130, said
    assert states(postgresql_url) == {State.PENDING: 2}
    wait_for(
        lambda: (
            rows(postgresql_url, "SELECT count(*) FROM orchestrators WHERE ended_at IS NULL")
            == [(0,)]
        )
    )


def test_what_the_cluster_does_not_have_is_refused_by_the_command(cluster, postgresql_url):
    command = sweep(cluster, postgresql_url, "launcher.agents.num_hosts=4")
    _, said = command.communicate()
    assert command.returncode == 2, said
    assert "launcher.agents.num_hosts=4: the Ray cluster has 3 nodes that are up and have " in said


class AgentOverTwo:
    """Over both nodes: a shell that does nothing."""

    def __init__(self, cluster: Cluster) -> None:
        script = str(PROJECT / "tests" / "sweeper" / "launchers" / "ray_agent_over_two.py")
        self._running = subprocess.Popen(
            [sys.executable, script, cluster.address],
            env=os.environ | VARIABLES | HERE,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._running.stdout
        reported = self._running.stdout.readline()
        assert reported, self._running.communicate()
        self.pid: int
        self.environment: dict[str, str]
        self.pid, self.environment = json.loads(reported)
        self._why = ""
        self.supervisors: list[subprocess.Popen[bytes]] = []

    def wait_for_end(self) -> None:
        """Of the agent, by itself."""
        wait_for(lambda: not psutil.pid_exists(self.pid))

    def end(self, *, by_itself: bool = False) -> str:
        """Why it ended: it is reported to, unless it ends `by_itself`. Nothing of it is left."""
        if not self._why:
            reported, said = self._running.communicate("look\n" if by_itself else "")
            assert self._running.returncode == 0, said
            self._why = reported.strip()
        return self._why


@pytest.fixture
def agent_over_two(cluster):
    agent = AgentOverTwo(cluster)
    yield agent
    agent.end()
    for supervisor in agent.supervisors:
        supervisor.wait()


class Trial(Ranks):
    """Over both nodes, and its supervisor."""

    def __init__(self, agent: AgentOverTwo, folder: RunFolder) -> None:
        super().__init__(folder)
        with folder.log.open("w") as log:
            self.supervisor = subprocess.Popen(
                [sys.executable, "-m", MODULE, str(folder.trial), str(folder.path)],
                env=agent.environment | HERE,
                stdout=log,
                stderr=log,
            )
        agent.supervisors.append(self.supervisor)


TELLS = """
import os
print("GPUs", os.environ["CUDA_VISIBLE_DEVICES"], flush=True)
"""


def test_ranks_run_on_both_hosts_and_none_is_left(agent_over_two, tmp_path):
    def begin(name: str, script: str, **spec: object) -> Trial:
        return Trial(agent_over_two, new_trial(tmp_path / name, "ray", ("a", "b"), script, **spec))

    first = begin("completes", TELLS + TRAINS, device_kind=DeviceKind.GPU)
    beside = begin("loses", SERVE)
    assert first.supervisor.wait() == 0, first.folder.log.read_text()
    assert first.outcome() == (Outcome.COMPLETED, "")
    assert {rank: first.log(rank).split("\n")[-2] for rank in RANKS} == {
        "worker-0": "GPUs 0,1",
        "ps-0": "GPUs ",
        "worker-1": "GPUs 0,1",
        "ps-1": "GPUs ",
    }
    beside.wait_until_all_serve()
    assert {psutil.Process(beside.pid(rank)).nice() for rank in RANKS} == {0}
    assert len({node_of(beside.pid(rank)) for rank in ("worker-0", "ps-0")}) == 1
    assert {node_of(beside.pid(rank)) for rank in ("worker-0", "worker-1")} == {"n1", "n2"}
    os.kill(beside.pid("worker-1"), signal.SIGKILL)
    assert beside.supervisor.wait() == RANK_LOST
    outcome, message = beside.outcome()
    assert outcome == Outcome.FAILED
    assert message.startswith("rank worker-1 ended by SIGKILL; see log-worker-1.txt")

    orphaned = begin("orphaned", SERVE)
    orphaned.wait_until_all_serve()
    orphaned.supervisor.kill()
    orphaned.supervisor.wait()
    wait_for(lambda: not orphaned.alive())

    canceled = begin("canceled", SERVE)
    canceled.wait_until_all_serve()
    # the second where the task was just asking Ray for a rank's end when Ray canceled it
    assert agent_over_two.end() in ("by SIGTERM", "canceled")
    assert canceled.supervisor.wait() == RANK_LOST
    wait_for(lambda: not canceled.alive())


def node_of(pid: int) -> str:
    """A rank has the environment of its supervisor; that of its Ray worker says which."""
    return psutil.Process(pid).parent().environ()["TEST_NODE"]


def test_ranks_end_with_the_ray_worker_of_their_agent(agent_over_two, tmp_path):
    trial = Trial(agent_over_two, new_trial(tmp_path / "run", "ray", ("a", "b"), SERVE))
    trial.wait_until_all_serve()
    worker = psutil.Process(agent_over_two.pid).parent()
    assert worker
    worker.kill()
    assert trial.supervisor.wait() == RANK_LOST
    assert trial.outcome()[0] == Outcome.FAILED
    assert agent_over_two.end(by_itself=True) == "its Ray worker died"


def other_node(agent: AgentOverTwo) -> str:
    return {"n1": "n2", "n2": "n1"}[agent.environment["TEST_NODE"]]


def test_a_rank_does_not_run_where_ray_replaced_its_host(cluster, agent_over_two, tmp_path):
    other = other_node(agent_over_two)
    cluster.kill(other)
    cluster.replace(other)
    trial = Trial(agent_over_two, new_trial(tmp_path / "run", "ray", ("a", "b"), SERVE))
    agent_over_two.wait_for_end()
    assert agent_over_two.end(by_itself=True) == "one of its hosts died"
    assert trial.supervisor.wait() != 0
    wait_for(lambda: not trial.alive())
    assert not (trial.folder.path / "pid-worker-1.txt").exists()


@pytest.mark.slow  # the test above is of the other way in which it is noticed
def test_an_agent_whose_ranks_die_with_their_host_ends(cluster, agent_over_two, tmp_path):
    trial = Trial(agent_over_two, new_trial(tmp_path / "run", "ray", ("a", "b"), SERVE))
    trial.wait_until_all_serve()
    other = other_node(agent_over_two)
    cluster.kill(other)
    agent_over_two.wait_for_end()
    cluster.replace(other)
    assert agent_over_two.end(by_itself=True) == "one of its hosts died"
    trial.supervisor.wait()
    wait_for(lambda: not trial.alive())


@pytest.mark.slow  # Ray takes its time to see that a host died; an agent whose ranks run there is tested above
def test_an_agent_whose_host_dies_between_two_trials_is_ended(cluster, agent_over_two):
    other = other_node(agent_over_two)
    cluster.kill(other)
    assert agent_over_two.end(by_itself=True) == "one of its hosts died"
    cluster.replace(other)


@pytest.mark.slow  # ctrl_c with trials on one host is tested above, and ranks that run when their agent is canceled
def test_ctrl_c_gives_back_a_trial_over_two_hosts(cluster, postgresql_url):
    asked = (
        "variable_update=distributed_replicated",
        "hosts=2",
        "num_gpus=2",
        "batch_size=4",
        "image_px=32",
        "min_window_s=600",
    )
    command = sweep(cluster, postgresql_url, *asked, program="sweep.py")
    wait_for(lambda: [path for path in Path("runs").rglob("steps.jsonl") if path.stat().st_size])
    command.send_signal(signal.SIGINT)
    _, said = command.communicate()
    assert command.returncode == 130, said
    assert rows(postgresql_url, "SELECT outcome FROM attempts") == [(Outcome.INTERRUPTED,)], said
    assert states(postgresql_url) == {State.PENDING: 1}


@pytest.mark.slow  # tests/trainer/rank_starts holds the same over two nodes of Slurm
def test_tensorflow_trains_over_two_hosts(cluster, postgresql_url):
    asked = (
        "variable_update=distributed_replicated",
        "hosts=1,2",
        "num_gpus=2",
        "batch_size=4",
        "image_px=32",
    )
    command = sweep(cluster, postgresql_url, *asked, program="sweep.py")
    _, said = command.communicate()
    assert command.returncode == 0, said
    placed = rows(
        postgresql_url,
        "SELECT rank_start FROM attempts JOIN placements ON placements.id = placement_id ORDER BY 1",
    )
    assert placed == [("",), ("ray",)]


def test_programs_run_over_two_hosts(cluster, postgresql_url):
    Path("train.py").write_text("import sys; print(*sys.argv[1:]); print('total:', 5)")
    words = "train.py {hosts} {host_rank} {gpus_per_host}"
    asked = ("read=regex:total: (?P<total>.*)", "hosts=1,2", "num_gpus=2")
    trains = f"command='{sys.executable} {words}'"
    command = sweep(cluster, postgresql_url, *asked, program="sweep.py", trains=trains)
    _, said = command.communicate()
    assert states(postgresql_url) == {State.COMPLETED: 2}, said
    lines = [log.read_text().splitlines() for log in Path("runs/s").glob("*/log*.txt")]
    assert sorted(one[-2] for one in lines) == ["1 0 2", "2 0 1", "2 1 1"]


def test_trials_of_a_dead_node_run_elsewhere_once(cluster, postgresql_url):
    """The last of the cluster's tests: it has one node for agents then. All may be done before Ray sees that the other died."""
    command = sweep(cluster, postgresql_url, f"seed={UNTIL_TOLD}", "sweep.repeats=8")
    until(command, postgresql_url, BOTH_RUN)
    cluster.kill("n2")
    Path("go").touch()
    _, said = command.communicate()
    assert command.returncode == 0, said
    assert states(postgresql_url) == {State.COMPLETED: 8}
    assert len(completed(postgresql_url)) == len(set(completed(postgresql_url))) == 8


def refused(*overrides: str) -> str:
    with pytest.raises(SweepRefusedError) as error:
        Launcher(config("launcher=ray", *overrides)).check()
    return str(error.value)


def test_without_ray_the_sweep_says_how_to_have_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    assert "pip install 'scalemark[ray]' on all hosts, or choose launcher=agents" in refused()


def test_an_address_where_no_cluster_answers_is_refused_at_once(monkeypatch, tmp_path):
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unheard.getsockname()[1]}"
        reported = refused(f"launcher.ray.address='{address}'")
        assert (
            f"launcher.ray.address={address}: no Ray cluster answers there ([Errno 111] Connection refused)"
            in reported
        )
        monkeypatch.setenv("RAY_ADDRESS", address)
        assert f"RAY_ADDRESS={address}: no Ray cluster answers there" in refused()
        monkeypatch.delenv("RAY_ADDRESS")
        monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
        newest = tmp_path / "ray" / "ray_current_cluster"
        newest.parent.mkdir()
        newest.write_text(address)
        assert f"{newest}={address}: no Ray cluster answers there" in refused()
    assert "launcher.ray.address=ray://head:1: wanted HOST:PORT" in refused(
        "launcher.ray.address='ray://head:1'"
    )
    assert "launcher.ray.address=head: wanted HOST:PORT" in refused("launcher.ray.address=head")


UNEQUAL = [
    Node(num_cpus=0, num_gpus=0),
    Node(num_cpus=32, num_gpus=4),
    Node(num_cpus=64, num_gpus=8),
]


def hosts(num: int, *more: str) -> list[str]:
    return ["launcher=ray", f"launcher.agents.num_hosts={num}", *more]


def test_hosts_are_asked_for_what_the_least_of_the_best_has():
    assert [feasible.gpus_per_host(config(*hosts(num)), UNEQUAL) for num in (1, 2, 3)] == [8, 4, 0]
    assert feasible.gpus_per_host(config(*hosts(3, "hardware=cpu")), UNEQUAL) == 0
    assert whole_host(UNEQUAL, *hosts(1)) == {"CPU": 64, "GPU": 8}
    assert whole_host(UNEQUAL, *hosts(2)) == {"CPU": 32, "GPU": 4}
    assert whole_host(UNEQUAL, *hosts(2, "hardware=cpu")) == {"CPU": 32}
    assert whole_host([Node(num_cpus=0, num_gpus=8)], *hosts(1)) == {"GPU": 8}


def test_more_than_the_hosts_have_is_refused():
    with pytest.raises(
        SweepRefusedError, match="num_hosts=4: the Ray cluster has 3 nodes that are up and have 0"
    ):
        feasible.gpus_per_host(config(*hosts(4)), UNEQUAL)
    with pytest.raises(SweepRefusedError) as error:
        feasible.gpus_per_host(config(*hosts(2, "launcher.agents.gpus_per_host=8")), UNEQUAL)
    assert str(error.value) == (
        "launcher.agents.num_hosts=2: the Ray cluster has 1 nodes that are up and have 8 GPUs or more; ask for fewer hosts or GPUs"
    )
    with pytest.raises(
        SweepRefusedError,
        match="num_hosts=3: 2 nodes of the Ray cluster have CPUs for tasks; ask for as many",
    ):
        whole_host(UNEQUAL, *hosts(3, "hardware=cpu"))


def whole_host(nodes: list[Node], *overrides: str) -> dict[str, float]:
    from sweeper.devices.agent_hosts import devices_of_hosts

    asked = config(*overrides)
    inventory: Inventory = devices_of_hosts(asked, feasible.gpus_per_host(asked, nodes))
    return dict(feasible.whole_host(asked, inventory, nodes))
