"""GPUs are named by UUID, and an inherited mask is never widened."""

import json
from dataclasses import replace

import pynvml
import pytest

from conf.schema import HardwareConfig
from scalemark.records.machine import DeviceKind, Gpu, GpuLink, Machine
from sweeper import SweepRefusedError
from sweeper.devices import machine
from sweeper.devices.machine import describe_machine, take_inventory
from sweeper.devices.nvml import NOTHING
from tests.specs import gpu

GPUS = tuple(
    gpu(f"GPU-{letter}{letter}", memory_bytes=16, pci_bus_id=f"0{n}", power_limit_w=250.0)
    for n, letter in enumerate("abcd")
)
LINKS = (
    GpuLink(between=("GPU-aa", "GPU-bb"), num_nvlinks=2, pcie="single_switch"),
    GpuLink(between=("GPU-aa", "GPU-cc"), pcie="system"),
)
AUTO = HardwareConfig(device_kind="auto")
BOX = Machine(host="box", cpu="x", num_cores=8, memory_bytes=1, gpus=GPUS, driver="1")


def test_a_trial_gets_the_uuids_of_the_first_usable_gpus():
    inventory = take_inventory(
        BOX, HardwareConfig(device_kind="auto"), {"CUDA_VISIBLE_DEVICES": "3,1,2"}
    )
    assert (inventory.kind, inventory.num_devices) == (DeviceKind.GPU, 3)
    assert inventory.uuids((0, 1)) == ("GPU-dd", "GPU-bb")


def test_sweeps_with_other_masks_know_the_same_gpus_of_the_machine():
    box = replace(BOX, gpus=(mig_gpu("1", "2"), *GPUS[1:]))
    reported = [
        take_inventory(box, AUTO, {"CUDA_VISIBLE_DEVICES": mask}).machine_gpus
        for mask in ("1,2", "3", "MIG-2")
    ]
    assert reported[0] == reported[1] == reported[2]
    assert [gpu.uuid for gpu in reported[0]] == ["MIG-1", "MIG-2", "GPU-bb", "GPU-cc", "GPU-dd"]


def test_cpu_devices_are_known_by_their_numbers_where_there_are_gpus_too():
    inventory = take_inventory(BOX, HardwareConfig(device_kind="cpu_device", num_cpu_devices=4), {})
    assert (inventory.kind, inventory.num_devices, inventory.gpus) == (
        DeviceKind.CPU_DEVICE,
        4,
        (),
    )
    assert inventory.uuids((0, 3)) == ("cpu-device-0", "cpu-device-3")


def test_more_cpu_devices_than_any_trial_needs_are_refused():
    most = HardwareConfig(device_kind="cpu_device", num_cpu_devices=1024)
    assert take_inventory(BOX, most, {}).num_devices == 1024
    with pytest.raises(
        SweepRefusedError,
        match=r"hardware\.num_cpu_devices=100000: wanted 1,024 or fewer; ",
    ):
        take_inventory(BOX, replace(most, num_cpu_devices=100_000), {})


def test_asking_for_gpus_where_the_mask_leaves_none_is_refused():
    with pytest.raises(
        SweepRefusedError,
        match=r"hardware=gpu: no usable GPU \(NVML finds 4, and CUDA_VISIBLE_DEVICES= names none",
    ):
        take_inventory(BOX, HardwareConfig(device_kind="gpu"), {"CUDA_VISIBLE_DEVICES": ""})


def test_another_driver_makes_another_machine():
    assert replace(BOX, driver="2").key != BOX.key


def test_links_and_near_cores_make_no_other_machine():
    """This key is that of the version whose GPUs had neither."""
    wired = tuple(replace(gpu, numa_node=1, cores=(0, 1)) for gpu in GPUS)
    assert replace(BOX, gpus=wired, links=LINKS).key == BOX.key == "0f23c95cf9d5ffa9"
    assert json.loads(replace(BOX, links=LINKS).to_json())["links"][0] == {
        "between": ["GPU-aa", "GPU-bb"],
        "num_nvlinks": 2,
        "pcie": "single_switch",
    }


def test_another_cut_into_mig_devices_is_another_machine():
    cut = [replace(BOX, gpus=(mig_gpu(*names),)).key for names in ((), ("1",), ("1", "2"))]
    assert len({replace(BOX, gpus=GPUS[:1]).key, *cut}) == 4


def mig_gpu(*names: str) -> Gpu:
    whole = GPUS[0]
    return replace(
        whole,
        mig_mode=True,
        mig_devices=tuple(
            replace(whole, uuid=f"MIG-{name}", mig_parent=whole.uuid) for name in names
        ),
    )


