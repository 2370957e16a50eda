"""A trial over two nodes of a Slurm job: an srun starts each of its ranks, and none is left on any node however it ends."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import asdict

import psutil
import pytest

from scalemark.records.attempt import RANK_LOST, RANKS_VARIABLE
from scalemark.records.machine import DeviceKind
from scalemark.records.measurement import Outcome
from scalemark.run_folder import RunFolder
from sweeper.devices.host_lock import VARIABLE, HostLock
from sweeper.launchers.prefix import Elsewhere
from sweeper.live.view import doing_text
from tests import slurm
from tests.conftest import PROJECT
from tests.slurm import until
from tests.trainer.ranks_over_hosts import RANKS, TRAINS, Ranks, new_trial
from tests.trainer.tiny_ranks import MODULE, SERVE
from trainer import UnsupportedTrialError
from trainer.own_rank import OwnRank
from trainer.supervision import _hosts_elsewhere, job

pytestmark = pytest.mark.cluster


SRUN = (
    *("srun", "--ntasks=1", "--nodes=1", "--overlap", "--mem=0", "--cpu-bind=none"),
    *("--unbuffered", "--gres=gpu:2", "--nodelist={host}"),
)
WHERE = Elsewhere(prefix=SRUN, python=sys.executable, module="trainer")


class Trial(Ranks):
    """In a job of two nodes, whose script is its supervisor."""

    def __init__(self, cluster: slurm.Cluster, folder: RunFolder, module: str) -> None:
        super().__init__(folder)
        self.cluster = cluster
        argv = [sys.executable, "-m", module, str(folder.trial), str(folder.path)]
        ranks = shlex.quote(json.dumps([asdict(WHERE)] * 2))
        script = (
            f"export PYTHONPATH={PROJECT} {RANKS_VARIABLE}={ranks}; "
            f"echo $$ >{folder.path}/supervisor; {shlex.join(argv)}; echo $? >{folder.path}/code; "
            "srun --overlap sleep 600"
        )
        self.job = cluster.run(
            "sbatch",
            "--parsable",
            "--nodes=2",
            "--exclusive",
            "--mem=0",
            "--gres=gpu:8",
            f"--output={folder.log}",
            f"--wrap={script}",
        ).strip()

    def exit_code(self) -> int:
        """Of the supervisor. The job goes on after it, and none of its ranks does."""
        code = self.folder.path / "code"
        return int(until(lambda: code.exists() and code.read_text()))


@pytest.fixture
def begin(tmp_path, slurm_cluster):
    """begin(script): a trial of 2 workers and 2 parameter servers that all run it."""

    def begin(
        script: str = "",
        *,
        module: str = MODULE,
        hosts: tuple[str, ...] = ("n1", "n2"),
        **spec: object,
    ) -> Trial:
        return Trial(
            slurm_cluster, new_trial(tmp_path / "run", "prefix", hosts, script, **spec), module
        )

    return begin


TELLS = """
import os
print("on", os.environ["SLURMD_NODENAME"], "GPUs", os.environ["CUDA_VISIBLE_DEVICES"], flush=True)
"""


def test_ranks_run_on_their_nodes_with_their_share_of_gpus(begin):
    trial = begin(TELLS + TRAINS, device_kind=DeviceKind.GPU)
    assert trial.exit_code() == 0, trial.folder.log.read_text()
    assert trial.outcome() == (Outcome.COMPLETED, "")
    said = {"worker": "on {} GPUs 0,1\n", "ps": "on {} GPUs \n"}
    for job_name, text in said.items():
        assert text.format("n1") in trial.log(f"{job_name}-0")
        assert text.format("n2") in trial.log(f"{job_name}-1")
    cluster = [
        line.split()[2]
        for line in trial.folder.log.read_text().splitlines()
        if line.startswith("rank ")
    ]
    assert len({address.rstrip(",") for address in cluster}) == 4
    assert all(address.startswith("127.0.0.1:") for address in cluster)


def test_a_rank_that_fails_ends_the_trial_which_names_it_and_its_log(begin):
    trial = begin(SERVE)
    trial.wait_until_all_serve()
    os.kill(trial.pid("worker-1"), signal.SIGKILL)
    assert trial.exit_code() == RANK_LOST
    outcome, message = trial.outcome()
    assert outcome == Outcome.FAILED
    assert message.startswith("rank worker-1 ended by SIGKILL; see log-worker-1.txt")


def test_a_supervisor_that_is_killed_leaves_no_rank_on_any_node(begin):
    trial = begin(SERVE)
    trial.wait_until_all_serve()
    shell = psutil.Process(int((trial.folder.path / "supervisor").read_text()))
    (supervisor,) = [child for child in shell.children() if "python" in child.name()]
    supervisor.kill()
    assert until(lambda: not trial.alive())


@pytest.mark.slow  # a supervisor that is killed leaves no rank, either
def test_an_interrupted_supervisor_ends_all_ranks(begin):
    trial = begin(SERVE)
    trial.wait_until_all_serve()
    shell = psutil.Process(int((trial.folder.path / "supervisor").read_text()))
    (supervisor,) = [child for child in shell.children() if "python" in child.name()]
    supervisor.send_signal(signal.SIGINT)
    assert trial.exit_code() == 130
    assert trial.outcome()[0] == Outcome.INTERRUPTED


def test_a_node_that_the_cluster_does_not_have_is_reported(begin):
    trial = begin(SERVE, hosts=("n1", "n9"))
    trial.exit_code()
    outcome, message = trial.outcome()
    assert outcome == Outcome.UNSUPPORTED
    assert message.startswith("hosts=2: SCALEMARK_RANKS names 2, with addresses of 127.0.0.1;")


def test_tensorflow_trains_over_two_nodes(begin):
    trial = begin(module="trainer")
    assert trial.exit_code() == 0, "".join(map(trial.log, RANKS))
    result = trial.folder.read_result()
    assert result.measurement.num_steps >= 4


def test_hosts_that_nobody_names_are_refused(tmp_path, monkeypatch):
    monkeypatch.delenv(RANKS_VARIABLE, raising=False)
    folder = new_trial(tmp_path / "run", "prefix", ("a", "b"), SERVE)
    with pytest.raises(UnsupportedTrialError, match="hosts=2: SCALEMARK_RANKS names 0, with"):
        _hosts_elsewhere(job(folder.read_trial(), folder))


def test_an_engine_that_chose_hosts_tells_their_addresses_which_are_recorded(tmp_path, monkeypatch):
    monkeypatch.setenv(RANKS_VARIABLE, json.dumps([asdict(WHERE)] * 2))
    monkeypatch.setenv("SCALEMARK_ADDRESSES", "10.0.0.1,10.0.0.2")
    folder = new_trial(tmp_path / "run", "prefix", (), SERVE)
    hosts = _hosts_elsewhere(job(folder.read_trial(), folder))
    assert [host["address"] for host in hosts] == ["10.0.0.1", "10.0.0.2"]
    assert hosts[1]["prefix"][-1] == "--nodelist=10.0.0.2"
    assert folder.read_placement().hosts == ("10.0.0.1", "10.0.0.2")


@pytest.mark.parametrize(("host", "waits"), [("a", "worker-1"), ("b", "worker-0")])
def test_ranks_take_the_locks_of_hosts_in_one_order_before_any_clock_runs(
    tmp_path, request, host, waits
):
    """A bug: ranks that waited for a host counted as hung, and two trials could wait for each other."""
    prefix = ("env", f"SCALEMARK_LOCK_DIR={tmp_path}/locks-{{host}}")
    where = Elsewhere(
        prefix=prefix, python=sys.executable, module=MODULE, address="127.0.0.1", locks=True
    )
    folder = new_trial(tmp_path / "run", "prefix", ("b", "a"), TRAINS)
    ranks = json.dumps([asdict(where) | {"host": host} for host in ("b", "a")])
    environment = {**os.environ, RANKS_VARIABLE: ranks, "PYTHONPATH": str(PROJECT)}
    held = HostLock({VARIABLE: f"{tmp_path}/locks-{host}"}).try_hold(shares_host=False)
    command = [sys.executable, "-m", MODULE, str(folder.trial), str(folder.path)]
    with folder.log.open("w") as log:
        supervisor = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
    request.addfinalizer(supervisor.terminate)
    tokens = [folder.path / f".token{waits}"]  # worker-0 follows once worker-1 has its host
    until(lambda: list(folder.path.glob(".token*")) == tokens)
    until(lambda: doing_text(folder, folder.read_trial()) == "waiting for its host")
    time.sleep(1)  # in which a rank that waits for no other would start
    started = psutil.Process(supervisor.pid).children(recursive=True)
    words = [word for each in started for word in each.cmdline()]
    ranks = [OwnRank.from_json(word[7:]).rank for word in words if word.startswith("--rank=")]
    assert "worker" not in [rank.job_name for rank in ranks]
    held.close()
    assert supervisor.wait(300) == 0, folder.log.read_text()
    assert not folder.waits_for_host()
    assert Ranks(folder).outcome() == (Outcome.COMPLETED, "")
