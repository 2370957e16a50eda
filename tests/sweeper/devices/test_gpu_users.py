"""GPUs that other programs use are found by what NVML lists, or by memory that nobody listed holds."""

import os
import pwd
import shutil
import subprocess
import sys
from pathlib import Path

import pynvml
import pytest

from scalemark.host.processes import ORCHESTRATOR_VARIABLE
from scalemark.records.machine import DeviceKind
from sweeper.devices.machine import Inventory
from sweeper.devices.nvml import UNSEEN, GpuInUse, GpuUsers, said_in_use
from tests import specs
from tests.slurm import until
from tests.sweeper.fake_nvml import FakeDriver, FakeGpu

NO_PROCESS = 4194305  # more than Linux gives


def gpus(num: int) -> list[FakeGpu]:
    return [FakeGpu(f"GPU-{number}") for number in range(num)]


def inventory_of(*uuids: str, kind: DeviceKind = DeviceKind.GPU) -> Inventory:
    found = tuple(map(specs.gpu, uuids))
    return Inventory(kind=kind, gpus=found, num_devices=len(found))


def look(monkeypatch, boxed: list[FakeGpu], **driver):
    FakeDriver(boxed, **driver).install(monkeypatch)
    return GpuUsers(inventory_of(*(gpu.uuid for gpu in boxed)).gpu_uuids).look()


@pytest.fixture
def colleague():
    """The number of a process that scalemark did not start."""
    process = subprocess.Popen(["sleep", "60"])
    yield process.pid
    process.kill()
    process.wait()


def test_a_gpu_in_use_is_named_with_who_uses_it(monkeypatch, colleague):
    box = gpus(3)
    box[1].computing = {colleague: 30 * 1024 + 103}
    (found,) = look(monkeypatch, box)
    user = pwd.getpwuid(os.getuid()).pw_name
    assert found == GpuInUse(
        uuid="GPU-1",
        name="GPU 1",
        by=f"pid {colleague} sleep of {user}",
        used_bytes=(30 * 1024 + 103) * 2**20,
    )
    assert str(found) == f"GPU 1 (pid {colleague} sleep of {user})"


def test_of_many_processes_the_largest_are_named(monkeypatch):
    box = gpus(1)
    box[0].computing = {NO_PROCESS + number: 100 + number for number in range(5)}
    (found,) = look(monkeypatch, box)
    largest = ", ".join(f"pid {NO_PROCESS + number}" for number in (4, 3, 2))
    assert str(found) == f"GPU 0 ({largest}, and 2 more)"


def test_only_gpus_that_the_mask_leaves_are_looked_at(monkeypatch, colleague):
    box = gpus(4)
    for gpu in box:
        gpu.computing = {colleague: 1000}
    FakeDriver(box).install(monkeypatch)
    found = GpuUsers(inventory_of("GPU-3", "GPU-2").gpu_uuids).look()
    assert [gpu.name for gpu in found] == ["GPU 3", "GPU 2"], "by nvidia-smi's numbers"


def test_a_display_does_not_use_a_gpu(monkeypatch, colleague):
    box = gpus(3)
    box[0].drawing, box[0].unlisted_mib = {colleague: 700}, 300
    box[1].drawing, box[1].computing = {colleague: 90}, {colleague: 90}  # a desktop program
    box[2].has_display, box[2].unlisted_mib = True, 1500  # of Windows, as WSL sees it
    assert look(monkeypatch, box) == ()


