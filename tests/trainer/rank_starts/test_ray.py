"""What a supervisor asks of its agent's Ray task, by their socket. tests/sweeper/launchers/test_ray.py has the other end, and Ray."""

import json
import socket
import threading

import pytest

from scalemark.records.machine import DeviceKind
from scalemark.records.trial import TrialSpec
from tests.trainer.ranks_over_hosts import RANKS, new_trial
from trainer.errors import UnsupportedTrialError
from trainer.rank_starts.ray import start_ranks
from trainer.ranks import supervision as ranks

FIRST, SECOND = (
    {"address": "10.0.0.1", "gpus": "4,5"},
    {"address": "10.0.0.2", "gpus": "GPU-a,GPU-b,GPU-c"},
)


class RayTask(threading.Thread):
    """Tells of these hosts, hears what is asked, says `then`, and hangs up when the supervisor has left."""

    def __init__(self, listening, hosts, then=""):
        super().__init__()
        self._listening, self._hosts, self._then = listening, hosts, then
        self.asked = ""
        self.start()

    def run(self):
        connection, _ = self._listening.accept()
        with connection, connection.makefile("rw") as lines:
            if not self._hosts:
                return
            print(json.dumps({"hosts": self._hosts}), file=lines, flush=True)
            self.asked = lines.readline()
            print(self._then, end="", file=lines, flush=True)
            lines.readline()


@pytest.fixture
def listening(tmp_path, monkeypatch):
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "ranks"))
        listening.listen()
        monkeypatch.setenv("SCALEMARK_RANK_SOCKET", str(tmp_path / "ranks"))
        yield listening


@pytest.fixture
def job(tmp_path):
    """Of 2 workers and 2 parameter servers on 2 hosts, with GPUs number 0 and 1 of each."""
    folder = new_trial(tmp_path / "run", "ray", ("a", "b"), "", device_kind=DeviceKind.GPU)
    return ranks.job(TrialSpec.from_json(folder.trial.read_text()), folder)


def test_each_rank_is_asked_for_on_its_host_with_its_gpus(listening, job, monkeypatch):
    monkeypatch.setenv("TMPDIR", "/of/this/host")
    monkeypatch.setenv("RAY_JOB_ID", "of this host")
    monkeypatch.setenv("TF_NUM_INTEROP_THREADS", "3")
    task = RayTask(listening, [FIRST, SECOND], "a warning\nrank worker-1 ended: -9\n")
    with start_ranks(job) as started:
        while not started.look():
            pass
        assert {rank.name: end for rank, end in started.look().items()} == {"worker-1": -9}
        addresses = [*started.cluster.worker_hosts, *started.cluster.ps_hosts]
    task.join()
    asked = json.loads(task.asked)
    assert [
        (rank["name"], rank["host"], rank["gpus"])
        for rank in sorted(asked["ranks"], key=lambda rank: RANKS.index(rank["name"]))
    ] == [
        ("worker-0", 0, "4,5"),
        ("ps-0", 0, ""),
        ("worker-1", 1, "GPU-a,GPU-b"),
        ("ps-1", 1, ""),
    ]
    assert [address.split(":")[0] for address in addresses] == ["10.0.0.1", "10.0.0.2"] * 2
    assert len({address.split(":")[1] for address in addresses}) == 4
    assert asked["environment"]["TF_NUM_INTEROP_THREADS"] == "3"
    assert not {"TMPDIR", "RAY_JOB_ID", "CUDA_VISIBLE_DEVICES", "SCALEMARK_ORCHESTRATOR"} & set(
        asked["environment"]
    )


@pytest.mark.parametrize(
    ("hosts", "error", "reported"),
    [
        ([FIRST], UnsupportedTrialError, "hosts=2 wanted, and our agent has 1"),
        (
            [FIRST, SECOND | {"gpus": "3"}],
            UnsupportedTrialError,
            r"GPUs number \[0, 1\] wanted, and 3 given here; launcher.agents",
        ),
        ([], OSError, "the Ray task of our agent hung up"),
    ],
)
def test_hosts_that_will_not_do_are_reported(listening, job, hosts, error, reported):
    task = RayTask(listening, hosts)
    with pytest.raises(error, match=reported), start_ranks(job):
        pytest.fail("nothing can have been started")
    task.join()


def test_without_an_agent_over_several_hosts_there_is_none_to_ask(job):
    with pytest.raises(
        UnsupportedTrialError,
        match="SCALEMARK_RANK_SOCKET is not set; only agents that launcher=ray started",
    ):
        start_ranks(job).__enter__()


def test_an_agent_that_is_gone_is_reported_as_what_it_is(listening, job):
    listening.close()
    with pytest.raises(ConnectionRefusedError):
        start_ranks(job).__enter__()
