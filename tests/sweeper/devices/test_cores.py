"""The kernel's files of cores and nodes are read as they are written, and missing ones tell nothing."""

import os

import pytest

from sweeper.devices.nvml import allowed_cores, near_cores, numa_node, read_list


@pytest.mark.parametrize(
    ("text", "cores"), [("", ()), ("0", (0,)), ("0-3,8,10-11\n", (0, 1, 2, 3, 8, 10, 11))]
)
def test_a_list_of_the_kernel_is_read(tmp_path, text, cores):
    (tmp_path / "list").write_text(text)
    assert read_list(tmp_path / "list") == cores


@pytest.mark.parametrize(("text", "node"), [("0\n", 0), ("1\n", 1), ("-1\n", None)])
def test_a_node_that_the_firmware_did_not_name_is_none(tmp_path, text, node):
    device = tmp_path / "bus/pci/devices/0000:af:00.0"
    device.mkdir(parents=True)
    (device / "numa_node").write_text(text)
    assert numa_node("00000000:AF:00.0", tmp_path) == node


def test_without_a_node_the_cores_of_the_device_are_near(tmp_path):
    device = tmp_path / "bus/pci/devices/0000:af:00.0"
    device.mkdir(parents=True)
    (device / "local_cpulist").write_text("2-3\n")
    assert near_cores("00000000:AF:00.0", None, tmp_path) == (2, 3)
    assert near_cores("00000000:01:00.0", 5, tmp_path) == ()


def test_threads_of_one_physical_core_stand_side_by_side(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3})
    for core, siblings in enumerate(("0,2", "1,3", "0,2", "1,3")):
        folder = tmp_path / f"devices/system/cpu/cpu{core}/topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(siblings)
    assert allowed_cores(tmp_path) == (0, 2, 1, 3)


def test_this_process_may_use_the_cores_the_kernel_says():
    assert set(allowed_cores()) == os.sched_getaffinity(0)
