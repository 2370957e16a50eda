"""The software of a program is its own interpreter's and its own folder's, and another one is another environment."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from scalemark.host import program_software, software
from scalemark.host.program_software import (
    NONE,
    checkout_of,
    code_digest,
    describe,
    doubt,
    interpreter,
    interpreter_of,
)

HERE = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "SCALEMARK_CACHE": "cache"}


def make(name: str, text: str) -> Path:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def key(*words: str) -> str:
    return software.key(describe(words, Path.cwd(), os.environ | HERE))


def git(*arguments: str) -> None:
    own = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    subprocess.run(["git", *own, *arguments], check=True, capture_output=True)


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["python", "train.py"], str(Path(sys.executable).parent / "python")),
        ([sys.executable, "-m", "x"], sys.executable),
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
    assert interpreter_of(words, Path.cwd(), HERE) == ((wanted,) if wanted else ())


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
    assert " ".join(interpreter_of(words.split(), Path.cwd(), HERE)) == wanted


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


def test_an_interpreter_says_what_it_has_and_is_asked_once():
    script = make("python", f'#!/bin/sh\necho asked >> asked.txt\nexec {sys.executable} "$@"\n')
    variables = os.environ | HERE
    first = interpreter([str(script.absolute())], Path.cwd(), variables)
    second = interpreter([str(script.absolute())], Path.cwd(), variables)
    assert first == second
    assert first.packages["numpy"]
    assert Path("asked.txt").read_text() == "asked\n"


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


def test_other_code_and_another_commit_are_other_environments():
    make("train.py", "print(1)\n")
    command = (sys.executable, "train.py")
    git("init")
    git("add", "train.py")
    git("commit", "-m", "a")
    clean = key(*command)
    assert key(*command) == clean
    make("results.csv", "1,2\n")
    assert key(*command) == clean, "what a program writes is no change of it"
    make("runs/s/sweep.json", "{}")
    make("runs/s/x1-r1-a1/config.py", "lr = 1\n")
    assert key(*command) == clean, "nor is what it writes into its run folder"
    make("model.py", "layers = 3\n")
    new_file = key(*command)
    make("train.py", "print(2)\n")
    dirty = key(*command)
    git("add", ".")
    git("commit", "-m", "b")
    assert len({clean, new_file, dirty, key(*command)}) == 4


def test_where_git_does_not_answer_the_sources_of_the_checkout_count(monkeypatch):
    make("scripts/train.py", "print(1)\n")
    make("mylib/model.py", "layers = 2\n")
    git("init")
    git("add", ".")
    git("commit", "-m", "a")
    command = (sys.executable, "scripts/train.py")
    by_git = key(*command)
    monkeypatch.setenv("PATH", "")
    before = key(*command)
    assert key(*command) == before != by_git
    make("mylib/model.py", "layers = 3\n")
    assert key(*command) != before


def test_code_that_cannot_be_known_equals_no_other(monkeypatch):
    make("train.py", "print(1)\n")
    make("model.py", "layers = 2\n")
    make(".git", "gitdir: /nowhere")
    monkeypatch.setattr(program_software, "_MOST_SOURCES", 1)
    words = [sys.executable, "train.py"]
    here = key(*words)
    assert key(*words) == here, "one sweep plans all its trials of a program alike"
    assert "its code is not known" in doubt(words, describe(words, Path.cwd(), os.environ | HERE))
    monkeypatch.setattr(program_software.os, "getpid", lambda: 1)
    assert key(*words) != here


def test_without_a_checkout_the_sources_themselves_count():
    make("code/train.py", "print(1)\n")
    words = [sys.executable, "code/train.py"]
    assert checkout_of(words, Path.cwd()) is None
    before = code_digest(words, Path.cwd())
    make("code/model.py", "layers = 3\n")
    after = code_digest(words, Path.cwd())
    assert before != after != ""
    make("code/log.csv", "1")
    assert code_digest([sys.executable, "code/model.py"], Path.cwd()) == after
    make("code/.cache/x.py", "")
    make("code/env/pyvenv.cfg", "")
    make("code/env/x.py", "")
    make("code/runs/sweep.json", "{}")
    make("code/runs/x1/config.py", "")
    assert code_digest(words, Path.cwd()) == after


def test_code_below_a_module_counts():
    make("pkg/train.py", "print(1)\n")
    words = [sys.executable, "-m", "pkg.train"]
    before = code_digest(words, Path.cwd())
    make("pkg/sub/layers.py", "layers = 3\n")
    assert code_digest(words, Path.cwd()) != before != ""


def test_it_is_an_environment_like_any_other():
    given = {"NCCL_ALGO": "Ring", "TORCHINDUCTOR_MAX_AUTOTUNE": "1"}
    found = describe(["ls"], Path.cwd(), os.environ | HERE | given)
    assert (found["python"], found["interpreter"]) == ("", "")
    assert found["variables"]["NCCL_ALGO"] == "Ring"
    assert "TORCHINDUCTOR_MAX_AUTOTUNE" in found["variables"]
    assert set(found["packages"]) == {"scalemark"}
    assert json.dumps(found)


@pytest.mark.parametrize("has_checkout", [False, True])
def test_files_that_the_command_line_names_count(has_checkout):
    if has_checkout:
        git("init")
        git("commit", "--allow-empty", "-m", "a")
    make("my.yaml", "batch: 1\n")
    make("ds.json", '{"zero": 1}\n')
    command = ("llamafactory-cli", "train", "my.yaml", "--deepspeed=ds.json", "train.log", "\0")
    before = key(*command)
    make("train.log", "step 1\n")
    make("other.yaml", "batch: 2\n")
    assert key(*command) == before, "no word names it, or the program writes it"
    make("my.yaml", "batch: 2\n")
    other_batch = key(*command)
    make("ds.json", '{"zero": 3}\n')
    assert len({before, other_batch, key(*command)}) == 3


def test_data_below_a_script_is_not_looked_through(monkeypatch):
    make("train.py", "print(1)\n")
    make("pkg/model.py", "layers = 3\n")
    for number in range(30):
        make(f"data/{number % 3}/{number}.jpeg", "")
    looked = []
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: (looked.append(path), scandir(path))[1])
    monkeypatch.setattr(program_software, "_MOST_ENTRIES", 10)
    before = code_digest(["python", "train.py"], Path.cwd())
    assert [path.name for path in looked] == [Path.cwd().name, "data", "pkg", "0"]
    make("pkg/model.py", "layers = 4\n")
    assert code_digest(["python", "train.py"], Path.cwd()) != before
