"""A worker of `benchmarks/trainer.py` trains on the devices that it is told."""

import pytest

from benchmarks.trainer import Candidate, Worker
from tests.trainer import passing_for_gpus

pytestmark = pytest.mark.integration


def test_a_worker_trains_on_gpus():
    """A bug: variables that TensorFlow has to see at its import were missing, and it was refused."""
    candidate = Candidate(kind="ours", model="lenet5", image_px=32, device="gpu")
    with Worker(candidate, (*passing_for_gpus.COMMAND, "benchmarks.worker")) as worker:
        assert worker.wait_until_ready().num_parameters > 0
        assert worker.run(2).work == 2
