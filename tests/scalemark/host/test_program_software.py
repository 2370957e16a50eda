"""The software of a program is its own interpreter's and its own folder's, and another one is another environment."""

import json
import os
import sys
from pathlib import Path

import pytest

from scalemark.host.interpreters import NONE, interpreter, interpreter_of
from scalemark.host.launch import Launch
from scalemark.host.program_software import describe, doubt

HERE = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "SCALEMARK_CACHE": "cache"}


def make(name: str, text: str) -> Path:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["python", "train.py"], str(Path(sys.executable).parent / "python")),
        ([sys.executable, "-m", "x", "--launcher", "ssh"], sys.executable),
        (["env", "A=b", sys.executable], sys.executable),
        (["nice", "-n", "5", sys.executable, "train.py"], sys.executable),
        (["./torchrun", "--nproc-per-node=2", "train.py"], sys.executable),
        (["./by-env", "x"], str(Path(sys.executable).parent / "python")),
        (["sh", "train.sh"], str(Path(sys.executable).parent / "python")),
        (["./train.sh"], str(Path(sys.executable).parent / "python")),
        (["/bin/sh", "source", "own/bin/activate;", "python", "train.py"], "own/bin/python"),
        (["docker", "run", "image", "python", "train.py"], None),
        (["ls", "train.txt"], None),
        (["./gone"], None),
    ],
)
def test_the_interpreter_is_found(words, wanted):
    make("torchrun", f"#!{sys.executable}\n")
    make("by-env", "#!/usr/bin/env python\n")
    make("train.sh", "#!/bin/sh\npython train.py\n")
    make("train.txt", "")
    make("own/bin/activate", "")
    if wanted == "own/bin/python":
        wanted = str(Path(wanted).absolute())
    assert interpreter_of([words], Path.cwd(), HERE) == ((wanted,) if wanted else ())


@pytest.mark.parametrize(
    ("name", "text", "wanted"),
    [
        ("launch.sh", "own/bin/python train.py", "own"),
        ("launch.sh", 'PY="own/bin/python"\nexec "$PY" train.py', "own"),
        ("launch.sh", "system-tool # own/bin/python\n. own/bin/activate; torchrun train.py", "own"),
        ("launch.sh", "exec own/bin/torchrun train.py", "own"),
        ("launch.sh", "bash inner.sh", "own"),
        ("launch.sh", "command -v docker\npython train.py", "path"),
        ("launch.sh", "docker run \\\n  --rm image python train.py", None),
        ("launch.sh", "ssh there python train.py", None),
        ("Makefile", "train:\n\t@own/bin/python train.py", "own"),
    ],
)
def test_the_interpreter_of_a_script_of_a_shell_is_found(name, text, wanted):
    """A bug: an upgrade in the environment that a launch script starts left trials finished."""
    own = make("own/bin/python", "").absolute()
    make("own/bin/activate", "")
    make("own/bin/torchrun", f"#!{own}\n")
    make("bin/system-tool", "#!/usr/bin/python3\n")
    make("inner.sh", "own/bin/python train.py\n")
    make(name, text)
    words = ["make", "train"] if name == "Makefile" else ["bash", name]
    variables = HERE | {"PATH": f"{HERE['PATH']}:{Path('bin').absolute()}"}
    paths = {"own": (str(own),), "path": (str(Path(sys.executable).parent / "python"),)}
    assert tuple(Launch(words, Path.cwd()).interpreter(variables)) == paths.get(wanted, ())


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("uv run train.py", "uv run python"),
        ("env A=b uv run --with torch -q python train.py", "uv run --with torch -q python"),
        ("uv --project x run -m pkg.train", "uv --project x run python"),
        ("conda run -n e python train.py", "conda run -n e python"),
        ("/bin/sh conda activate e && python train.py", "conda run -n e python"),
        ("poetry run torchrun train.py", "poetry run python"),
    ],
)
def test_a_runner_is_asked_for_its_interpreter(words, wanted):
    assert " ".join(interpreter_of([words.split()], Path.cwd(), HERE)) == wanted


def test_what_a_runner_runs_is_the_software_of_a_program():
    runner = make(
        "bin/uv", f'#!/bin/sh\nshift\n[ "$1" = -q ] && shift\nshift\nexec {sys.executable} "$@"\n'
    )
    variables = os.environ | HERE | {"PATH": f"{runner.parent.absolute()}:/usr/bin:/bin"}
    words = ["uv", "run", "-q", "train.py"]
    found = describe(words, Path.cwd(), variables)
    assert (found["interpreter"], doubt(words, found)) == (sys.executable, "")
    assert found["packages"]["numpy"]
    runner.write_text("#!/bin/sh\nexit 1\n")
    gone = describe(words, Path.cwd(), variables)
    assert gone["python"] == ""
    assert doubt(words, gone).startswith("the Python that runs it was not found")
    assert doubt(["./train", "4"], gone) == "", "a program without Python has no packages"
    make("launch.sh", "uv run -q train.py\n")
    launched = describe(["bash", "launch.sh"], Path.cwd(), variables)
    assert doubt(["bash", "launch.sh"], launched) == doubt(words, gone)


def test_it_is_asked_again_when_a_package_was_installed():
    packages = make("packages/wheel-1.dist-info/METADATA", "Name: x\n").parent.parent
    variables = os.environ | HERE | {"PYTHONPATH": str(packages.absolute())}
    assert "torch" not in interpreter([sys.executable], Path.cwd(), variables).packages
    make(
        "packages/torch-2.9.dist-info/METADATA",
        "Metadata-Version: 2.1\nName: torch\nVersion: 2.9\n",
    )
    make("packages/timm-1.0.dist-info/METADATA", "")
    make("packages/Old.Name-3.egg-info/PKG-INFO", "")
    known = interpreter([sys.executable], Path.cwd(), variables).packages
    assert (known["torch"], known["timm"], known["old_name"]) == ("2.9", "1.0", "3")
    (packages / "timm-1.0.dist-info").rename(packages / "timm-2.0.dist-info")
    assert interpreter([sys.executable], Path.cwd(), variables).packages["timm"] == "2.0"


def test_what_says_nothing_has_nothing():
    silent = make("python3", "#!/bin/sh\nexit 3\n")
    assert interpreter([str(silent.absolute())], Path.cwd(), os.environ | HERE) == NONE


def test_it_is_an_environment_like_any_other():
    given = {"NCCL_ALGO": "Ring", "TORCHINDUCTOR_MAX_AUTOTUNE": "1"}
    found = describe(["ls"], Path.cwd(), os.environ | HERE | given)
    assert (found["python"], found["interpreter"]) == ("", "")
    assert found["variables"]["NCCL_ALGO"] == "Ring"
    assert "TORCHINDUCTOR_MAX_AUTOTUNE" in found["variables"]
    assert set(found["packages"]) == {"scalemark"}
    assert json.dumps(found)
