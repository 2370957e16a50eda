"""A trainer takes the cores and the limits that placement.json gives it, and nothing without that file."""

import json
import os
import resource
import subprocess
import sys

import pytest

from scalemark.records.attempt import WORKER_0, Cluster, Placement
from scalemark.records.measurement import Doing, Outcome
from scalemark.run_folder import RunFolder
from tests.specs import small
from trainer.own_rank import OwnRank

pytestmark = pytest.mark.integration

TELL = """
import json, os, resource, sys
from pathlib import Path
from scalemark.run_folder import RunFolder; from scalemark.records.trial import TrialSpec
from trainer import own_process
given = RunFolder(Path(sys.argv[1])).read_placement()
if given:
    own_process.take(given)
    own_process.limit_memory(given, TrialSpec.from_json(sys.argv[2]))
limits = [resource.getrlimit(which) for which in (resource.RLIMIT_CORE, resource.RLIMIT_NOFILE, resource.RLIMIT_DATA)]
print(json.dumps([sorted(os.sched_getaffinity(0)), limits]))
"""


def given(**changes) -> Placement:
    return Placement(**{"start": "spawn", "devices": (0,), "visible_devices": ""} | changes)


@pytest.fixture
def folder(tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.path.mkdir()
    return folder


def reported(folder, **spec):
    command = [sys.executable, "-c", TELL, str(folder.path), small(**spec).to_json()]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    cores, limits = json.loads(ended.stdout)
    return cores, [tuple(limit) for limit in limits]


def run(folder, placement, *flags, **changes):
    folder.trial.write_text(small(**changes).to_json())
    folder.placement.write_text(placement.to_json())
    command = [sys.executable, "-m", "trainer", str(folder.trial), str(folder.path), *flags]
    subprocess.run(command, capture_output=True, check=False)
    return folder.read_result()


def inherited():
    return [
        resource.getrlimit(which)
        for which in (resource.RLIMIT_CORE, resource.RLIMIT_NOFILE, resource.RLIMIT_DATA)
    ]


def test_without_a_placement_nothing_is_changed(folder):
    assert reported(folder) == (sorted(os.sched_getaffinity(0)), inherited())


def test_cores_and_limits_are_taken(folder):
    core = max(os.sched_getaffinity(0))
    folder.placement.write_text(given(cores=(core,), host_memory_bytes=2**31).to_json())
    (_, core_limit), (_, files), _ = inherited()
    assert reported(folder) == ([core], [(0, core_limit), (files, files), (2**31, 2**31)])


def test_cores_that_may_not_be_used_are_refused_before_anything_runs(folder):
    result = run(folder, given(cores=(0, 4095)))
    assert result.outcome == Outcome.UNSUPPORTED
    assert result.message.startswith(
        "placement.json gives CPU cores 4095, and this process may run on "
    )


def test_an_allocation_over_the_limit_is_out_of_memory(folder):
    result = run(folder, given(host_memory_bytes=2**31), batch_size=400_000)
    assert result.outcome == Outcome.OUT_OF_MEMORY
    assert "OOM when allocating tensor with shape[400000,32,32,3]" in result.message


def test_a_limit_in_which_tensorflow_itself_has_no_place_is_refused(folder):
    result = run(folder, given(host_memory_bytes=2**25))
    assert result.outcome == Outcome.UNSUPPORTED
    assert result.message.startswith("launcher.host_memory_gib=0.03125: TensorFlow alone takes ")


RING = {
    "variable_update": "distributed_all_reduce",
    "all_reduce": "ring",
    "hosts": 2,
    "num_gpus": 2,
}
SERVERS = {
    "variable_update": "distributed_replicated",
    "local_parameter_device": "cpu",
    "hosts": 2,
    "num_gpus": 2,
}


@pytest.mark.parametrize(
    ("spec", "hosts", "limit_bytes"),
    [
        (RING, (), 2**30),
        (SERVERS, (), 2**29),
        (RING, ("a", "b"), 2**31),
        (SERVERS, ("a", "b"), 2**30),
    ],
)
def test_the_processes_that_a_trial_has_on_a_host_share_the_limit(folder, spec, hosts, limit_bytes):
    folder.placement.write_text(given(host_memory_bytes=2**31, hosts=hosts).to_json())
    assert reported(folder, **spec)[1][-1] == (limit_bytes, limit_bytes)


def test_a_memory_limit_too_small_for_all_ranks_counts_them(folder):
    cluster = Cluster(worker_hosts=("127.0.0.1:1", "127.0.0.1:2"))
    worker_0 = OwnRank(cluster=cluster, rank=WORKER_0).arguments()
    message = run(folder, given(host_memory_bytes=2**25), *worker_0, **RING).message
    assert message.startswith("launcher.host_memory_gib=0.03125: TensorFlow alone takes ")
    assert message.endswith(" in each of 2 processes; raise it")


def test_a_trial_with_neighbors_is_suspect_and_tells_what_it_does(folder):
    result = run(folder, given(shares_host=True))
    assert "other trials of the sweep may have run beside it" in result.verdict_reasons
    assert folder.read_doing() is Doing.PROFILING
