"""Describes the software of a user's program: its interpreter, its packages, its code.

The same is found while a sweep is planned and in each attempt, so that numbers of another
environment are never taken for finished repeats. Standard library only.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import platform
import re
import shutil
import subprocess
import uuid
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from scalemark.host import software
from scalemark.host.files import cache_folder
from scalemark.host.own_code import NOT_INSTALLED, own_version
from scalemark.program import template
from scalemark.program.template import PYTHON, SCRIPTS

SOURCES = tuple(f"*.{ending}" for ending in ("py", "sh", "cu", "cuh", "cpp", "cc", "c", "h"))
"""Untracked files that count as changes of a program; others may be what it has written."""

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
_MOST_SOURCES = 500  # beside and below a script
_MOST_ENTRIES = 10_000  # of folders that are looked at: data may lie below a script
_DEEPEST = 4  # folders below it
_WRITTEN = (".log", ".out", ".err")  # a program writes into these
_NOT_ITS_CODE = ("site-packages", "node_modules", "__pycache__")
_UNKNOWN_CODE = "unknown-"
_MOST_WORDS = 200  # of a command line that are looked at
_SCRIPT = """
import json, os, platform, sys
found, folders = {}, {}
for folder in filter(None, sys.path):
    try:
        folders[os.path.abspath(folder)] = os.stat(folder).st_mtime_ns
        entries = os.listdir(folder)
    except OSError:
        continue
    for entry in entries:
        name, ending = os.path.splitext(entry)
        if ending in (".dist-info", ".egg-info"):
            name, _, version = name.partition("-")
            found.setdefault(name.lower().replace(".", "_"), version)
said = {"path": sys.executable, "python": platform.python_version()}
print(json.dumps(dict(said, packages=found, folders=folders)))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """What the interpreter of a program has installed."""

    path: str  # empty where there is none, or it says nothing
    python: str  # version
    packages: Mapping[str, str]
    folders: Mapping[str, int]  # where it looks for modules, and when they changed last, in ns


NONE = Interpreter(path="", python="", packages={}, folders={})


def describe(words: Sequence[str], folder: Path, variables: Mapping[str, str]) -> dict[str, Any]:
    """Describe the software of a program, as `scalemark.host.software.describe` does its own.

    `words` is its command line, `folder` where it runs, `variables` its environment.
    """
    command = interpreter_of(words, folder, variables)
    found = interpreter(command, folder, variables) if command else NONE
    packages = dict(found.packages)
    if (own := own_version()) != NOT_INSTALLED:
        packages["scalemark"] = own  # it times the steps
    return {
        "python": found.python,
        "kernel": platform.release(),
        "packages": dict(sorted(packages.items())),
        "variables": software.result_changing(variables),
        "driver": software.driver(),
        "cuda": software.of_nvidia(packages, "cuda_runtime"),
        "cudnn": software.of_nvidia(packages, "cudnn"),
        "interpreter": found.path,
        "program": _code_of(words, folder) | {"files": files_digest(words, folder)},
    }


def _code_of(words: Sequence[str], folder: Path) -> dict[str, str]:
    """Describe the code of a program: by git, else by its sources, else as never equal.

    Git may be missing, refuse another user's checkout, or take too long.
    """
    root = checkout_of(words, folder)
    if root is None:
        return {"commit": "", "diff": "", "code": code_digest(words, folder)}
    commit, diff = software.commit(root), software.diff(root, SOURCES)
    if commit and diff != software.UNKNOWN_DIFF:
        return {"commit": commit, "diff": diff, "code": ""}
    sources = list(itertools.islice(_sources(root), _MOST_SOURCES + 1))
    if not sources or len(sources) > _MOST_SOURCES:
        return {"commit": "", "diff": "", "code": _never_equal(os.getpid())}
    code = _digest((str(file.relative_to(root)), file) for file in sources)
    return {"commit": "", "diff": "", "code": code}


@cache
def _never_equal(pid: int) -> str:
    """Return a name of unknown code that no other process uses, forked ones included."""
    return f"{_UNKNOWN_CODE}{pid}-{uuid.uuid4().hex[:16]}"


def doubt(words: Sequence[str], found: Mapping[str, Any]) -> str:
    """Say what is not known of a program: its code, or the packages of a Python program. Empty
    where all is known.

    `found` is what `describe` found.
    """
    if found["program"]["code"].startswith(_UNKNOWN_CODE):
        return (
            "git does not answer in its checkout, which has too many sources to compare, so its "
            "code is not known; no earlier trial counts as finished"
        )
    for word in () if found["python"] else words[:_MOST_WORDS]:
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
    words = [word.rstrip(";") for word in words[:_MOST_WORDS]]
    for index, word in enumerate(words):
        if Path(word).name in _ELSEWHERE:
            return ()
        if runner := _runner(words[index:]):
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
    found = shutil.which("python", path=path) or shutil.which("python3", path=path)
    return (found,) if found else ()


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
    if found := _kept(kept_at):
        return found
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
        found = Interpreter(**json.loads(asked.stdout.strip().splitlines()[-1]))
    except (OSError, subprocess.SubprocessError, ValueError, TypeError, IndexError):
        return NONE
    _keep(kept_at, found)
    return found


