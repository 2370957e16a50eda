"""NVML's answers become records; what it refuses is left out."""

import inspect
from pathlib import Path

import pynvml
import pytest

from scalemark.records.machine import GpuLink
from sweeper.devices.nvml import NOTHING, find_gpus
from tests.sweeper.fake_nvml import FakeDriver, FakeGpu

A, B, C = "00000000:04:00.0", "00000000:05:00.0", "00000000:84:00.0"


NO_SUCH_FOLDER = Path(
    "/nowhere"
)  # a kernel that knows no GPU: the box of the test is not the one it runs on


def find(monkeypatch, *gpus, sys=NO_SUCH_FOLDER, **reported):
    driver = FakeDriver(list(gpus), **reported)
    driver.install(monkeypatch)
    found = find_gpus(sys)
    assert driver.is_open == 0
    return found


def kernel_knows(sys, pci_bus_id, node, cores):
    """Write what the kernel says of one GPU."""
    device = sys / "bus/pci/devices" / pci_bus_id[4:]
    device.mkdir(parents=True)
    (device / "numa_node").write_text(f"{node}\n")
    folder = sys / f"devices/system/node/node{node}"
    folder.mkdir(parents=True)
    (folder / "cpulist").write_text(f"{cores}\n")


def test_gpus_are_in_pci_order_with_node_cores_and_power(monkeypatch, tmp_path):
    kernel_knows(tmp_path, A, 0, "0-1")
    kernel_knows(tmp_path, C, 1, "4-6,129")
    found = find(
        monkeypatch,
        FakeGpu("GPU-c", pci_bus_id=C, power_limit_mw=250_500),
        FakeGpu("GPU-a", pci_bus_id=A),
        sys=tmp_path,
    )
    assert [(gpu.uuid, gpu.numa_node, gpu.cores, gpu.power_limit_w) for gpu in found.gpus] == [
        ("GPU-a", 0, (0, 1), None),
        ("GPU-c", 1, (4, 5, 6, 129), 250.5),
    ]
    assert (found.gpus[0].memory_bytes, found.gpus[0].compute_capability, found.driver) == (
        16 * 2**30,
        "6.0",
        "580.1",
    )


def test_a_driver_that_refuses_everything_optional_leaves_it_out(monkeypatch):
    found = find(
        monkeypatch,
        FakeGpu("GPU-a", pci_bus_id=A, memory_bytes=None),
        FakeGpu("GPU-b", pci_bus_id=B),
    )
    (gpu, _) = found.gpus
    assert (gpu.memory_bytes, gpu.numa_node, gpu.cores, gpu.power_limit_w, gpu.mig_mode) == (
        None,
        None,
        (),
        None,
        False,
    )
    assert found.links == (GpuLink(between=("GPU-a", "GPU-b"), num_nvlinks=0, pcie=None),)


def test_direct_nvlinks_are_counted_per_pair_and_dead_ones_not(monkeypatch):
    found = find(
        monkeypatch,
        FakeGpu("GPU-a", pci_bus_id=A, nvlinks=[B, "", B, C]),
        FakeGpu("GPU-b", pci_bus_id=B, nvlinks=[A, A]),
        FakeGpu("GPU-c", pci_bus_id=C, nvlinks=[A.upper()]),
        levels={
            frozenset({"GPU-a", "GPU-b"}): pynvml.NVML_TOPOLOGY_SINGLE,
            frozenset({"GPU-a", "GPU-c"}): pynvml.NVML_TOPOLOGY_SYSTEM,
            frozenset({"GPU-b", "GPU-c"}): 4711,
        },
    )
    assert found.links == (
        GpuLink(between=("GPU-a", "GPU-b"), num_nvlinks=2, pcie="single_switch"),
        GpuLink(between=("GPU-a", "GPU-c"), num_nvlinks=1, pcie="system"),
        GpuLink(
            between=("GPU-b", "GPU-c"), num_nvlinks=0, pcie=None
        ),  # a level that is not known yet
    )


def test_gpus_on_nvswitches_have_the_links_of_the_end_with_fewer(monkeypatch):
    gpus = (
        FakeGpu("GPU-a", pci_bus_id=A, nvlinks=["switch"] * 18),
        FakeGpu("GPU-b", pci_bus_id=B, nvlinks=["switch"] * 12),
    )
    assert find(monkeypatch, *gpus).links[0].num_nvlinks == 12


def test_a_driver_without_types_of_remote_devices_still_tells_direct_links(monkeypatch):
    gpus = FakeGpu("GPU-a", pci_bus_id=A, nvlinks=[B]), FakeGpu("GPU-b", pci_bus_id=B, nvlinks=[A])
    assert find(monkeypatch, *gpus, has_remote_types=False).links[0].num_nvlinks == 1


