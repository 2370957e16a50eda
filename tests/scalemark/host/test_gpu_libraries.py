"""GPUs and drivers without kernels are found before a sweep, and named with a remedy; processes of trials are told from others."""

import re
from pathlib import Path
from types import SimpleNamespace

import psutil
import pynvml
import pytest

from scalemark.host import gpu_libraries
from scalemark.host.gpu_libraries import Libraries, installed, problem, started_by_scalemark
from scalemark.records.machine import Gpu
from tests.conftest import PROJECT


def gpu(name: str, compute_capability: str) -> Gpu:
    return Gpu(
        uuid="GPU-a",
        name=name,
        memory_bytes=None,
        pci_bus_id="",
        compute_capability=compute_capability,
        power_limit_w=None,
    )


P100, V100, T4 = gpu("P100", "6.0"), gpu("V100", "7.0"), gpu("T4", "7.5")
A100, L4 = gpu("A100", "8.0"), gpu("L4", "8.9")
H100, B200 = gpu("H100", "9.0"), gpu("B200", "10.0")
TODAY = Libraries(cuda=(13, 0), cudnn=(9, 10))


@pytest.mark.parametrize("one", [P100, V100, T4, A100, L4, H100, B200])
def test_what_is_installed_has_kernels_for_every_gpu_from_pascal_on(one):
    assert problem([one], TODAY) is None


@pytest.mark.parametrize(
    ("one", "libraries"),
    [
        (gpu("Tesla K80", "3.7"), TODAY),
        (P100, Libraries(cuda=(13, 0), cudnn=(9, 28))),
        (V100, Libraries(cuda=(12, 2), cudnn=(9, 11))),
        (H100, Libraries(cuda=(12, 4), cudnn=(9, 10))),
        (B200, Libraries(cuda=(12, 4))),
        (A100, Libraries(cuda=(11, 8))),
    ],
    ids=lambda value: value.name if isinstance(value, Gpu) else "",
)
def test_a_gpu_without_kernels_is_named_with_a_remedy(one, libraries, snapshot):
    assert problem([A100, one] if one is not A100 else [one], libraries) == snapshot


@pytest.mark.parametrize(
    ("one", "libraries"),
    [
        (T4, Libraries(cuda=(12, 0), cudnn=(9, 28))),
        (L4, Libraries(cuda=(12, 4), cudnn=(9, 28))),
        (P100, Libraries()),
    ],
)
def test_what_has_kernels_or_is_not_known_is_no_problem(one, libraries):
    assert problem([one], libraries) is None


def test_the_pinned_cudnn_has_kernels_for_every_gpu_that_tensorflow_has_them_for():
    """A bug: 9.28 was pinned, and P100 and V100 could not normalize."""
    pinned = re.search(
        r"^nvidia-cudnn-cu12==(\d+)\.(\d+)",
        (PROJECT / "constraints-cuda.txt").read_text(),
        re.MULTILINE,
    )
    libraries = Libraries(cuda=(12, 5), cudnn=(int(pinned[1]), int(pinned[2])))
    assert problem([P100, V100, T4, A100, L4, H100, B200], libraries) is None


def test_driver_and_packages_are_asked(monkeypatch):
    monkeypatch.setattr(pynvml, "nvmlInit", lambda: None)
    monkeypatch.setattr(pynvml, "nvmlShutdown", lambda: None)
    monkeypatch.setattr(pynvml, "nvmlSystemGetCudaDriverVersion_v2", lambda: 12050)
    monkeypatch.setattr(gpu_libraries.metadata, "version", lambda _: "9.28.0.42")
    assert installed() == Libraries(cuda=(12, 5), cudnn=(9, 28))


def test_without_a_driver_nothing_is_known(monkeypatch):
    def refuse():
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlInit", refuse)
    monkeypatch.setattr(
        gpu_libraries,
        "metadata",
        SimpleNamespace(
            version=refuse_package, PackageNotFoundError=gpu_libraries.metadata.PackageNotFoundError
        ),
    )
    assert installed() == Libraries()


def refuse_package(_):
    raise gpu_libraries.metadata.PackageNotFoundError


PROCESSES = {
    7: (1, ["PATH=/bin", "SCALEMARK_ORCHESTRATOR=5"]),
    8: (7, ["PATH=/bin"]),
    9: (8, None),  # of another user
    20: (1, ["SCALEMARK_CACHE=x", "OTHER_SCALEMARK_ORCHESTRATOR=5"]),
    21: (20, None),
    22: (99, []),  # whose parent has ended
}


@pytest.fixture
def proc(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(tmp_path))
    (tmp_path / "stat").write_text("btime 1\n")
    for pid, (parent, variables) in PROCESSES.items():
        folder = tmp_path / str(pid)
        folder.mkdir()
        (folder / "stat").write_text(f"{pid} (a (b) c) S {parent}{' 0' * 50}")
        if variables is not None:
            (folder / "environ").write_bytes(b"".join(f"{one}\0".encode() for one in variables))


@pytest.mark.parametrize(
    ("pid", "is_ours"),
    [(7, True), (8, True), (9, True), (20, False), (21, False), (22, False), (99, None)],
)
@pytest.mark.usefixtures("proc")
def test_descent_and_environment_tell_what_is_ours(pid, is_ours):
    assert started_by_scalemark(pid) is is_ours
