"""What a step sends between devices, which the host waits for, and the losses that it keeps."""

import ast
import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from functools import partial

import pytest
import tensorflow as tf
from tensorflow.python.eager import context

from scalemark.records.machine import DeviceKind
from tests.conftest import PROJECT
from tests.specs import small
from tests.trainer.test_towers import INDEPENDENT, MODES
from trainer.mode_check import at, convolutional, normalized, split, whole_batches
from trainer.model_tower import read_where_it_is
from trainer.run import build


def as_on_gpus(claimed, num_replicas):
    """Return devices as on a box of GPUs: the first replica is on the device that takes what no
    device is named for, CPU:0, and the host is another one.
    """
    names = [device.name for device in tf.config.list_logical_devices("CPU")]
    *replicas, host = [f"/job:localhost/replica:0/task:0{name[-13:]}" for name in names]
    kind, replicas = DeviceKind.GPU, tuple(replicas[:num_replicas])
    return replace(claimed, kind=kind, host=host, replicas=replicas, shared=False)


def arrivals(devices, **changes):
    """Return what a step of a model with normalization sends: from and to which device, and the
    tensor's name. H is the host, and replicas are 0, 1, ...
    """
    num_replicas, num_steps = len(devices.replicas), changes.get("steps_per_execution", 1)
    spec = small(num_gpus=num_replicas, **changes)
    training = build(spec, devices, normalized, partial(at, devices))
    batches = split(list(whole_batches(num_replicas, num_steps)), devices)
    context.enable_run_metadata()
    try:
        training.towers.step(batches)
    finally:
        metadata = context.export_run_metadata()
        context.disable_run_metadata()
    # and not the functions that read what it kept
    step = max(metadata.function_graphs, key=lambda function: function.ByteSize())
    names = {devices.host: "H"} | {name: str(i) for i, name in enumerate(devices.replicas)}
    found = []
    for graph in step.partition_graphs:
        for node in graph.node:
            if node.op == "_Recv":
                way = names[node.attr["send_device"].s.decode()] + names[node.device]
                found.append((way, node.attr["tensor_name"].s.decode()))
    return found


def num_sent(devices, **changes):
    return Counter(way for way, _ in arrivals(devices, **changes))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"xla": "on"},
        {"optimizer": "adam", "learning_rate_warm_up": 3},
        {"gradient_accumulation": 2},
        {"steps_per_execution": 3},
        {"steps_per_execution": 3, "optimizer": "adamw", "learning_rate_warm_up": 2},
        {"precision": "bf16", "weight_decay": 0.1},
    ],
    ids=str,
)
def test_the_loss_is_all_that_a_step_of_one_replica_sends(all_devices, changes):
    """For anything else, a control edge too, the host would wait until the GPU has done the step."""
    assert num_sent(as_on_gpus(all_devices, 1), **changes) == {"0H": 1}


@pytest.mark.parametrize(
    ("mode", "exchanged"),
    [
        (INDEPENDENT, {}),
        (MODES["replicated_none"], {"01": 5, "10": 5}),
        (MODES["replicated_psgpu"], {"01": 10, "10": 10}),
        (MODES["replicated_ring"], {}),  # sends by itself
        (MODES["ps_gpu"], {"01": 5, "10": 5}),
        (MODES["mirrored_none"], {"01": 5, "10": 5}),
        (MODES["sharded"], {"01": 6, "10": 6}),
        (MODES["sharded_ring"], {}),
    ],
    ids=str,
)
def test_replicas_send_losses_and_what_they_exchange(all_devices, mode, exchanged):
    assert num_sent(as_on_gpus(all_devices, 2), **mode) == {"0H": 1, "1H": 1} | exchanged


def test_gradients_and_variables_alone_go_through_the_host_beside_losses(all_devices):
    gradients = variables = 5
    assert num_sent(as_on_gpus(all_devices, 2), **MODES["ps_cpu"]) == {
        **{"0H": 1 + gradients, "1H": 1 + gradients},
        **{"H0": variables, "H1": variables},
    }


@pytest.mark.integration
def test_xla_auto_compiles_no_loss_of_the_call_before():
    """It would come to the host with all that its cluster computes, at the end of the step."""
    program = """
from scalemark.records.machine import DeviceKind
from trainer import devices
claimed = devices.claim(DeviceKind.CPU_DEVICE, 3)
from tests.trainer.test_step import arrivals, as_on_gpus
print(arrivals(as_on_gpus(claimed, 1), xla="auto"))
"""
    flags = {"TF_XLA_FLAGS": "--tf_xla_auto_jit=2 --tf_xla_cpu_global_jit"}
    ran = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | flags,
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=True,
    )
    [(way, name)] = ast.literal_eval(ran.stdout.splitlines()[-1])
    assert way == "0H"
    assert "ReadVariableOp" in name


@pytest.mark.parametrize("mode", ["replicated_none", "ps_cpu", "mirrored_none"])
def test_a_loss_stays_where_it_was_computed(make_devices, mode):
    """On the host it would be there only when a GPU has done all else."""
    devices = make_devices(2)
    training = build(small(num_gpus=2, **MODES[mode]), devices, convolutional)
    graph = training.towers.step.trace(split(list(whole_batches(2, 1)), devices))
    kept = []
    for op in graph.get_operations():
        is_loss = op.type == "AssignVariableOp" and op.inputs[1].shape == []
        if is_loss and op.device != devices.host:
            kept.append((op.device, op.inputs[1].op.device))
    assert kept == [(replica, replica) for replica in devices.replicas]


@pytest.mark.parametrize("num_steps", [1, 3])
def test_a_loss_read_late_is_that_of_its_call(make_devices, num_steps):
    devices = make_devices(2)
    spec = small(num_gpus=2, steps_per_execution=num_steps, **MODES["replicated_none"])
    batches = split(list(whole_batches(2, 1)), devices)
    at_once = build(spec, devices, convolutional).towers.step
    read_at_once = [float(at_once(batches)) for _ in range(3)]
    late = build(spec, devices, convolutional).towers.step
    losses = [late(batches) for _ in range(3)]
    assert [float(loss) for loss in losses] == read_at_once
    assert len(set(read_at_once)) == 3


def test_a_loss_is_the_mean_of_all_replicas(make_devices):
    losses = []
    for num in (1, 2):
        spec = small(num_gpus=num, **MODES["replicated_none"])
        step = build(spec, make_devices(num), convolutional).towers.step
        losses.append(float(step(split(list(whole_batches(2, 1)), make_devices(num)))))
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)


def test_a_variable_is_read_on_its_own_device():
    with tf.device("CPU:2"):
        variable = tf.Variable(1.0)
    assert read_where_it_is(variable).device == variable.device
    assert variable.read_value().device != variable.device  # TensorFlow's own way
