"""`install.py` makes an environment, adds to it, and leaves alone what is there."""

import hashlib
import runpy
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Set
from pathlib import Path

import pytest

from tests.conftest import PROJECT
from tests.ran import ran

pytestmark = pytest.mark.integration  # it makes environments

BACKEND = """
import zipfile

def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    name = "product-1-py3-none-any.whl"
    with zipfile.ZipFile(f"{wheel_directory}/{name}", "w") as wheel:
        wheel.writestr("product-1.dist-info/METADATA", "Metadata-Version: 2.1\\nName: product\\nVersion: 1\\n")
        wheel.writestr("product-1.dist-info/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr("product-1.dist-info/RECORD", "")
    return name
"""


def write_package(folder: Path, name: str) -> str:
    """Write a wheel of one module, and return its line for a constraints file."""
    path = folder / f"{name}-1-py3-none-any.whl"
    reported = {
        f"{name}.py": "",
        f"{name}-1.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n",
        f"{name}-1.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{name}-1.dist-info/RECORD": "",
    }
    with zipfile.ZipFile(path, "w") as wheel:
        for file, text in reported.items():
            wheel.writestr(file, text)
    return f"./{path.name} --hash=sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with this installer, whose packages are files beside it."""
    folder = tmp_path / "project"
    folder.mkdir()
    shutil.copy(PROJECT / "install.py", folder)
    (folder / "backend.py").write_text(BACKEND)
    (folder / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    )
    for name, package in [("", "running"), ("-dev", "testing"), ("-cuda", "cuda")]:
        (folder / f"constraints{name}.txt").write_text(write_package(folder, package))
    return folder


def install(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return ran([sys.executable, "install.py", *arguments], cwd=project)


def installed(project: Path, among: Set[str] = frozenset({"running", "testing"})) -> set[str]:
    packages = next((project / ".venv" / "lib").glob("python*")) / "site-packages"
    return {path.stem for path in packages.glob("*.py")} & among


@pytest.mark.parametrize(
    "file", ["proc/driver/nvidia/version", "usr/lib/wsl/lib/libcuda.so.1"], ids=["linux", "wsl2"]
)
def test_a_driver_is_found_on_linux_and_in_wsl2(tmp_path, file):
    """A bug: WSL2 has no /proc/driver/nvidia, and got TensorFlow without CUDA."""
    has_driver = runpy.run_path(str(PROJECT / "install.py"))["has_driver"]
    assert not has_driver(tmp_path)
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).touch()
    assert has_driver(tmp_path)


def test_dev_adds_to_what_runs_and_stays(project):
    assert install(project).returncode == 0
    assert installed(project) == {"running"}
    kept = project / ".venv" / "kept"
    kept.touch()

    assert install(project, "--dev").returncode == 0
    assert installed(project) == {"running", "testing"}
    for arguments in ([], ["--dev"]):
        again = install(project, *arguments)
        assert (again.returncode, again.stderr) == (0, "")
    assert kept.exists()  # nothing was made anew

    with (project / "constraints.txt").open("a") as pins:
        pins.write("# other pins\n")
    assert install(project).returncode == 0
    assert installed(project) == {"running", "testing"}
    assert not kept.exists()


def test_an_environment_of_somebody_else_is_left_alone(project):
    theirs = project / ".venv" / "theirs"
    theirs.parent.mkdir()
    theirs.touch()
    ended = install(project, "--dev")
    assert ended.returncode == 2
    assert "was not made by this installer; move it away and run this again" in ended.stderr
    assert theirs.exists()


def test_cuda_comes_along_and_an_installation_that_failed_is_done_again(project):
    pins = project / "constraints-cuda.txt"
    right = pins.read_text()
    pins.write_text(right.replace("sha256:", "sha256:0"))
    failed = install(project, "--cuda")
    assert failed.returncode == 1
    assert "failed (above); mend that and run this again" in failed.stderr
    pins.write_text(right)
    assert install(project, "--cuda").returncode == 0
    assert installed(project, {"running", "testing", "cuda"}) == {"running", "cuda"}
    again = install(project, "--cuda")
    assert (again.returncode, again.stderr) == (0, "")


def test_a_link_to_the_environment_of_another_checkout_is_left_alone(project, tmp_path):
    """A bug: the digest holds the checkout's path, so the other environment was emptied."""
    other = tmp_path / "other"
    other.mkdir()
    (other / "installed.txt").write_text("the digest of another checkout\n")
    (project / ".venv").symlink_to(other)
    ended = install(project)
    assert ended.returncode == 2
    assert f"is a link to {other}; remove the link and run this again" in ended.stderr
    assert (other / "installed.txt").exists()
