"""Describes the software of a user's program: its interpreter, its packages, its code.

The same is found while a sweep is planned and in each attempt, so that numbers of another
environment are never taken for finished repeats. Standard library only.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
from base64 import b64encode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from scalemark.host import software
from scalemark.host.files import cache_folder, write_whole
from scalemark.host.own_code import NOT_INSTALLED, own_version
from scalemark.host.sources import MOST_WORDS, code_of, is_unknown
from scalemark.program import template
from scalemark.program.template import PYTHON, SCRIPTS

_WITHIN_S = 60.0  # `uv run` may install what is missing first
_RUNNERS = frozenset({"uv", "conda", "mamba", "micromamba", "poetry", "pixi", "pipenv", "pdm"})
_WITH_VALUE = frozenset(  # options of `run` that take the next word
    {
        *("-n", "--name", "-p", "--prefix", "--cwd", "-e", "--environment", "--manifest-path"),
        *("--with", "--with-editable", "--with-requirements", "--extra", "--group", "--no-group"),
        *("--only-group", "--python", "--project", "--package", "--directory", "--env-file"),
        *("--index", "--default-index", "--index-url", "--extra-index-url", "-f", "--find-links"),
    }
)
_OF_A_MODULE = ("-m", "--module", "-s", "--script")  # `uv run -m train`
_ELSEWHERE = frozenset({"docker", "podman", "apptainer", "singularity", "ssh"})
_OF_AN_ENVIRONMENT = ("pyproject.toml", "uv.lock", "poetry.lock", "pixi.toml", "pixi.lock")
_CHOOSE_IT = ("PYTHONPATH", "VIRTUAL_ENV", "CONDA_PREFIX", "UV_PROJECT_ENVIRONMENT")
_SHEBANG = re.compile(rb"#!\s*(\S+)(?:[ \t]+(\S+))?")
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh"})
_SCRIPT = """
import json, os, platform, sys, sysconfig
packages, folders, imported = {}, {}, []
standard = sysconfig.get_paths()["stdlib"]
for folder in map(os.path.abspath, filter(None, sys.path)):
    try:
        folders[folder] = os.stat(folder).st_mtime_ns
        entries = os.listdir(folder)
    except OSError:
        continue
    installed = os.path.basename(folder) in ("site-packages", "dist-packages")
    if not installed and not folder.startswith(standard):
        imported.append(folder)
    for entry in entries:
        name, ending = os.path.splitext(entry)
        if ending not in (".dist-info", ".egg-info"):
            continue
        name, _, version = name.partition("-")
        packages.setdefault(name.lower().replace(".", "_"), version)
        try:
            with open(os.path.join(folder, entry, "direct_url.json")) as file:
                source = json.load(file)
            if source["dir_info"]["editable"]:
                imported.append(source["url"].partition("file://")[2])
        except (OSError, ValueError, KeyError):
            pass
said = {"path": sys.executable, "python": platform.python_version()}
print(json.dumps(dict(said, packages=packages, folders=folders, imported=imported)))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """What the interpreter of a program has installed."""

    path: str  # empty where there is none, or it says nothing
    python: str  # version
    packages: Mapping[str, str]
    folders: Mapping[str, int]  # where it looks for modules, and when they changed last, in ns
    imported: Sequence[str]  # folders of modules that are not installed, or as editable


NONE = Interpreter(path="", python="", packages={}, folders={}, imported=())


def describe(words: Sequence[str], folder: Path, variables: Mapping[str, str]) -> dict[str, Any]:
    """Describe the software of a program, as `scalemark.host.software.describe` does its own.

    `words` is its command line, `folder` where it runs, `variables` its environment.
    """
    command = interpreter_of(words, folder, variables)
    answer = interpreter(command, folder, variables) if command else NONE
    packages = dict(answer.packages)
    if own_version() != NOT_INSTALLED:
        packages["scalemark"] = own_version()  # it times the steps
    return {
        "python": answer.python,
        "kernel": platform.release(),
        "packages": dict(sorted(packages.items())),
        "variables": software.result_changing(variables),
        "driver": software.driver(),
        "cuda": software.of_nvidia(packages, "cuda_runtime"),
        "cudnn": software.of_nvidia(packages, "cudnn"),
        "interpreter": answer.path,
        "program": code_of(words, folder, map(Path, answer.imported)),
    }


def doubt(words: Sequence[str], described: Mapping[str, Any]) -> str:
    """Say what is not known of a program: its code, or the packages of a Python program. Empty
    where all is known.

    `described` is what `describe` returned.
    """
    if is_unknown(described["program"]["code"]):
        return (
            "its folder has too many sources to compare, and git does not answer there, so its "
            "code is not known; no earlier trial counts as finished"
        )
    if described["python"]:
        return ""
    for word in words[:MOST_WORDS]:
        name = Path(word).name
        if PYTHON.fullmatch(name) or name.endswith(".py") or name in _RUNNERS | _ELSEWHERE:
            return (
                "the Python that runs it was not found, so its packages are not known; name the "
                "interpreter in the command, or set sweep.rerun=true after an upgrade"
            )
    return ""


