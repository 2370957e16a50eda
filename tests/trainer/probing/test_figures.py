"""Each figure of a probe is of real copies and sums; without room it says so."""

import weakref
from dataclasses import replace
from itertools import count

import pytest
import tensorflow as tf
from tensorflow.python.eager import context

from scalemark.records.devices import DeviceKind
from scalemark.records.probe import Probed, ProbeRequest
from trainer.probing import figures
from trainer.probing.figures import MIB
from trainer.probing.turns import Effort, fastest_s

SHORT = Effort(turn_s=1e-9, total_s=0.0)


def request(num_devices, *, is_quick=True, precisions=()):
    return ProbeRequest(
        device_kind="cpu_device",
        num_devices=num_devices,
        precisions=precisions,
        is_quick=is_quick,
    )


def test_the_fastest_turn_counts():
    looks = iter([0, 1, 1, 2, 2, 9, 9, 13, 13, 99])  # turns of 1, 1, 7, 4 and 86 s
    effort = Effort(turn_s=2.0, total_s=11.5)
    assert fastest_s(lambda: None, lambda: None, effort, lambda: next(looks)) == 4 / 2


def test_three_devices_have_six_pairs(make_devices):
    steps = figures.steps_of(request(3, is_quick=False), make_devices(3))
    pairs = [step.args[2:4] for step in steps if step.args[1] == Probed.PAIR]
    assert pairs == [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)]


def test_one_device_has_no_pairs_and_no_reductions(make_devices):
    steps = figures.steps_of(request(1, precisions=("fp32", "bf16")), make_devices(1))
    assert [step.func.__name__ for step in steps] == ["_peak", "_peak", "_memory", "_copy", "_copy"]


def test_a_copy_is_one_of_all_bytes(make_devices):
    devices = make_devices(2)
    copy = figures._copying(devices, devices.host, devices.replicas[1], 8 * MIB)
    copies = [node for node in _nodes(copy) if node.op == "DeepCopy"]
    assert [node.device for node in copies] == [devices.replicas[1]]
    (end,) = copy()
    assert float(end[0]) == 1.0


def test_a_reduction_sums_on_every_device(make_devices):
    ends = figures._reduction(make_devices(3), 64 * 1024)()
    assert [float(end[0]) for end in ends] == [3.0, 3.0, 3.0]


def test_the_bus_bandwidth_is_that_of_a_ring(make_devices, monkeypatch):
    monkeypatch.setattr(figures, "fastest_s", lambda act, wait, effort: 0.5)
    found = figures._all_reduce(make_devices(4), 64 * 1024, SHORT)
    assert found.value == pytest.approx(2 * 3 / 4 * 64 * 1024 / 0.5)


@pytest.mark.parametrize(
    ("kind", "cache_mib", "mib"),
    [("cpu_device", 0, 64), ("cpu_device", 32, 128), ("cpu_device", 1024, 2048), ("gpu", 32, 2048)],
)
def test_tensors_are_four_times_as_large_as_the_caches(monkeypatch, kind, cache_mib, mib):
    monkeypatch.setattr(figures, "last_level_bytes", lambda: cache_mib * MIB)
    monkeypatch.setattr(figures, "available_bytes", lambda: 2**50)
    assert figures.copy_bytes(DeviceKind(kind)) == mib * MIB


@pytest.mark.parametrize("kind", ["cpu_device", "gpu"])
@pytest.mark.parametrize(("available_mib", "mib"), [(4096, 512), (100, 12), (1, 4)])
def test_tensors_take_an_eighth_of_the_hosts_memory(monkeypatch, kind, available_mib, mib):
    """A bug: with large caches a probe took up to 6 GiB, whatever the control group allowed."""
    monkeypatch.setattr(figures, "last_level_bytes", lambda: 1024 * MIB)
    monkeypatch.setattr(figures, "available_bytes", lambda: available_mib * MIB)
    assert figures.copy_bytes(DeviceKind(kind)) == mib * MIB


def test_a_device_with_little_room_copies_less(make_devices, monkeypatch):
    monkeypatch.setattr(figures, "_copying", _with_room_for(16 * MIB))
    found = figures._copy(make_devices(2), Probed.PAIR, 0, 1, SHORT)
    assert (found.num_bytes, found.problem) == (16 * MIB, "")


def test_a_device_without_room_has_a_problem_instead_of_a_figure(make_devices, monkeypatch):
    monkeypatch.setattr(figures, "_copying", _with_room_for(0))
    found = figures._copy(make_devices(2), Probed.TO_DEVICE, None, 1, SHORT)
    assert (found.value, found.problem) == (None, "the host or CPU device 1: no memory for 4 MiB")


def test_what_one_figure_held_is_free_before_the_next(make_devices, monkeypatch):
    """A bug: each left 2 GiB on a GPU until Python happened to collect its garbage."""
    held, plain = [], figures._copying

    def copying(*arguments):
        assert [one() for one in held] == [None] * len(held)
        act = plain(*arguments)
        held.append(weakref.ref(act.get_concrete_function().graph))  # has the variables
        return act

    monkeypatch.setattr(figures, "_copying", copying)
    monkeypatch.setattr(figures, "COPY_BYTES", dict.fromkeys(DeviceKind, 4 * MIB))
    for _ in range(3):
        figures._copy(make_devices(2), Probed.PAIR, 0, 1, SHORT)
    assert len(held) == 3


def test_a_reduction_without_room_has_a_problem(make_devices, monkeypatch):
    monkeypatch.setattr(figures, "_reduction", _refuse)
    found = figures._all_reduce(make_devices(2), 4 * MIB, SHORT)
    assert (found.value, found.problem) == (None, "a reduction of 4 MiB: no memory")


def test_the_hosts_memory_is_pinned_for_gpus_alone(make_devices, monkeypatch):
    monkeypatch.setattr(context.context(), "_config", None)  # put back at the end
    figures.pin_host_memory(make_devices(1))
    assert not context.context().config.gpu_options.force_gpu_compatible
    figures.pin_host_memory(replace(make_devices(1), kind=DeviceKind.GPU))
    assert context.context().config.gpu_options.force_gpu_compatible


def _with_room_for(most):
    calls = count()

    def copying(devices, source, target, num_bytes):
        return _refuse() if num_bytes > most else lambda: next(calls)

    return copying


def _refuse(*_):
    raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor")


def _nodes(function):
    return function.get_concrete_function().graph.as_graph_def().node
