"""What a trial stores of itself is its own, and costs nothing that grows with the model."""

import sys
from types import SimpleNamespace

import pytest
import tensorflow as tf

from scalemark.records.attempt import Cluster, RankLimits
from scalemark.run_folder import RunFolder
from tests.conftest import PROJECT
from tests.ran import ran
from tests.specs import small
from trainer import devices, run
from trainer.towers import Towers

pytestmark = pytest.mark.integration

NUM_PARAMETERS = (32 * 32 * 3 + 1) + 2 * 4096 + (4096 + 1) * 10  # of the trivial model

COUNTED = """
import sys
from pathlib import Path
from scalemark.run_folder import RunFolder; from scalemark.records.trial import TrialSpec
from trainer import run
from trainer.variable_updates import replicated

def fetch(self, replica):
    raise AssertionError("weights were fetched")

replicated.Replicated.weights = fetch
folder = RunFolder(Path(sys.argv[1]))
print(run.run(TrialSpec.from_json(folder.trial.read_text()), folder).measurement.num_parameters)
"""


def test_parameters_are_counted_without_the_weights(tmp_path):
    folder = RunFolder(tmp_path)
    folder.trial.write_text(small().to_json())
    command = [sys.executable, "-c", COUNTED, str(tmp_path)]
    ended = ran(command, cwd=PROJECT)
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert int(ended.stdout.splitlines()[-1]) == NUM_PARAMETERS


WITHOUT_ROOM = """
import sys
from pathlib import Path
import tensorflow as tf
from scalemark.run_folder import RunFolder; from scalemark.records.trial import TrialSpec
from trainer import run

def no_room(*_):
    raise tf.errors.ResourceExhaustedError(None, None, "no room for the weights")

run.op_placement.time_replicas = no_room
folder = RunFolder(Path(sys.argv[1]))
found = run.run(TrialSpec.from_json(folder.trial.read_text()), folder)
print(found.outcome, found.measurement.num_steps, found.replica_times, found.message, sep="; ")
"""


def test_replica_times_that_fail_do_not_take_the_measurement_with_them(tmp_path):
    folder = RunFolder(tmp_path)
    folder.trial.write_text(small(num_gpus=2, replica_times=True).to_json())
    command = [sys.executable, "-c", WITHOUT_ROOM, str(tmp_path)]
    ended = ran(command, cwd=PROJECT)
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert ended.stdout.splitlines()[-1] == (
        "completed; 4; None; no replica_times: ResourceExhaustedError: no room for the weights"
    )


def test_the_deadline_of_the_supervisor_comes_before_worker_0s(tmp_path, monkeypatch):
    waited = []
    monkeypatch.setattr(devices, "prepare", lambda spec, cluster, reach_s: waited.append(reach_s))
    spec = small(num_gpus=2, hosts=2, variable_update="distributed_replicated")
    folder, cluster = (
        RunFolder(tmp_path),
        Cluster(worker_hosts=("a:1", "b:1"), ps_hosts=("a:2", "b:2")),
    )
    run._devices(spec, folder, cluster)
    folder.rank_limits.write_text(RankLimits(start_timeout_s=900).to_json())
    run._devices(spec, folder, cluster)
    by_hand, longer = waited
    assert by_hand > RankLimits().start_timeout_s
    assert 900 < longer < 1000


class Timed(Towers):
    """Towers whose clock goes on by 1 and 2 as they trace, and by 4 and 8 as they run."""

    def __init__(self):
        self.now_s = 0.0
        self.step = self
        self.lacks_memory = False

    def take(self, seconds: float) -> float:
        self.now_s += seconds
        return 0.5

    def trace(self, batches):
        self.take(1)

    def traced_alone(self, batches):
        self.take(2)
        return self.run_alone

    def run_alone(self):
        if self.lacks_memory:
            raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor")
        return self.take(4)

    def __call__(self, batches):
        assert not self.lacks_memory, "others wait for NCCL without end"
        return self.take(8)


def first_step(towers: Timed) -> run.FirstStep:
    update = SimpleNamespace(num_summed=2, reduction_ops=("NcclAllReduce",))
    training = SimpleNamespace(update=update, towers=towers)
    return run._take_first_step(training, SimpleNamespace(next=list), lambda: towers.now_s)


def test_a_lack_of_memory_is_found_before_nccl_waits_for_it():
    towers = Timed()
    towers.lacks_memory = True
    with pytest.raises(tf.errors.ResourceExhaustedError):
        first_step(towers)


def test_what_runs_alone_before_nccl_is_in_the_times_of_the_start():
    """A bug: the tower was traced and compiled before the clock started."""
    first = first_step(Timed())
    assert (first.trace_s, first.first_step_s) == (1 + 2, 4 + 8)
