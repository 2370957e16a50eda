"""A probe is read on a screen of 80 columns."""

from dataclasses import replace

import pytest

from scalemark.records.machine import Figure, Probed
from sweeper.probe import print_probe
from tests.sweeper.probing.probes import box, figures, probe_of


@pytest.fixture
def shown(capsys):
    def show(probe):
        print_probe(probe)
        lines = capsys.readouterr().out.splitlines()
        assert max(map(len, lines)) <= 80
        return "\n".join(lines)

    return show


def test_four_gpus_have_a_matrix(shown, snapshot):
    machine = box(4, "NVIDIA GeForce RTX 4090")
    probe = probe_of(machine, figures(4, pair=11e9, bus=9e9), doubts=("GPU 0 is in use by others",))
    assert shown(probe) == snapshot


def test_one_gpu_has_none(shown, snapshot):
    machine = box(1, "NVIDIA GeForce RTX 4090")
    lacks = Figure(what=Probed.TO_HOST, value=None, problem="the host: no memory for 4 MiB")
    assert shown(probe_of(machine, (*figures(1, pair=1.0, bus=1.0), lacks))) == snapshot


def test_tables_without_a_figure_are_left_out(shown):
    """After Ctrl-C."""
    probe = probe_of(box(2, "NVIDIA L4"), figures(2, pair=11e9, bus=9e9)[:3])
    text = shown(probe)
    assert "to each other" not in text
    assert "all-reduce" not in text


def test_cpu_devices_are_never_called_gpus(shown):
    machine = box(2, "x")
    probe = replace(
        probe_of(machine, figures(2, pair=8e9, bus=2e9)),
        device_kind="cpu_device",
        all_reduce="ring",
        devices=("CPU device",) * 2,
        uuids=(),
    )
    text = shown(probe)
    assert "all-reduce over 2 CPU devices by ring" in text
    assert "GPU" not in text.replace("not comparable with GPU results", "")
    assert "nccl" not in text.lower()
