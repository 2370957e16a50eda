"""Finds the Python of a user's program, and its container's image. Standard library only."""

import json
import os
import re
import shutil
import subprocess
from base64 import b64encode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from scalemark.program import template
from scalemark.program.template import PYTHON, SCRIPTS

MOST_WORDS = 200  # of a command line that are looked at
_WITHIN_S = 60.0  # `uv run` may install what is missing first
INSTALLERS = frozenset({"uv", "poetry", "pixi", "pipenv", "pdm"})
"""Runners that make an environment for each folder."""
RUNNERS = INSTALLERS | {"conda", "mamba", "micromamba"}
"""Programs that run a command in an environment, as `uv run`."""
_WITH_VALUE = frozenset(  # options of `run` that take the next word
    {
        *("-n", "--name", "-p", "--prefix", "--cwd", "-e", "--environment", "--manifest-path"),
        *("--with", "--with-editable", "--with-requirements", "--extra", "--group", "--no-group"),
        *("--only-group", "--python", "--project", "--package", "--directory", "--env-file"),
        *("--index", "--default-index", "--index-url", "--extra-index-url", "-f", "--find-links"),
    }
)
_OF_A_MODULE = ("-m", "--module", "-s", "--script")  # `uv run -m train`
_ENGINES = ("docker", "podman", "nvidia-docker")
_ELSEWHERE = frozenset({*_ENGINES, "apptainer", "singularity", "enroot", "ssh"})
_STARTS = frozenset({"run", "exec", "shell", "start", "up"})  # a command of a container
_IMAGE_WITHIN_S = 20.0
_SWITCHES = frozenset(  # options of `docker run` and `podman run` that take no next word
    {
        *("--", "--detach", "--disable-content-trust", "--env-host", "--help", "--init"),
        *("--interactive", "--no-healthcheck", "--no-hostname", "--no-hosts", "--oom-kill-disable"),
        *("--privileged", "--publish-all", "--quiet", "--read-only", "--replace", "--rm", "--rmi"),
        *("--rootfs", "--sig-proxy", "--tty", "--unsetenv-all", "--use-api-socket"),
    }
)
_SHORT_SWITCHES = "ditqP"
_SHEBANG = re.compile(rb"#!\s*(\S+)(?:[ \t]+(\S+))?")
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh"})
_SCRIPT = """
import hashlib, json, os, platform, sys, sysconfig
packages, imported = {}, []
standard = sysconfig.get_paths()["stdlib"]
for folder in map(os.path.abspath, filter(None, sys.path)):
    try:
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
        name = name.lower().replace(".", "_")
        packages.setdefault(name, version)
        try:
            with open(os.path.join(folder, entry, "direct_url.json")) as file:
                source = json.load(file)
            if source.get("dir_info", {}).get("editable"):
                imported.append(source["url"].partition("file://")[2])
            else:  # a copy of a folder or a commit, which may have the version of another
                with open(os.path.join(folder, entry, "RECORD"), "rb") as file:
                    packages[name] = version + "+" + hashlib.sha256(file.read()).hexdigest()[:8]
        except (OSError, ValueError, KeyError):
            pass
said = {"path": sys.executable, "python": platform.python_version()}
print(json.dumps(dict(said, packages=packages, imported=imported)))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """The packages and the folders of modules that the Python of a program has."""

    path: str  # empty where there is none, or it says nothing
    python: str  # version
    packages: Mapping[str, str]
    imported: Sequence[str]  # folders of modules that are not installed, or as editable


NONE = Interpreter(path="", python="", packages={}, imported=())


def place_elsewhere(words: Sequence[str]) -> str:
    """Return what runs a command elsewhere, as a container's engine; empty without one."""
    for index, word in enumerate(words[:MOST_WORDS]):
        name = Path(word).name
        if word.startswith("--container-image"):  # of `srun`
            return "srun"
        if name == "ssh" or (name in _ELSEWHERE and not _STARTS.isdisjoint(words[index:])):
            return name
        if word.endswith(SCRIPTS) or PYTHON.fullmatch(name):
            break  # what follows are its own arguments
    return ""