def test_what_a_trial_started_is_none_of_the_others(monkeypatch):
    ours = subprocess.Popen(
        [sys.executable, "-c", "print(flush=True); input()"],
        env={ORCHESTRATOR_VARIABLE: "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    ours.stdout.readline()
    box = gpus(1)
    box[0].computing = {ours.pid: 9000}
    found = look(monkeypatch, box)
    ours.kill()
    ours.communicate()
    assert found == ()


@pytest.mark.parametrize(("mib", "is_in_use"), [(63, False), (64, True)])
def test_less_than_a_cuda_context_is_not_much(monkeypatch, mib, is_in_use):
    listed, unlisted = gpus(1), gpus(1)
    listed[0].computing, unlisted[0].unlisted_mib = {NO_PROCESS: mib}, mib
    assert bool(look(monkeypatch, listed)) is is_in_use
    assert bool(look(monkeypatch, unlisted)) is is_in_use


def test_another_containers_processes_are_known_by_their_memory(monkeypatch):
    box = gpus(2)
    box[0].unlisted_mib = 2048
    (found,) = look(monkeypatch, box)
    assert str(found) == f"GPU 0 ({UNSEEN})"
    assert said_in_use([found]) == f"GPU 0 ({UNSEEN}) is in use by others"
    assert said_in_use([found, found]).endswith(" are in use by others")


def test_memory_that_the_driver_reserves_is_nobodys(monkeypatch):
    assert look(monkeypatch, gpus(1), reserved_mib=912) == ()


def test_old_drivers_have_one_figure_of_memory(monkeypatch):
    box = gpus(2)
    box[1].unlisted_mib = 100
    (found,) = look(monkeypatch, box, is_old=True)
    assert found.name == "GPU 1"


@pytest.fixture
def mps_server(tmp_path):
    """The number of a process that the kernel knows as MPS' server."""
    program = tmp_path / "nvidia-cuda-mps-server"
    program.symlink_to(shutil.which("sleep"))
    process = subprocess.Popen([program, "60"])
    comm = Path(f"/proc/{process.pid}/comm")
    # the kernel lets Popen go on a moment before it gives the process its name
    until(lambda: program.name.startswith(comm.read_text().strip()))
    yield process.pid
    process.kill()
    process.wait()


def test_the_server_of_mps_uses_no_gpu_and_its_clients_do(monkeypatch, mps_server, colleague):
    """A bug: in exclusive mode, which NVIDIA recommends for MPS, sweeps waited for ever."""
    box = gpus(3)
    for gpu in box:
        gpu.compute_mode = pynvml.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS
        gpu.computing = {mps_server: 90}
    box[1].mps_clients = {colleague: 900}
    box[2].mps_clients = {colleague: 9}  # CUDA lets others in beside it
    (found,) = look(monkeypatch, box)
    assert (found.name, found.used_bytes) == ("GPU 1", 900 * 2**20)


def test_clients_of_mps_that_the_driver_hides_count_by_the_memory_in_use(monkeypatch, mps_server):
    """A bug: a GPU full of MPS' clients was taken for free, as only the server was listed."""
    box = gpus(2)
    for gpu, mib in zip(box, (9, 900), strict=True):
        gpu.computing, gpu.mps_clients, gpu.unlisted_mib = {mps_server: 90}, None, mib
    (found,) = look(monkeypatch, box)
    assert (found.name, found.by, found.used_bytes) == ("GPU 1", UNSEEN, 900 * 2**20)


def test_processes_of_unknown_size_count_by_the_memory_in_use(monkeypatch):
    box = gpus(2)
    for gpu, mib in zip(box, (0, 500), strict=True):
        gpu.computing, gpu.unlisted_mib = {NO_PROCESS: None}, mib
    (found,) = look(monkeypatch, box)
    assert (found.name, found.used_bytes) == ("GPU 1", 500 * 2**20)


def test_a_driver_that_tells_of_processes_alone_is_believed(monkeypatch):
    box = gpus(2)
    box[0].computing = {NO_PROCESS: None}
    for gpu in box:
        gpu.unlisted_mib = None
    (found,) = look(monkeypatch, box)
    assert str(found) == f"GPU 0 (pid {NO_PROCESS})"


def test_a_driver_that_tells_nothing_leaves_all_gpus_free(monkeypatch):
    box = gpus(1)
    box[0].computing = box[0].drawing = box[0].unlisted_mib = box[0].has_display = None
    assert look(monkeypatch, box) == ()


def test_a_mig_device_is_looked_at_by_itself(monkeypatch):
    devices = [FakeGpu("MIG-a"), FakeGpu("MIG-b", computing={NO_PROCESS: 400})]
    FakeDriver([FakeGpu("GPU-0", mig_devices=devices)]).install(monkeypatch)
    (found,) = GpuUsers(inventory_of("MIG-a", "MIG-b").gpu_uuids).look()
    assert str(found) == f"MIG-b (pid {NO_PROCESS})"


def test_without_a_driver_or_gpus_nothing_is_in_use(monkeypatch):
    assert GpuUsers(inventory_of("GPU-0").gpu_uuids).look() == ()
    box = gpus(1)
    box[0].computing = {NO_PROCESS: 400}
    driver = FakeDriver(box)
    driver.install(monkeypatch)
    users = GpuUsers(inventory_of("GPU-0", kind=DeviceKind.SIMULATED_GPU).gpu_uuids)
    assert (users.look(), driver.is_open) == ((), 0)
