"""Each figure of a probe is of real copies and sums; without room it says so."""

import gc
import weakref
from dataclasses import replace

import pytest
import tensorflow as tf
from tensorflow.python.eager import context

from scalemark.records.machine import DeviceKind, Probed, ProbeRequest
from trainer import probing
from trainer.probing import MIB, copy_bytes
from trainer.watching.utilization import fastest_s

ROOM = 64 * MIB


@pytest.fixture(autouse=True)
def short(monkeypatch):
    """One turn of one action; garbage is collected after each, of which other tests left much."""
    gc.freeze()
    monkeypatch.setattr(probing, "TURN_S", 1e-9)
    monkeypatch.setattr(probing, "ALL_TURNS_S", 0.0)


def steps_of(devices, *precisions):
    num = len(devices.replicas)
    request = ProbeRequest(device_kind="cpu_device", num_devices=num, precisions=precisions)
    return probing.steps_of(request, devices, ROOM)


def test_the_fastest_turn_counts():
    looks = iter([0, 1, 1, 2, 2, 9, 9, 13, 13, 99])  # turns of 1, 1, 7, 4 and 86 s
    fastest = fastest_s(lambda: None, lambda: None, lambda: next(looks), 2.0, 11.5)
    assert fastest == 4 / 2


def test_three_devices_have_six_pairs(make_devices):
    steps = steps_of(make_devices(3))
    pairs = [step.args[3:] for step in steps if Probed.PAIR in step.args]
    assert pairs == [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)]


def test_one_device_has_no_pairs_and_no_reductions(make_devices):
    steps = steps_of(make_devices(1), "fp32", "bf16")
    assert [step.func.__name__ for step in steps] == ["_peak", "_peak", "_copy", "_copy"]


def test_a_copy_is_one_of_all_bytes(make_devices):
    devices = make_devices(2)
    copy = probing._copying(devices, devices.host, devices.replicas[1], 8 * MIB)
    copies = [node for node in _nodes(copy) if node.op == "DeepCopy"]
    assert [node.device for node in copies] == [devices.replicas[1]]
    (end,) = copy()
    assert float(end[0]) == 1.0


def test_a_reduction_sums_on_every_device(make_devices):
    ends = probing._reduction(make_devices(3), 64 * 1024)()
    assert [float(end[0]) for end in ends] == [3.0, 3.0, 3.0]


def test_the_bus_bandwidth_is_that_of_a_ring(make_devices, monkeypatch):
    monkeypatch.setattr(probing, "_seconds", lambda devices, act: 0.5)
    found = probing._all_reduce(make_devices(4), 64 * 1024)
    assert found.value == pytest.approx(2 * 3 / 4 * 64 * 1024 / 0.5)


@pytest.mark.parametrize(
    ("kind", "host_mib", "mib"),
    [
        ("cpu_device", 2**30, 1024),
        ("gpu", 2**30, 2048),
        ("cpu_device", 4096, 512),
        ("gpu", 100, 12),
        ("cpu_device", 1, 4),
    ],
)
def test_tensors_fit_the_host(kind, host_mib, mib):
    assert copy_bytes(DeviceKind(kind), host_mib * MIB) == mib * MIB


def test_a_device_without_room_has_a_problem_instead_of_a_figure(make_devices, monkeypatch):
    monkeypatch.setattr(probing, "_copying", _refuse)
    found = probing._copy(make_devices(2), ROOM, Probed.TO_DEVICE, None, 1)
    assert (found.value, found.problem) == (None, "the host or CPU device 1: no memory for 64 MiB")


def test_what_one_figure_held_is_free_before_the_next(make_devices, monkeypatch):
    """A bug: each left 2 GiB on a GPU until Python happened to collect its garbage."""
    held, plain = [], probing._copying

    def copying(*arguments):
        assert [one() for one in held] == [None] * len(held)
        act = plain(*arguments)
        held.append(weakref.ref(act.get_concrete_function().graph))  # has the variables
        return act

    monkeypatch.setattr(probing, "_copying", copying)
    for _ in range(3):
        probing._copy(make_devices(2), 4 * MIB, Probed.PAIR, 0, 1)
    assert len(held) == 3


def test_a_reduction_without_room_has_a_problem(make_devices, monkeypatch):
    monkeypatch.setattr(probing, "_reduction", _refuse)
    found = probing._all_reduce(make_devices(2), 4 * MIB)
    assert (found.value, found.problem) == (None, "a reduction of 4 MiB: no memory")


def test_the_hosts_memory_is_pinned_for_gpus_alone(make_devices, monkeypatch):
    monkeypatch.setattr(context.context(), "_config", None)  # put back at the end
    probing.pin_host_memory(make_devices(1))
    assert not context.context().config.gpu_options.force_gpu_compatible
    probing.pin_host_memory(replace(make_devices(1), kind=DeviceKind.GPU))
    assert context.context().config.gpu_options.force_gpu_compatible


def _refuse(*_):
    raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor")


def _nodes(function):
    return function.get_concrete_function().graph.as_graph_def().node
