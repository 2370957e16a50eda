"""A rank that only serves says which port is taken, and ends with the process that started it."""

import os
import signal
import socket
import subprocess
import sys

import pytest

from scalemark.records.attempt import Cluster, Rank
from tests.conftest import PROJECT
from tests.ran import ran
from tests.sweeper.processes import assert_gone
from trainer import LostRankError, mode_check, run

pytestmark = pytest.mark.integration

WORKER_1 = Rank(job_name="worker", task_index=1)
TAKEN = "another process has this port .`ss -ltnp` shows which.*give the rank another one"
STARTS = """
import multiprocessing, signal
from trainer import mode_check
with mode_check.started(2, lambda rank: None):
    print(*(process.pid for process in multiprocessing.active_children()), flush=True)
    signal.pause()
"""


@pytest.fixture
def taken():
    """HOST:PORT that somebody listens on."""
    with socket.socket() as somebody:
        somebody.bind(("127.0.0.1", 0))
        somebody.listen()
        yield f"127.0.0.1:{somebody.getsockname()[1]}"


def test_a_server_names_the_address_that_is_taken(taken, all_devices):
    cluster = Cluster(worker_hosts=("127.0.0.1:1", taken))
    with pytest.raises(LostRankError, match=f"worker-1 cannot listen on {taken}: {TAKEN}"):
        run.serve_claimed(cluster, WORKER_1, lambda: None)


def test_worker_0_names_its_own_that_is_taken(taken):
    code = f"""
from scalemark.records.attempt import Cluster; from scalemark.records.machine import DeviceKind
from trainer import devices
devices.connect(devices.claim(DeviceKind.CPU_DEVICE, 1), Cluster(worker_hosts=({taken!r},)))
"""
    ended = ran([sys.executable, "-c", code], cwd=PROJECT)
    assert (
        f"LostRankError: worker-0 cannot listen on {taken}: another process has this port"
        in ended.stderr
    )


def test_no_server_outlives_the_process_that_started_it():
    with subprocess.Popen(
        [sys.executable, "-c", STARTS], cwd=PROJECT, stdout=subprocess.PIPE, text=True
    ) as starter:
        pids = [int(pid) for pid in starter.stdout.readline().split()]
        starter.send_signal(signal.SIGKILL)
    assert len(pids) == 3
    try:
        for pid in pids:
            assert_gone(pid)
    finally:
        for pid in pids:
            _kill(pid)


def test_a_server_that_is_never_ready_is_not_waited_for_without_end(monkeypatch):
    monkeypatch.setattr(mode_check, "START_TIMEOUT_S", 0.1)
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb"), os.fdopen(reading, "rb") as silent:
        connection = mode_check.Connection(os.dup(silent.fileno()), writable=False)
        with pytest.raises(LostRankError, match="worker-1 did not start"):
            mode_check._wait_for(WORKER_1, connection)
        connection.close()


def _kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