def test_a_gpu_in_mig_mode_has_its_devices_and_indices_may_have_gaps(monkeypatch, tmp_path):
    kernel_knows(tmp_path, A, 1, "0-1")
    small = FakeGpu("MIG-1", name="NVIDIA A100 MIG 1g.5gb", memory_bytes=5 * 2**30)
    large = FakeGpu("MIG-2", name="NVIDIA A100 MIG 2g.10gb", memory_bytes=10 * 2**30)
    (gpu,) = find(
        monkeypatch,
        FakeGpu("GPU-a", pci_bus_id=A, power_limit_mw=1, mig_devices=[small, None, large]),
        sys=tmp_path,
    ).gpus
    assert gpu.mig_mode
    assert [(device.uuid, device.name, device.memory_bytes) for device in gpu.mig_devices] == [
        ("MIG-1", "NVIDIA A100 MIG 1g.5gb", 5 * 2**30),
        ("MIG-2", "NVIDIA A100 MIG 2g.10gb", 10 * 2**30),
    ]
    assert {
        (device.mig_parent, device.numa_node, device.mig_mode, device.power_limit_w)
        for device in gpu.mig_devices
    } == {("GPU-a", 1, False, None)}


@pytest.mark.parametrize(
    "error", [pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, pynvml.NVML_ERROR_DRIVER_NOT_LOADED]
)
def test_without_a_driver_there_are_no_gpus(monkeypatch, error):
    def fail():
        raise pynvml.NVMLError(error)

    monkeypatch.setattr(pynvml, "nvmlInit", fail)
    assert find_gpus() == NOTHING


def demanded(function) -> list[inspect.Parameter]:
    """The parameters that have no default."""
    return [
        parameter
        for parameter in inspect.signature(function).parameters.values()
        if parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD
    ]


def test_the_fake_driver_takes_what_pynvml_takes():
    real = {name: getattr(pynvml, name) for name in dir(FakeDriver) if name.startswith("nvml")}
    for name, function in real.items():
        fake = demanded(getattr(FakeDriver([]), name))
        assert len(fake) == len(demanded(function)) or name == "nvmlInit", name


@pytest.fixture
def no_library(monkeypatch):
    def missing():
        raise pynvml.NVMLError_LibraryNotFound

    monkeypatch.setattr(pynvml, "nvmlInit", missing)


@pytest.mark.parametrize("file", ["dev/nvidiactl", "usr/lib/wsl/lib/libcuda.so.1"])
def test_a_driver_without_its_nvml_is_no_machine_without_gpus(no_library, tmp_path, file):
    """A bug: a container without libnvidia-ml.so.1 silently trained on its CPU."""
    assert find_gpus(root=tmp_path) is NOTHING
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).touch()
    with pytest.raises(pynvml.NVMLError_LibraryNotFound):
        find_gpus(root=tmp_path)


def test_a_gpu_of_another_maker_under_wsl_is_none(no_library, tmp_path):
    """A bug: machines with an AMD or Intel GPU were refused for want of an NVIDIA driver."""
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev" / "dxg").touch()
    assert find_gpus(root=tmp_path) is NOTHING


LOST = FakeGpu("GPU-b", pci_bus_id=B, error=pynvml.NVML_ERROR_GPU_IS_LOST)
FORBIDDEN = FakeGpu("GPU-c", pci_bus_id=C, error=pynvml.NVML_ERROR_NO_PERMISSION)


def test_a_gpu_that_does_not_answer_leaves_the_others(monkeypatch):
    """A bug: one GPU that had fallen off the bus refused the whole box."""
    found = find(monkeypatch, FakeGpu("GPU-a", pci_bus_id=A), LOST, FORBIDDEN)
    assert [gpu.uuid for gpu in found.gpus] == ["GPU-a"]
    assert (found.links, found.left_out) == (
        (),
        ("GPU 1 (GPU is lost)", "GPU 2 (Insufficient Permissions)"),
    )


def test_a_gpu_in_compute_mode_prohibited_is_left_out_with_what_to_do(monkeypatch):
    """CUDA lists it, and refuses every process on it."""
    prohibited = FakeGpu("GPU-b", pci_bus_id=B, compute_mode=pynvml.NVML_COMPUTEMODE_PROHIBITED)
    found = find(monkeypatch, FakeGpu("GPU-a", pci_bus_id=A), prohibited)
    assert [gpu.uuid for gpu in found.gpus] == ["GPU-a"]
    assert found.left_out == (
        "GPU 1 (in compute mode Prohibited; nvidia-smi -c 0 allows processes again)",
    )
    with pytest.raises(pynvml.NVMLError, match="compute mode Prohibited"):
        find(monkeypatch, prohibited)


def test_where_no_gpu_answers_the_first_error_is_told(monkeypatch):
    with pytest.raises(pynvml.NVMLError, match="GPU is lost"):
        find(monkeypatch, LOST, FORBIDDEN)
