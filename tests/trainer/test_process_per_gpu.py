"""A process per replica on one host trains as one device would, and its trial is of one host."""

import json
import subprocess
import sys
from dataclasses import replace

import keras
import pytest
from tensorflow.python.distribute.collective_all_reduce_strategy import CollectiveAllReduceStrategy

from scalemark.own_model import find
from scalemark.records.outcomes import Outcome
from scalemark.records.trial import TrialSpec
from tests.conftest import PROJECT
from tests.own_models import written
from tests.specs import small
from tests.sweeper.starts.test_fork import make_folder
from tests.trainer.test_selfcheck import run
from trainer.check import exactness
from trainer.errors import UnsupportedTrialError
from trainer.ranks.lockstep import Lockstep
from trainer.ranks.per_replica import as_asked, with_processes
from trainer.run import build
from trainer.variable_updates import multi_worker_mirrored, process_per_gpu

PER_GPU = small(variable_update="process_per_gpu", all_reduce="ring", num_gpus=2)


def test_every_process_stands_for_a_host_of_one_replica():
    ranks = with_processes(PER_GPU)
    assert (ranks.hosts, ranks.gpus_per_host) == (2, 1)
    assert with_processes(ranks) == ranks  # ranks that are started by hand read it so
    assert as_asked(ranks) == PER_GPU
    assert as_asked(small(num_gpus=2)) == with_processes(small(num_gpus=2)) == small(num_gpus=2)


def test_a_process_per_gpu_over_several_hosts_is_refused():
    spec = small(variable_update="process_per_gpu", all_reduce="ring", num_gpus=4, hosts=2)
    with pytest.raises(UnsupportedTrialError, match=r"hosts=2: .* is of one host; leave it out"):
        with_processes(spec)


def wide() -> keras.Model:
    """Build dense layers of 1.5, 16, 16 and 16 MiB, and a small one."""
    x = images = keras.Input((exactness.IMAGE_PX, exactness.IMAGE_PX, 3))
    x = keras.layers.Flatten()(x)
    for _ in range(4):
        x = keras.layers.Dense(2048)(x)
    return keras.Model(images, keras.layers.Dense(exactness.NUM_CLASSES)(x))


def as_two_workers(
    make_devices, spec: TrialSpec, bytes_per_pack: int
) -> multi_worker_mirrored.WorkerDevices:
    """Return devices of this process that reduce as those of two workers do."""
    on = make_devices(2)
    told = multi_worker_mirrored.communication_options(spec, bytes_per_pack)
    strategy = CollectiveAllReduceStrategy._from_local_devices(on.replicas, told)
    return multi_worker_mirrored.WorkerDevices(
        kind=on.kind,
        host=on.host,
        replicas=on.replicas,
        shared=on.shared,
        lockstep=Lockstep(on.host, 1),
        strategy=strategy,
    )


@pytest.mark.parametrize(
    ("variable_update", "bytes_per_pack", "num_packs", "num_messages"),
    [
        ("multi_worker_mirrored", 0, 0, 1),  # once the backward pass has ended
        ("process_per_gpu", process_per_gpu.BYTES_PER_PACK, 0, 2),
        ("process_per_gpu", process_per_gpu.BYTES_PER_PACK, 3, 3),
        ("multi_worker_mirrored", 0, 3, 3),
    ],
)
def test_gradients_are_sent_in_so_many_messages(
    make_devices, variable_update, bytes_per_pack, num_packs, num_messages
):
    """A bug: a process per GPU sent one, where DistributedDataParallel overlaps those of 25 MiB."""
    spec = small(
        variable_update=variable_update, all_reduce="ring", num_gpus=2, gradient_repacking=num_packs
    )
    on = as_two_workers(make_devices, spec, bytes_per_pack)
    training = build(spec, on, wide)
    batches = exactness.split(list(exactness.whole_batches(2, 1)), on)
    graph = training.towers.step.get_concrete_function(batches).graph
    sizes = {replica: [] for replica in on.replicas}
    for op in graph.get_operations():
        if op.type == "CollectiveReduceV2" and "reduce/" in op.name:
            sizes[op.device].append(op.inputs[0].shape.num_elements())
    first, second = sizes.values()
    assert first == second
    assert len(first) == num_messages
    assert sum(first) == training.num_parameters
    if num_packs:
        assert max(first) - min(first) <= 1


@pytest.mark.integration
def test_the_selfcheck_proves_every_process_exact(tmp_path):
    path = tmp_path / "found.json"
    modes = ("process_per_gpu_ring", "process_per_gpu_nccl")
    ended = run("--modes", *modes, "--devices", "cpu_device", "--out", str(path))
    assert ended.returncode == 0, ended.stderr
    checks = json.loads(path.read_text())["checks"]
    ring = [check for check in checks if check["mode"] == "process_per_gpu_ring"]
    assert [(check["options"], check["outcome"]) for check in ring] == [
        ("-", "passed"),
        ("steps_per_execution=3", "passed"),
        ("gradient_accumulation=4", "passed"),
        ("gradient_repacking=2", "passed"),
    ]
    assert max(check["difference"] for check in ring) < 1e-6
    assert "these replicas are CPU devices (process_per_gpu_nccl)" in ended.stdout


WIDE = """
import keras


def build():
    layers = [keras.layers.Dense(2048) for _ in range(4)]
    return keras.Sequential([keras.Input((64,)), *layers, keras.layers.Dense(4)])
"""


@pytest.mark.integration
def test_a_trial_starts_its_processes_and_ends_with_them(tmp_path):
    folder = make_folder(tmp_path / "run", "")
    model = find(f"{tmp_path}/{written(WIDE)}", PROJECT)
    spec = replace(
        PER_GPU, model=model.reference, model_digest=model.digest, image_px=0, num_classes=0
    )
    folder.trial.write_text(spec.to_json())
    command = [sys.executable, "-m", "trainer", str(folder.trial), str(folder.path)]
    ended = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    result = folder.read_result()
    assert result.outcome == Outcome.COMPLETED
    # gradients of 48 MiB in messages of at least 25 MiB
    assert result.op_placement["reduction"] == {"CollectiveReduceV2 @ worker-0 CPU:0": 2}
    assert (folder.path / "log-worker-1.txt").exists()
    assert folder.read_trial() == spec  # as the sweep asked for it: of one host
