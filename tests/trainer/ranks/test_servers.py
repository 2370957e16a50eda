"""A rank that only serves says which port is taken."""

import socket
import sys

import pytest

from scalemark.records.attempt import Cluster, Rank
from tests.conftest import PROJECT
from tests.ran import ran
from trainer import LostRankError, run

pytestmark = pytest.mark.integration

WORKER_1 = Rank(job_name="worker", task_index=1)
TAKEN = "another process has this port .`ss -ltnp` shows which.*give the rank another one"


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
