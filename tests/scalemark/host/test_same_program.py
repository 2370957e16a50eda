"""Checks that edits that change what a program measures are named, and that others are none."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scalemark.host import program_software, software
from scalemark.host.program_software import describe

CODE, FILES_NAMED = "code of the program", "files that the command names"
FILES = {
    "work/scripts/train.py": "import os, sys\nsys.path.insert(0, '..')\nos.getenv('MY_KERNEL')\n",
    "work/mylib/model.py": "layers = 2\n",
    "work/mylib/ignored_settings.py": "heads = 2\n",
    "work/conf/large.yaml": "layers: 2\n",
    "local/zero.xml": "<2>\n",
    "work/README.md": "Train.\n",
    "work/metrics.json": "{}\n",
    "work/log.csv": "1,2\n",
    "work/.gitignore": "env\ncache\nignored_*\n*.bin\n",
    "shared/kernels.py": "y = 1\n",
    "packages/site-packages/timm-1.0.dist-info/METADATA": "Name: timm\nVersion: 1.0\n",
}
LARGE_BYTES = 20 * 2**20


def write(name: str, text: str) -> None:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def append(name: str, text: str) -> None:
    with Path(name).open("a") as file:
        file.write(text)


def set_last_byte(name: str) -> None:
    with Path(name).open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"1")


def upgrade_timm() -> None:
    Path("../packages/site-packages/timm-1.0.dist-info").rename(
        "../packages/site-packages/timm-2.0.dist-info"
    )


def commit(*paths: str) -> None:
    if Path(".git").exists():
        git("add", *paths)
        git("commit", "-m", "b")


def git(*arguments: str) -> None:
    own = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    command = [shutil.which("git", path=os.defpath) or "git", *own, *arguments]
    given = {**os.environ, "GIT_TEST_ASSUME_DIFFERENT_OWNER": "0"}
    subprocess.run(command, check=True, capture_output=True, env=given)


NOTICED = {
    "the script": (lambda _: append("scripts/train.py", "print(2)\n"), CODE),
    "a package beside its folder": (lambda _: write("mylib/model.py", "layers = 3\n"), CODE),
    "a new module": (lambda _: write("mylib/new.py", "x = 3\n"), CODE),
    "a module that git ignores": (lambda _: write("mylib/ignored_settings.py", ""), CODE),
    "a module behind a link": (lambda _: write("../shared/kernels.py", "y = 2\n"), CODE),
    "a configuration of a folder of them": (lambda _: write("conf/large.yaml", "l: 3\n"), CODE),
    "a file that the command names": (lambda _: write("../local/zero.xml", "<3>"), FILES_NAMED),
    "one byte of a large file that the command names": (
        lambda _: set_last_byte("weights.bin"),
        FILES_NAMED,
    ),
    "an upgraded package": (lambda _: upgrade_timm(), "timm 1.0 -> 2.0"),
    "the backend of Keras": (lambda given: given.update(KERAS_BACKEND="jax"), "KERAS_BACKEND"),
    "a variable of Transformer Engine": (
        lambda given: given.update(NVTE_FLASH_ATTN="0"),
        "NVTE_FLASH_ATTN",
    ),
    "a variable of Accelerate": (
        lambda given: given.update(ACCELERATE_MIXED_PRECISION="bf16"),
        "ACCELERATE_MIXED_PRECISION",
    ),
    "a variable that the program reads": (lambda given: given.update(MY_KERNEL="2"), "MY_KERNEL"),
}
NOT_NOTICED = {
    "a page": lambda _: append("README.md", "Train it.\n"),
    "the commit of a page": lambda _: commit("README.md"),
    "a program that appends to a tracked table": lambda _: append("log.csv", "3,4\n"),
    "a program that writes tracked metrics": lambda _: write("metrics.json", '{"loss": 1}'),
    "a new log": lambda _: write("train.log", "step 1\n"),
    "a helper that is no program": lambda _: write("notes.txt", "try 2\n"),
    "what a run of its own leaves": lambda _: write("lightning_logs/0/hparams.yaml", "lr: 1\n"),
    "compiled bytecode": lambda _: write("mylib/__pycache__/model.cpython-311.pyc", "x"),
    "a new environment": lambda _: write("env/lib/x.py", "z = 1\n"),
    "what its editor keeps": lambda _: write(".vscode/settings.json", "{}"),
    "a variable of the terminal": lambda given: given.update(TERM="dumb", SSH_TTY="/dev/pts/1"),
    "a file that was touched": lambda _: Path("mylib/model.py").touch(),
}
WORDS = (
    f"{sys.executable} scripts/train.py ../local/zero.xml --init=weights.bin --out r.json".split()
)


@pytest.fixture(params=["checkout", "another user's", "no git", "no checkout"])
def given(request, monkeypatch):
    """Make a program in such a folder, and return its variables."""
    for name, text in FILES.items():
        write(name, text)
    monkeypatch.chdir("work")
    write("env/pyvenv.cfg", "")
    Path("weights.bin").touch()
    os.truncate("weights.bin", LARGE_BYTES)
    Path("kernels").symlink_to("../shared")
    if request.param != "no checkout":
        git("init")
        commit(".")
    if request.param == "no git":
        monkeypatch.setenv("PATH", "")
    if request.param == "another user's":
        monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
        assert software.checkout(Path.cwd()) is None
    path = Path("../packages/site-packages").absolute()
    return os.environ | {"SCALEMARK_CACHE": "cache", "PYTHONPATH": str(path)}


def test_edits_that_change_a_program_are_named(given):
    before = describe(WORDS, Path.cwd(), given)
    for what, (edit, named) in NOTICED.items():
        edit(given)
        now = describe(WORDS, Path.cwd(), given)
        assert software.differences(before, now) == [named], what
        assert software.key(before) != software.key(now), what
        before = now


def test_edits_that_change_nothing_make_no_other_program(given):
    before = describe(WORDS, Path.cwd(), given)
    for what, edit in NOT_NOTICED.items():
        edit(given)
        now = describe(WORDS, Path.cwd(), given)
        assert software.differences(before, now) == [], what
        assert software.key(before) == software.key(now), what


@pytest.mark.parametrize(
    "options", ["--gpus all -v=/a:/b", "-v/a:/b", "-dit", "-u0 -itw /a", "--sig-proxy"]
)
@pytest.mark.parametrize("given", ["checkout"], indirect=True)
def test_another_image_of_a_container_is_named(given, options):
    words = ["docker", "run", "--rm", *options.split(), "image", "python", "x.py"]
    engine = Path("../bin/docker")
    write(str(engine), '#!/bin/sh\n[ "$5" = image ] && cat ../image\n')
    engine.chmod(0o755)
    given["PATH"] = f"{engine.parent.absolute()}:/usr/bin:/bin"
    unknown = describe(words, Path.cwd(), given)
    assert "tells the digest of its image" in program_software.doubt(words, unknown)
    write("../image", "sha256:1a2b\n")
    before = describe(words, Path.cwd(), given)
    assert program_software.doubt(words, before) == ""
    write("../image", "sha256:3c4d\n")
    now = describe(words, Path.cwd(), given)
    assert software.differences(before, now) == ["program image 1a2b -> 3c4d"]
    assert software.key(before) != software.key(now)
