"""A trial over two nodes of a Slurm job: its ranks are tasks of one srun, and none is left on any node however it ends."""

import os
import shlex
import signal
import sys

import psutil
import pytest

from scalemark.records.attempt import RANK_LOST
from scalemark.records.machine import DeviceKind
from scalemark.records.outcomes import Outcome
from scalemark.run_folder import RunFolder
from tests import slurm
from tests.conftest import PROJECT
from tests.slurm import until
from tests.trainer.ranks_over_hosts import RANKS, TRAINS, Ranks, new_trial
from tests.trainer.tiny_ranks import MODULE, SERVE
from trainer.rank_starts import srun
from trainer.ranks.srun_task import visible_devices

pytestmark = pytest.mark.cluster


class Trial(Ranks):
    """In a job of two nodes, whose script is its supervisor."""

    def __init__(self, cluster: slurm.Cluster, folder: RunFolder, module: str) -> None:
        super().__init__(folder)
        self.cluster = cluster
        argv = [sys.executable, "-m", module, str(folder.trial), str(folder.path)]
        script = f"export PYTHONPATH={PROJECT}; echo $$ >{folder.path}/supervisor; {shlex.join(argv)}; echo $? >{folder.path}/code; srun sleep 600"
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
            slurm_cluster, new_trial(tmp_path / "run", "srun", hosts, script, **spec), module
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
    reported = {rank: trial.log(rank) for rank in RANKS}
    assert "\non n1 GPUs 0,1\n" in reported.pop("worker-0")
    assert reported == {
        "ps-0": "on n1 GPUs \n",
        "worker-1": "on n2 GPUs 0,1\n",
        "ps-1": "on n2 GPUs \n",
    }
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


def test_nodes_that_are_not_of_the_job_are_reported_as_what_they_are(begin):
    trial = begin(SERVE, hosts=("n1", "n9"))
    trial.exit_code()
    outcome, message = trial.outcome()
    assert outcome == Outcome.FAILED
    assert "scontrol gives no address of n9" in message


def test_tensorflow_trains_over_two_nodes(begin):
    trial = begin(module="trainer")
    assert trial.exit_code() == 0, "".join(map(trial.log, RANKS))
    result = trial.folder.read_result()
    assert result.measurement.num_steps >= 4


def test_devices_are_places_among_those_that_slurm_gives():
    assert visible_devices([0, 2], "4,5,6,7") == "4,6"
    assert visible_devices([0, 2], None) == "0,2"
    assert visible_devices(None, "4,5,6,7") == ""
    with pytest.raises(ValueError, match=r"GPUs number \[0, 2\] wanted, and 4,5 given here"):
        visible_devices([0, 2], "4,5")


def test_a_silent_scontrol_is_reported_as_silent(tmp_path, monkeypatch):
    scontrol = tmp_path / "scontrol"
    scontrol.write_text("#!/bin/sh\n")
    scontrol.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(OSError, match="gives no address of n1: it says nothing"):
        srun._addresses(["n1"])