def interpreter_of(
    words: Sequence[str], folder: Path, variables: Mapping[str, str]
) -> Sequence[str]:
    """Return the command that starts the Python of a program; empty where none is found.

    It is named (`python train.py`), found by a runner (`uv run`), stands in the first line of a
    script (`torchrun`), or is what a shell finds in the environment that it activates, or in PATH.
    """
    is_of_shell = False
    words = [word.rstrip(";") for word in words[:MOST_WORDS]]
    for index, word in enumerate(words):
        if Path(word).name in _ELSEWHERE:
            return ()
        runner = _runner(words[index:])
        if runner:
            return (*runner, "python")
        file = _file(word, folder, variables)
        if file is None:
            continue
        if file.name == "activate":
            return (str(file.with_name("python")),)
        if PYTHON.fullmatch(file.name):
            return (str(file),)
        named = _shebang(file, folder, variables)
        if named and PYTHON.fullmatch(Path(named).name):
            return (named,)
        is_of_shell = is_of_shell or file.name in _SHELLS or Path(named or "").name in _SHELLS
        if file.suffix == ".py":
            break
    if not is_of_shell:
        return ()
    path = variables.get("PATH", os.defpath)
    program = shutil.which("python", path=path) or shutil.which("python3", path=path)
    return (program,) if program else ()


def _runner(words: Sequence[str]) -> Sequence[str]:
    """Return the beginning of `uv run --extra cpu train.py` up to its command; empty for others."""
    if Path(words[0]).name not in _RUNNERS:
        return ()
    if words[1:2] == ["activate"] and len(words) > 2:
        return (words[0], "run", "-p" if "/" in words[2] else "-n", words[2])
    if "run" not in words:
        return ()
    end = words.index("run") + 1
    while words[end : end + 1] and words[end].startswith("-") and words[end] not in _OF_A_MODULE:
        end += 2 if words[end] in _WITH_VALUE else 1
    return words[:end]


def interpreter(command: Sequence[str], folder: Path, variables: Mapping[str, str]) -> Interpreter:
    """Ask an interpreter what it has installed, or take what it said before; NONE for no answer.

    The answer is kept in a file as long as neither it nor the folders of its modules change.
    """
    kept_at = _cache_file(command, folder, variables)
    kept = _kept(kept_at)
    if kept:
        return kept
    encoded = b64encode(_SCRIPT.encode()).decode()  # `conda run` takes no line breaks
    try:
        asked = subprocess.run(
            [*command, "-c", f"import base64; exec(base64.b64decode('{encoded}'))"],
            cwd=folder,
            env=dict(variables),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_WITHIN_S,
            check=True,
        )
        answer = Interpreter(**json.loads(asked.stdout.strip().splitlines()[-1]))
    except (OSError, subprocess.SubprocessError, ValueError, TypeError, IndexError):
        return NONE
    if kept_at is not None:
        with suppress(OSError):  # then it is asked again
            write_whole(kept_at, json.dumps(asdict(answer)))
    return answer


def _file(word: str, folder: Path, variables: Mapping[str, str]) -> Path | None:
    """Return the program or script that a word names; links stay, as a venv's python is one."""
    if not word or "\0" in word or len(word) > 4096:
        return None
    with suppress(OSError):
        if word.endswith(SCRIPTS):
            script = folder / word
            return script if script.is_file() else None
        if "/" not in word and ("=" in word or word.startswith("-")):
            return None
        program = template.located(word, variables.get("PATH", os.defpath), folder)
        return Path(program) if program else None
    return None


def _shebang(file: Path, folder: Path, variables: Mapping[str, str]) -> str | None:
    """Return the interpreter that the first line of a script names; None without one."""
    try:
        with file.open("rb") as opened:
            line = opened.readline(256)
    except OSError:
        return None
    match = _SHEBANG.match(line)
    if not match:
        return None
    named = os.fsdecode(match[1])
    if Path(named).name == "env" and match[2]:
        named = os.fsdecode(match[2])
    inner = _file(named, folder, variables)
    return str(inner) if inner else named


def _cache_file(command: Sequence[str], folder: Path, variables: Mapping[str, str]) -> Path | None:
    """Return where an answer is kept; None where there is no folder for it."""
    program = shutil.which(command[0], path=variables.get("PATH", os.defpath)) or command[0]
    chosen_by = [variables.get(name, "") for name in _CHOOSE_IT]
    try:
        root = cache_folder(variables)
        changed_ns = [Path(program).stat().st_mtime_ns]
        for name in _OF_AN_ENVIRONMENT:
            file = folder / name
            changed_ns.append(file.stat().st_mtime_ns if file.exists() else 0)
    except (OSError, RuntimeError):
        return None
    where = [*command, *changed_ns, *chosen_by, str(folder), _SCRIPT]
    digest = hashlib.sha256(json.dumps(where).encode()).hexdigest()[:16]
    return root / "interpreters" / f"{digest}.json"


def _kept(file: Path | None) -> Interpreter | None:
    """Return an answer of before, if it is still true."""
    if file is None:
        return None
    try:
        answer = Interpreter(**json.loads(file.read_text()))
        for folder, changed_ns in answer.folders.items():
            if Path(folder).stat().st_mtime_ns != changed_ns:
                return None
    except (OSError, ValueError, TypeError, AttributeError):
        return None
    return answer
