"""Finds the source files of a user's program, wherever they may be, and digests what they hold.

Contents count, not commits: a change of a README, a log that a program writes, or the commit of an
edit that was measured already makes no other program. Standard library only.
"""

from __future__ import annotations

import hashlib
import os
import re
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from scalemark.host import software
from scalemark.host.own_code import ROOT
from scalemark.program.template import PYTHON, SCRIPTS

_SOURCES = (
    *(".py", ".pyx", ".sh", ".bash", ".cu", ".cuh"),
    *(".cpp", ".cxx", ".cc", ".c", ".h", ".hpp", ".jl", ".lua"),
)
_CONFIGURATION = (".yaml", ".yml", ".toml", ".cfg", ".ini", ".gin")
_WITH_GIT = (*_SOURCES, *_CONFIGURATION, ".json")  # what git knows is not written by each run
_EXECUTABLE = b"100755"  # the mode of a file
_SUBMODULE = b"160000"
_MOST_SOURCES = 2_000  # of a folder that is in no checkout
_MOST_ENTRIES = 10_000  # of folders that are looked at: data may lie below a script
_DEEPEST = 4  # folders below it
_ENVIRONMENTS = ("pyvenv.cfg", "conda-meta")  # a folder with one of them is installed software
_NOT_ITS_CODE = ("site-packages", "dist-packages", "node_modules", "__pycache__")
MOST_WORDS = 200  # of a command line that are looked at
_WRITTEN = (".log", ".out", ".err")  # a program writes into these
_OPTION_OF_OUTPUT = re.compile(
    r"-+(.*[-_])?(o|out|output|outfile|save|log|logs|logging|result|results|metrics|dump)([-_].*)?"
)
_UNKNOWN_CODE = "unknown-"
_TOP_LEVEL_KEY = re.compile(rb"^(\w+):", re.MULTILINE)
COMMAND_KEYS = frozenset(b"run name read item items_per_step per_gpu compare shell uses".split())
"""Settings of a file for `command=`."""


class UnknownCodeError(Exception):
    """The sources of a program cannot be listed."""


def code_of(words: Sequence[str], folder: Path, imported: Iterable[Path]) -> dict[str, str]:
    """Describe the code of the program that a command line starts in a folder.

    `imported` are folders outside of it that its interpreter looks for modules in. `commit` is of
    the checkout that holds the program, for people; `code` is a digest of all sources, a name that
    equals no other where they cannot be known, or empty without any; `files` is a digest of files
    that words name.
    """
    digest = hashlib.sha256()
    places = list(_places(words, folder, imported))
    num_files = 0
    try:
        for place in places:
            files = _files_below(place)
            num_files += len(files)
            for name, content in sorted(files.items()):
                digest.update(f"{name}\0{content}\n".encode(errors="surrogateescape"))
        code = digest.hexdigest()[:16] if num_files else ""
    except UnknownCodeError:
        code = _never_equal(os.getpid())
    checkout = _checkout_of(places[0])
    commit = software.commit(checkout) if checkout else ""
    return {"commit": commit, "code": code, "files": _files_digest(words, folder)}


def is_unknown(code: str) -> bool:
    """Return whether a digest of `code_of` stands for code that could not be listed."""
    return code.startswith(_UNKNOWN_CODE)


@cache
def _never_equal(pid: int) -> str:
    """Return a name of unknown code that no other process uses, forked ones included."""
    return f"{_UNKNOWN_CODE}{pid}-{uuid.uuid4().hex[:16]}"


def _places(words: Sequence[str], folder: Path, imported: Iterable[Path]) -> Iterator[Path]:
    """Yield the folders that hold a program's code, each once, checkouts as a whole."""
    folder = folder.resolve()
    places = [_folder_of_code(words, folder)]
    places += [place.resolve() for place in imported]
    yielded: list[Path] = []
    for place in places:
        root = _checkout_of(place) or place
        # scalemark itself has a version of its own
        is_ours = root == ROOT and place != places[0]
        is_yielded = any(root.is_relative_to(other) for other in yielded)
        if not is_ours and not is_yielded and root.is_dir():
            yielded.append(root)
            yield root


def _folder_of_code(words: Sequence[str], folder: Path) -> Path:
    """Return the folder it runs in, which may hold modules of a script below it; of a script that
    is elsewhere its own folder, or the one above where it changes `sys.path`.
    """
    script = _script(words, folder)
    if script is None:
        return folder
    place = script.parent
    if not place.is_relative_to(folder):
        with suppress(OSError):
            if b"sys.path" in script.read_bytes():
                return place.parent
        return place
    if folder == Path.home().resolve() and place != folder:
        return folder / place.relative_to(folder).parts[0]
    return folder


def _script(words: Sequence[str], folder: Path) -> Path | None:
    for word in words[:MOST_WORDS]:
        if word.endswith(SCRIPTS) and (folder / word).is_file():
            return (folder / word).resolve()
    return None


def _checkout_of(place: Path) -> Path | None:
    """Return the git checkout that a folder is in."""
    for above in (place, *place.parents):
        if (above / ".git").exists():
            return above
    return None