def interpreter_of(
    commands: Sequence[Sequence[str]], folder: Path, variables: Mapping[str, str]
) -> Sequence[str]:
    """Return the command that starts the Python of a program; empty where none is found.

    It is named (`python train.py`), found by a runner (`uv run`), stands in the first line of a
    script (`torchrun`), or is what a shell finds in the environment that it activates, or in PATH.
    `commands` are a command line and those of its shell scripts. There what a path names counts: a
    tool of the system may be a script of another Python.
    """
    is_of_shell = False
    for number, command in enumerate(commands):
        words = [word.rstrip(";") for word in command[:MOST_WORDS]]
        if place_elsewhere(words):
            return ()
        for index, word in enumerate(words):
            runner = _runner(words[index:])
            if runner:
                return (*runner, "python")
            if number > 0 and "/" not in word and not PYTHON.fullmatch(word):
                continue
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
    if program:
        return (program,)
    return ()


def _runner(words: Sequence[str]) -> Sequence[str]:
    """Return the beginning of `uv run --extra cpu train.py` up to its command; empty for others."""
    if Path(words[0]).name not in RUNNERS:
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
    """Ask an interpreter what it has installed; NONE for no answer, and for no interpreter."""
    if not command:
        return NONE
    encoded = b64encode(_SCRIPT.encode()).decode()  # `conda run` takes no line breaks
    script = f"import base64; exec(base64.b64decode('{encoded}'))"
    try:
        said = _output_of([*command, "-c", script], folder, variables, _WITHIN_S)
        return Interpreter(**json.loads(said.strip().splitlines()[-1]))
    except (OSError, subprocess.SubprocessError, ValueError, TypeError, IndexError):
        return NONE


def _file(word: str, folder: Path, variables: Mapping[str, str]) -> Path | None:
    """Return the program or script that a word names; links stay, as a venv's python is one."""
    if not word or "\0" in word or len(word) > 4096:
        return None
    with suppress(OSError):
        if word.endswith(SCRIPTS):
            if (folder / word).is_file():
                return folder / word
            return None
        if "/" not in word and ("=" in word or word.startswith("-")):
            return None
        program = template.located(word, variables.get("PATH", os.defpath), folder)
        if program:
            return Path(program)
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
    if inner:
        return str(inner)
    return named


def image_of(words: Sequence[str], folder: Path, variables: Mapping[str, str]) -> str:
    """Return the digest of the image that `docker run` or `podman run` of a command line starts;
    empty for no container, and where the engine does not tell, as before the image was pulled.
    """
    names = [Path(word).name for word in words[:MOST_WORDS]]
    engine = next((index for index, name in enumerate(names) if name in _ENGINES), None)
    if engine is None or "run" not in names[engine:]:
        return ""
    rest = iter(words[names.index("run", engine) + 1 : MOST_WORDS])
    for word in rest:
        if not word.startswith("-"):
            command = [words[engine], "image", "inspect", "--format", "{{.Id}}", word]
            break
        if word.startswith("--"):
            takes_next = "=" not in word and word not in _SWITCHES
        else:  # -v does, -v/data:/data and -dit do not, and -itw does
            takes_next = len(word[1:].lstrip(_SHORT_SWITCHES)) == 1
        if takes_next:
            next(rest, None)
    else:
        return ""
    try:
        said = _output_of(command, folder, variables, _IMAGE_WITHIN_S)
    except (OSError, subprocess.SubprocessError):
        return ""
    return os.fsdecode(said).strip().removeprefix("sha256:")


def _output_of(
    command: Sequence[str], folder: Path, variables: Mapping[str, str], within_s: float
) -> bytes:
    """Raises OSError or subprocess.SubprocessError where it does not run to a good end in time."""
    return subprocess.run(
        command,
        cwd=folder,
        env=dict(variables),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=within_s,
        check=True,
    ).stdout
