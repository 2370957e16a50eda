"""GPUs are named by UUID, and an inherited mask is never widened."""

import pynvml
import pytest

from conf.schema import HardwareConfig
from store.records import DeviceKind, Gpu, Machine
from sweeper import machine
from sweeper.errors import SweepRefusedError
from sweeper.machine import describe_machine, take_inventory, visible_gpus

GPUS = tuple(
    Gpu(
        uuid=f"GPU-{letter}{letter}",
        name="P100",
        memory_bytes=16,
        pci_bus_id=f"0{n}",
        compute_capability="6.0",
        power_limit_w=250.0,
    )
    for n, letter in enumerate("abcd")
)
BOX = Machine(host="box", cpu="x", num_cores=8, memory_bytes=1, gpus=GPUS, driver="1")


@pytest.mark.parametrize(
    ("mask", "letters"),
    [
        (None, "abcd"),
        ("", ""),
        ("2,0", "ca"),
        ("GPU-bb,GPU-d", "bd"),
        ("1,9,2", "b"),
        ("-1", ""),
        ("NoDevFiles", ""),
        ("0,0", "a"),
    ],
)
def test_a_mask_is_read_as_cuda_reads_it(mask, letters):
    assert [gpu.uuid[-1] for gpu in visible_gpus(GPUS, mask)] == list(letters)


def test_a_trial_gets_the_uuids_of_the_first_usable_gpus():
    inventory = take_inventory(BOX, HardwareConfig(device_kind="auto"), {"CUDA_VISIBLE_DEVICES": "3,1,2"})
    assert (inventory.kind, inventory.num_devices) == (DeviceKind.GPU, 3)
    assert inventory.visible_devices(2) == "GPU-dd,GPU-bb"


def test_stand_ins_hide_all_gpus():
    inventory = take_inventory(BOX, HardwareConfig(device_kind="cpu_stand_in", num_stand_ins=4), {})
    assert (inventory.kind, inventory.num_devices, inventory.visible_devices(2)) == (DeviceKind.CPU_STAND_IN, 4, "")


def test_asking_for_gpus_where_the_mask_leaves_none_is_refused():
    with pytest.raises(
        SweepRefusedError, match=r"hardware=gpu: no usable GPU \(NVML finds 4, CUDA_VISIBLE_DEVICES leaves none\)"
    ):
        take_inventory(BOX, HardwareConfig(device_kind="gpu"), {"CUDA_VISIBLE_DEVICES": ""})


def test_another_driver_makes_another_machine():
    from dataclasses import replace

    assert replace(BOX, driver="2").key != BOX.key


def test_this_machine_describes_itself_the_same_way_twice():
    assert describe_machine(HardwareConfig(device_kind="auto")) == describe_machine(HardwareConfig(device_kind="auto"))


def test_a_mask_that_names_no_gpu_is_refused_and_not_taken_for_a_machine_without():
    with pytest.raises(SweepRefusedError, match="CUDA_VISIBLE_DEVICES=MIG-1: names no whole GPU that NVML finds"):
        take_inventory(BOX, HardwareConfig(device_kind="auto"), {"CUDA_VISIBLE_DEVICES": "MIG-1"})
    assert take_inventory(BOX, HardwareConfig(device_kind="auto"), {"CUDA_VISIBLE_DEVICES": "-1"}).kind == DeviceKind.CPU_STAND_IN


def test_a_broken_driver_is_refused_unless_only_stand_ins_are_wanted(monkeypatch):
    def fail():
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH)

    monkeypatch.setattr(machine, "nvml_gpus", fail)
    with pytest.raises(SweepRefusedError, match=r"NVML: .*version mismatch.*; mend the NVIDIA driver, or choose hardware=cpu"):
        describe_machine(HardwareConfig(device_kind="auto"))
    assert describe_machine(HardwareConfig(device_kind="cpu_stand_in")).gpus == ()