def _files_below(root: Path) -> dict[str, str]:
    """Return what each source file holds, by its name: as git lists them, else as they are found.

    Git may be missing, refuse another user's checkout, or take too long. Raises UnknownCodeError.
    """
    files = _files_of_checkout(root)
    if files is None:
        files = {}
        for file in _found_below(root):
            if len(files) == _MOST_SOURCES:
                raise UnknownCodeError
            files[str(file.relative_to(root))] = _content(file)
    for name in list(files):
        if name.endswith((".yaml", ".yml")) and _is_of_command(root / name):
            del files[name]
    return files


def _is_of_command(file: Path) -> bool:
    """Return whether it is a file as `command=` takes it, whose settings the trial has already."""
    with suppress(OSError):
        keys = set(_TOP_LEVEL_KEY.findall(file.read_bytes()))
        return b"run" in keys and keys <= COMMAND_KEYS
    return False


def _files_of_checkout(root: Path) -> dict[str, str] | None:
    """Return the digests of sources that git knows or would add; None where git does not answer.

    Contents are named as git names them, so that an edit is the same before and after its commit.
    """
    staged = software.git(root, "ls-files", "--stage", "-z")
    changed = software.git(root, "diff-files", "--name-only", "-z")
    untracked = software.git(root, "ls-files", "--others", "--exclude-standard", "-z")
    if staged is None or changed is None or untracked is None:
        return None
    files: dict[str, str] = {}
    for entry in filter(None, staged.split(b"\0")):
        described, _, encoded = entry.partition(b"\t")
        mode, content, _ = described.split()
        name = os.fsdecode(encoded)
        if mode == _SUBMODULE:
            for inner, inner_content in (_files_of_checkout(root / name) or {}).items():
                files[f"{name}/{inner}"] = inner_content
        elif _is_source(name, mode):
            files[name] = content.decode()
    for name in map(os.fsdecode, filter(None, changed.split(b"\0"))):
        if name in files and (root / name).exists():
            files[name] = _content(root / name)
        else:
            files.pop(name, None)
    for name in map(os.fsdecode, filter(None, untracked.split(b"\0"))):
        is_of_a_sweep = any(software.is_of_a_sweep(root / above) for above in Path(name).parents)
        if _is_source(name) and not is_of_a_sweep:
            files[name] = _content(root / name)
    return files


def _is_source(name: str, mode: bytes = b"") -> bool:
    """Return whether a file, whose mode git knows or not, is code or configuration."""
    folder, _, own_name = name.rpartition("/")
    if own_name.startswith(".") or folder.startswith(".") or "/." in folder:
        return False
    if mode:
        is_program = mode == _EXECUTABLE and "." not in own_name
        return is_program or own_name.endswith(_WITH_GIT)
    if own_name.endswith(_CONFIGURATION):
        # elsewhere programs write such files, one for each of their runs
        return not folder or any(part.startswith(("conf", "cfg")) for part in folder.split("/"))
    return own_name.endswith(_SOURCES)


def _content(file: Path) -> str:
    """Return git's name of what a file holds."""
    try:
        content = file.read_bytes()
    except OSError:
        return "unreadable"  # or removed meanwhile
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def _found_below(place: Path) -> Iterator[Path]:
    """Yield the files of source in a folder and below it, those of upper folders first."""
    level, num_seen = [place], 0
    for _ in range(_DEEPEST + 1):
        below: list[Path] = []
        for folder in level:
            if num_seen > _MOST_ENTRIES or not (folder == place or _may_be_its_code(folder)):
                continue
            files, folders = [], []
            with suppress(OSError), os.scandir(folder) as entries:
                for entry in entries:
                    num_seen += 1
                    if entry.name.startswith("."):
                        continue
                    if entry.is_dir():
                        folders.append(Path(entry.path))
                    elif _is_source(os.path.relpath(entry.path, place)) and entry.is_file():
                        files.append(Path(entry.path))
            yield from sorted(files)
            below += sorted(folders)
        level = below


def _may_be_its_code(folder: Path) -> bool:
    if folder.name in _NOT_ITS_CODE or software.is_of_a_sweep(folder):
        return False
    return not any((folder / name).exists() for name in _ENVIRONMENTS)


def _files_digest(words: Sequence[str], folder: Path) -> str:
    """Digest the files that a command line names, as `my.yaml`, `--config=my.yaml` and `./train`.

    Python programs and scripts are left out, which are found in other ways, and what an option of
    output names. Of a large file its size counts. Empty without any.
    """
    digest, num_found = hashlib.sha256(), 0
    option = ""
    for word in words[:MOST_WORDS]:
        before, _, name = word.rpartition("=")
        is_output = _OPTION_OF_OUTPUT.fullmatch(before or option) or name.endswith(_WRITTEN)
        option = word if word.startswith("-") else ""
        if is_output or name.endswith(SCRIPTS) or PYTHON.fullmatch(Path(name).name):
            continue
        with suppress(OSError, ValueError):  # a name that is too long, or has a null character
            if (folder / name).is_file():
                digest.update(os.fsencode(name) + b"\0" + software.content(folder / name))
                num_found += 1
    return digest.hexdigest()[:16] if num_found else ""