def checkout_of(words: Sequence[str], folder: Path) -> Path | None:
    """Return the git checkout that holds a program's script, or the folder it runs in."""
    place = _folder_of_code(words, folder)
    for one in (place, *place.parents):
        if (one / ".git").exists():
            return one
    return None


def code_digest(words: Sequence[str], folder: Path) -> str:
    """Digest the sources beside and below a program's script, or in the folder it runs in.

    All of them, so that trials may run one or another: which one is an axis of theirs. Empty
    without any.
    """
    place = _folder_of_code(words, folder)
    found = itertools.islice(_sources(place), _MOST_SOURCES)
    return _digest((str(file.relative_to(place)), file) for file in found)


def files_digest(words: Sequence[str], folder: Path) -> str:
    """Digest the files that a command line names, as `my.yaml` and `--config=my.yaml`.

    Programs and scripts are left out: what they are is found in other ways. Of a large file its
    size counts. Empty without any.
    """
    found: dict[str, Path] = {}
    for word in words[1:_MOST_WORDS]:
        name = word.rpartition("=")[2]
        is_code = name.endswith(SCRIPTS) or PYTHON.fullmatch(Path(name).name)
        if is_code or name.endswith(_WRITTEN):
            continue
        with suppress(OSError, ValueError):  # a name that is too long, or has a null character
            if (folder / name).is_file():
                found[name] = folder / name
    return _digest(found.items())


def _digest(files: Iterable[tuple[str, Path]]) -> str:
    """Digest names and contents of files; empty without any."""
    digest, num_found = hashlib.sha256(), 0
    for name, file in files:
        digest.update(os.fsencode(name) + b"\0" + software.content(file))
        num_found += 1
    return digest.hexdigest()[:16] if num_found else ""


def _sources(place: Path) -> Iterator[Path]:
    """Yield the files of source in a folder and below it, those of upper folders first."""
    endings = tuple(pattern.removeprefix("*") for pattern in SOURCES)
    level, num_seen = [place], 0
    for _ in range(_DEEPEST + 1):
        below: list[Path] = []
        for one in level:
            if num_seen > _MOST_ENTRIES or not (one == place or _may_be_its_code(one)):
                continue
            files, folders = [], []
            with suppress(OSError), os.scandir(one) as entries:
                for entry in entries:
                    num_seen += 1
                    if entry.name.startswith("."):
                        continue
                    if entry.is_dir():
                        folders.append(Path(entry.path))
                    elif entry.name.endswith(endings) and entry.is_file():
                        files.append(Path(entry.path))
            yield from sorted(files)
            below += sorted(folders)
        level = below


def _may_be_its_code(folder: Path) -> bool:
    is_environment = (folder / "pyvenv.cfg").exists()
    return not (folder.name in _NOT_ITS_CODE or is_environment or software.is_of_a_sweep(folder))


def _folder_of_code(words: Sequence[str], folder: Path) -> Path:
    for script in _scripts(words, folder):
        return script.parent
    return folder.resolve()


def _scripts(words: Sequence[str], folder: Path) -> Iterator[Path]:
    for word in words[:_MOST_WORDS]:
        script = folder / word
        if word.endswith(SCRIPTS) and script.is_file():
            yield script.resolve()


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
        program = template.found(word, variables.get("PATH", os.defpath), folder)
        return Path(program) if program else None
    return None


def _shebang(file: Path, folder: Path, variables: Mapping[str, str]) -> str | None:
    """Return the interpreter that the first line of a script names; None without one."""
    try:
        with file.open("rb") as opened:
            line = opened.readline(256)
    except OSError:
        return None
    found = _SHEBANG.match(line)
    if not found:
        return None
    named = os.fsdecode(found[1])
    if Path(named).name == "env" and found[2]:
        named = os.fsdecode(found[2])
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
        found = Interpreter(**json.loads(file.read_text()))
        for folder, changed_ns in found.folders.items():
            if Path(folder).stat().st_mtime_ns != changed_ns:
                return None
    except (OSError, ValueError, TypeError, AttributeError):
        return None
    return found


def _keep(file: Path | None, found: Interpreter) -> None:
    """Keep an answer; where that is not possible, it is asked for again."""
    if file is None:
        return
    draft = file.with_suffix(f".{os.getpid()}")
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(json.dumps(asdict(found)))
        draft.replace(file)