def test_a_trial_on_mig_devices_never_has_more_than_one():
    inventory = take_inventory(replace(BOX, gpus=(mig_gpu("1", "2"),)), AUTO, {})
    assert (inventory.num_devices, inventory.is_mig, inventory.most_gpus_per_trial) == (2, True, 1)
    whole = take_inventory(BOX, AUTO, {})
    assert (whole.num_devices, whole.is_mig, whole.most_gpus_per_trial) == (4, False, 4)


def test_slices_are_used_only_without_whole_gpus():
    assert take_inventory(replace(BOX, gpus=(mig_gpu("1"), *GPUS[1:])), AUTO, {}).uuids(
        (0, 1, 2)
    ) == (
        "GPU-bb",
        "GPU-cc",
        "GPU-dd",
    )


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({}, "left out: GPU-aa, in MIG mode beside whole GPUs\n"),
        ({"CUDA_VISIBLE_DEVICES": "1"}, ""),
    ],
)
def test_gpus_in_mig_mode_beside_whole_ones_are_named(variables, said, capsys):
    """A bug: where half of a box was in MIG mode, a plan had fewer GPUs and did not say why."""
    take_inventory(replace(BOX, gpus=(mig_gpu("1"), *GPUS[1:])), AUTO, variables)
    assert capsys.readouterr().err == said


def test_gpus_in_mig_mode_without_slices_are_refused():
    box = replace(BOX, gpus=(mig_gpu(),))
    for kind in ("auto", "gpu"):
        with pytest.raises(
            SweepRefusedError,
            match=r"no usable GPU \(all are in MIG mode and have no MIG devices; make some",
        ):
            take_inventory(box, HardwareConfig(device_kind=kind), {})
    assert (
        take_inventory(box, HardwareConfig(device_kind="cpu_device"), {}).kind
        == DeviceKind.CPU_DEVICE
    )


def test_this_machine_describes_itself_the_same_way_twice():
    assert describe_machine(HardwareConfig(device_kind="auto")) == describe_machine(
        HardwareConfig(device_kind="auto")
    )


def test_gpus_that_do_not_answer_are_named(monkeypatch, capsys, snapshot):
    lost = replace(NOTHING, gpus=GPUS[:1], left_out=("GPU 1 (GPU is lost)",))
    monkeypatch.setattr(machine, "find_gpus", lambda: lost)
    assert describe_machine(AUTO).gpus == GPUS[:1]
    assert capsys.readouterr().err == snapshot


def test_a_mask_that_names_no_gpu_is_refused():
    with pytest.raises(
        SweepRefusedError, match="NVML finds 4, and CUDA_VISIBLE_DEVICES=MIG-1 names none"
    ):
        take_inventory(BOX, HardwareConfig(device_kind="auto"), {"CUDA_VISIBLE_DEVICES": "MIG-1"})
    assert (
        take_inventory(BOX, HardwareConfig(device_kind="auto"), {"CUDA_VISIBLE_DEVICES": "-1"}).kind
        == DeviceKind.CPU_DEVICE
    )


def test_a_broken_driver_is_refused_unless_only_cpu_devices_are_wanted(monkeypatch):
    def fail():
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH)

    monkeypatch.setattr(machine, "find_gpus", fail)
    with pytest.raises(
        SweepRefusedError,
        match=r"NVML: .*version mismatch.*; mend the NVIDIA driver, or choose hardware=cpu",
    ):
        describe_machine(HardwareConfig(device_kind="auto"))
    assert describe_machine(HardwareConfig(device_kind="cpu_device")).gpus == ()


def test_a_missing_library_of_the_driver_is_named_with_what_containers_need(monkeypatch):
    def missing():
        raise pynvml.NVMLError_LibraryNotFound

    monkeypatch.setattr(machine, "find_gpus", missing)
    with pytest.raises(SweepRefusedError, match="NVIDIA_DRIVER_CAPABILITIES=compute,utility, or"):
        describe_machine(HardwareConfig(device_kind="auto"))
    assert describe_machine(HardwareConfig(device_kind="cpu_device")).gpus == ()


def test_containers_of_one_box_are_one_machine(monkeypatch):
    def name(host: str, gpus: tuple[Gpu, ...]) -> str:
        monkeypatch.setattr(machine.platform, "node", lambda: host)
        monkeypatch.setattr(machine, "find_gpus", lambda: replace(NOTHING, gpus=gpus))
        return describe_machine(AUTO).host

    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    by_gpu, by_boot = name("0123456789ab", GPUS[:1]), name("0123456789ab", ())
    assert name("ba9876543210", GPUS[:1]) == by_gpu != name("ba9876543210", GPUS[1:])
    assert name("ba9876543210", ()) == by_boot != by_gpu
    assert name("chosen", GPUS[:1]) == "chosen"
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    assert name("train-0", GPUS[:1]) == by_gpu
