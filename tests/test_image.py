"""The container image is made of what is here, and of nothing else; there is no Docker in tests, so its steps are checked one by one."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from install import DEV
from tests.conftest import PROJECT

DOCKERFILE = (PROJECT / "Dockerfile").read_text()
IGNORED = (PROJECT / ".dockerignore").read_text().splitlines()
COPIED = [line.removeprefix("!") for line in IGNORED if line.startswith("!")]


def steps(instruction: str) -> list[str]:
    """The arguments of each such instruction."""
    lines = re.sub(r"\\\n\s*", " ", DOCKERFILE).splitlines()
    return [line.partition(" ")[2] for line in lines if line.startswith(f"{instruction} ")]


def test_what_is_copied_is_here_and_nothing_else_is_copied():
    assert steps("COPY") == [". ."]
    assert "*" in IGNORED[: IGNORED.index(f"!{COPIED[0]}")]
    assert [name for name in COPIED if not (PROJECT / name).exists()] == []


def test_every_package_and_every_pin_for_running_is_copied():
    setup = tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["setuptools"]
    packages = {name.removesuffix("*") for name in setup["packages"]["find"]["include"]}
    pins = {path.name for path in PROJECT.glob("constraints*.txt")} - set(DEV)
    files = {"sweep.py", "install.py", "pyproject.toml", "README.md", "LICENSE"}
    assert set(COPIED) == packages | pins | files


def test_it_is_installed_as_everywhere_and_runs_as_nobody_special():
    (run,) = steps("RUN")
    commands = [shlex.split(command) for command in run.split("&&")]
    assert commands[0][-3:] == ["python3", "install.py", "${INSTALL:+$INSTALL}"]
    assert steps("USER") == ["1000"]
    assert DOCKERFILE.rindex("USER ") > DOCKERFILE.rindex("RUN ")
    assert steps("ENTRYPOINT") == ['["scalemark"]']
    assert re.search(r"https?://|--index-url", DOCKERFILE) is None


@pytest.mark.integration
def test_what_is_copied_is_enough_to_run(tmp_path):
    image, results = tmp_path / "image", tmp_path / "results"
    results.mkdir()
    for name in COPIED:
        if (PROJECT / name).is_dir():
            shutil.copytree(
                PROJECT / name, image / name, ignore=shutil.ignore_patterns("__pycache__")
            )
        else:
            image.mkdir(exist_ok=True)
            shutil.copy(PROJECT / name, image)
    variables = {"PATH": os.environ["PATH"], "PYTHONPATH": str(image), "HOME": str(tmp_path)}

    def run(*arguments: str) -> str:
        command = [sys.executable, "-P", "-m", "scalemark", *arguments]
        return subprocess.run(
            command, cwd=results, env=variables, check=True, capture_output=True, text=True
        ).stdout

    run("sweep", "engine=simulated", "hardware=dgx1_p100", "model=trivial", "num_gpus=1,2")
    assert "replicated_nccl" in run("table", "--origin", "simulated")
    assert (results / "figures").is_dir()
    found = subprocess.run(
        [sys.executable, "-P", "-c", "import scalemark; print(scalemark.__file__)"],
        env=variables, cwd=results, check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert Path(found.stdout.strip()).is_relative_to(image)
