"""The wheel works in an environment of its own, without TensorFlow, beside files that have our names."""

import re
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path
from shutil import copy, copytree, ignore_patterns

import pytest

from tests.conftest import PROJECT

pytestmark = pytest.mark.integration

ROOMS = (
    "analysis",
    "conf",
    "hydra_plugins",
    "plots",
    "scalemark",
    "simulator",
    "store",
)
ROOMS_OF_SWEEPS = ("sweeper", "trainer")
FILES = ("LICENSE", "README.md", "pyproject.toml", "sweep.py")
HIDDEN = ("tensorflow", "keras", "scalemark", "__editable__")
LIKE_OURS = ("store", "plots", "conf", "sweep", "sweeper", "trainer", "simulator")
HOSTILE = (*LIKE_OURS, "numpy", "yaml")
GRID = ("engine=simulated", "hardware=p100_pcie_8", "model=trivial,vgg16", "num_gpus=1,2")

Run = Callable[..., subprocess.CompletedProcess[str]]


def build_wheel(folder: Path) -> Path:
    """Build it of a copy: what an earlier build left in the project would be packed, too."""
    source = folder / "source"
    for room in (*ROOMS, *ROOMS_OF_SWEEPS):
        copytree(PROJECT / room, source / room, ignore=ignore_patterns("__pycache__"))
    for name in FILES:
        copy(PROJECT / name, source)
    pip = (sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--no-index")
    subprocess.run([*pip, "--wheel-dir", folder, source], check=True, capture_output=True)
    return next(folder.glob("scalemark-*.whl"))


def make_environment(folder: Path, wheel: Path) -> Path:
    """Install the wheel beside links to the libraries of this environment, and return its programs."""
    venv.create(folder, with_pip=False, symlinks=True)
    packages = next((folder / "lib").glob("python*")) / "site-packages"
    libraries = folder / "libraries"
    libraries.mkdir()
    ours = Path(pytest.__file__).parents[1]
    for path in ours.iterdir():
        if not path.name.startswith(HIDDEN) and path.suffix != ".pth":
            (libraries / path.name).symlink_to(path)
    (packages / "libraries.pth").write_text(f"{libraries}\n")
    # packages of the environment may have names of the standard library, which comes first
    (packages / "statistics.py").write_text("raise SystemExit('imported statistics of a package')")
    python = str(folder / "bin" / "python")
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index")
    subprocess.run([*pip, wheel], check=True, capture_output=True)
    return folder / "bin"


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    return make_environment(folder / "environment", build_wheel(folder))


@pytest.fixture
def scalemark(programs: Path) -> Run:
    for name in HOSTILE:
        Path(f"{name}.py").write_text(f"raise SystemExit('imported {name}.py of the user')")

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(programs / "scalemark"), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    return run


def test_a_wheel_simulates_reads_and_advises(scalemark: Run, programs: Path):
    packages = next((programs.parent / "lib").glob("python*")) / "site-packages"
    before = {path for path in packages.rglob("*") if "__pycache__" not in path.parts}

    assert scalemark("--version").stdout == "scalemark 0.1.0\n"
    swept = scalemark("sweep", "-m", *GRID, "strategy=ps_cpu,replicated_nccl")
    assert swept.returncode == 0, swept.stderr
    assert "8 completed" in swept.stderr
    tables = scalemark("table", "--origin", "simulated")
    assert "replicated_nccl" in tables.stdout, tables.stderr
    advice = scalemark("advise", "--origin", "simulated", "model=vgg16")
    assert "replicated_nccl" in advice.stdout, advice.stderr
    suggested = re.sub(r"[\s\\]+", " ", advice.stdout)  # a long line is folded
    assert f" {programs}/scalemark sweep from=" in suggested
    published = scalemark("table", "--origin", "published", "model=resnet50", "num_gpus=8")
    assert "resnet50" in published.stdout, published.stderr

    assert {"results.db", "runs", "figures"} < {path.name for path in Path().iterdir()}
    assert {path for path in packages.rglob("*") if "__pycache__" not in path.parts} == before


@pytest.mark.parametrize("dry_run", ["true", "false"])
def test_a_trial_without_tensorflow_is_refused_before_it_starts(scalemark: Run, dry_run: str):
    refused = scalemark("sweep", "model=trivial", f"sweep.dry_run={dry_run}")
    assert refused.returncode == 2
    (said,) = refused.stderr.splitlines()
    assert said.startswith("sweep: engine=tensorflow: TensorFlow is not installed; ")
    assert said.endswith(" adds it, or choose engine=simulated")
    assert "install 'scalemark[" in said
    assert not Path("results.db").exists()
    assert not Path("runs").exists()


def test_a_selfcheck_without_tensorflow_says_how_it_is_added(scalemark: Run):
    refused = scalemark("selfcheck", "--devices", "cpu_device")
    assert refused.returncode == 2
    assert "TensorFlow is not installed; " in refused.stderr


def test_a_wheel_sweeps_and_reads_from_python(programs: Path):
    for name in LIKE_OURS:
        Path(f"{name}.py").write_text(f"raise SystemExit('imported {name}.py of the user')")
    grid = ("engine=simulated", "hardware=p100_pcie_8", "model=trivial", "num_gpus=1,2")
    script = f"import scalemark; print(scalemark.sweep(*{grid}).trials()['num_gpus'].tolist())"
    command = [str(programs / "python"), "-c", script]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.stdout == "[1, 2]\n", ran.stderr
