"""Tells the sources of a program from data in a folder, and what each holds: as git lists them,
else as they are found. Standard library only.
"""

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from glob import glob
from itertools import islice
from pathlib import Path

from scalemark.host import software

_SOURCES = (
    *(".py", ".pyx", ".sh", ".bash", ".cu", ".cuh"),
    *(".cpp", ".cxx", ".cc", ".c", ".h", ".hpp", ".jl", ".lua", ".so", ".mk"),
)
CONFIGURATION = (
    *(".yaml", ".yml", ".toml", ".cfg", ".ini", ".gin", ".conf", ".jsonnet", ".libsonnet"),
    *(".j2", ".jinja", ".jinja2", ".pbtxt", ".prototxt", ".textproto"),
)
MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
_WITH_GIT = (*_SOURCES, *CONFIGURATION, ".json")  # what git knows is not written by each run
_EXECUTABLE = b"100755"  # the mode of a file
_LINK = b"120000"
_SUBMODULE = b"160000"
MOST_SOURCES = 5_000  # of a folder that is in no checkout
_MOST_ENTRIES = 10_000  # that are no source, one after the other: data may lie below a script
_DEEPEST = 12  # folders below it
_ENVIRONMENTS = ("pyvenv.cfg", "conda-meta")  # a folder with one of them is installed software
_NOT_ITS_CODE = frozenset(  # but installed, or written by each run, as the copies of W&B
    {
        *("site-packages", "dist-packages", "node_modules", "__pycache__"),
        *("wandb", "mlruns", "lightning_logs", "torch_compile_debug", "unsloth_compiled_cache"),
    }
)
_MOST_SEARCHED_BYTES = 2**20  # of one source
_OUTPUT = re.compile(
    r"-*(.*[-_])?(o|out|output|outfile|save|log|logs|logging|result|results|metrics|dump)([-_].*)?"
)
_IMPORTS = re.compile(rb"^[ \t]*(?:import|from)[ \t].*$", re.MULTILINE)
_TOP_LEVEL_KEY = re.compile(rb"^(\w+):", re.MULTILINE)
COMMAND_KEYS = frozenset(
    b"run name read item items_per_step per_gpu flops_per_item".split()
    + b"takes_apart compare shell".split()
)
"""Settings of a file for `command=`."""


class UnknownCodeError(Exception):
    """The sources of a program cannot be listed."""


def is_written_by_name(name: str) -> bool:
    """Return whether an option, or a file without its ending, is called as what programs write."""
    return _OUTPUT.fullmatch(name) is not None


def is_source(name: str, mode: bytes = b"") -> bool:
    """Return whether a file, whose mode git knows or not, is code or configuration."""
    folder, _, own_name = name.rpartition("/")
    if own_name.startswith(".") or folder.startswith(".") or "/." in folder:
        return False
    if own_name in MAKEFILES:
        return True
    if mode:
        if own_name.endswith(".json") and is_written_by_name(own_name.removesuffix(".json")):
            return False  # a program writes it
        is_program = mode == _EXECUTABLE and "." not in own_name
        return is_program or own_name.endswith(_WITH_GIT)
    if not _NOT_ITS_CODE.isdisjoint(folder.split("/")):
        return False
    if own_name.endswith(CONFIGURATION):
        # elsewhere programs write such files, one for each of their runs
        return not folder or any(part.startswith(("conf", "cfg")) for part in folder.split("/"))
    return own_name.endswith(_SOURCES)


def held_by(root: Path, state: software.Checkout | None) -> dict[str, str]:
    """Return what each source file holds, by its name: as git lists them, else as they are found.

    Git may be missing, refuse another user's checkout, or take too long. Raises UnknownCodeError.
    """
    files = _files_of_checkout(root, state)
    if files is None:
        files = {}
        for file in found_below(root):
            if len(files) == MOST_SOURCES:
                raise UnknownCodeError
            files[str(file.relative_to(root))] = software.git_content(file)
    for name in list(files):
        if name.endswith((".yaml", ".yml")) and is_of_command(root / name):
            del files[name]
    return files


def is_of_command(file: Path) -> bool:
    """Return whether it is a file as `command=` takes it, whose settings the trial has already."""
    with suppress(OSError):
        keys = set(_TOP_LEVEL_KEY.findall(file.read_bytes()))
        return b"run" in keys and keys <= COMMAND_KEYS
    return False


def _files_of_checkout(root: Path, state: software.Checkout | None) -> dict[str, str] | None:
    """Return the digests of sources that git knows or would add; None where git does not answer.

    Contents are named as git names them, so that an edit is the same before and after its commit.
    """
    staged = software.git(root, "ls-files", "--stage", "-v", "-z")
    if staged is None or state is None:
        return None
    files: dict[str, str] = {}
    for entry in filter(None, staged.split(b"\0")):
        described, _, encoded = entry.partition(b"\t")
        tag, mode, content, _ = described.split()
        name = os.fsdecode(encoded)
        if mode == _SUBMODULE:
            inner = _files_of_checkout(root / name, software.checkout(root / name))
            if inner is None and (root / name / ".git").exists():
                raise UnknownCodeError
            for own_name, digest in (inner or {}).items():
                files[f"{name}/{own_name}"] = digest
        elif mode == _LINK and (root / name).is_dir():
            if not (root / name).resolve().is_relative_to(root.resolve()):
                for file in found_below(root / name):
                    files[str(file.relative_to(root))] = software.git_content(file)
        elif is_source(name, mode):
            files[name] = content.decode()
            is_not_compared = tag != b"H" and (root / name).exists()  # `--assume-unchanged`
            if mode == _LINK or is_not_compared:
                files[name] = software.git_content(root / name)
    for name in state.edited:
        if name in files and (root / name).exists():
            files[name] = software.git_content(root / name)
        else:
            files.pop(name, None)
    for name in [*filter(is_source, state.untracked), *_beside(root, files)]:
        files[name] = software.git_content(root / name)
    return files


def _beside(root: Path, files: Mapping[str, str]) -> Iterator[str]:
    """Yield modules that git ignores in folders of modules that it knows, as generated ones, and
    those of packages there that it ignores and sources import.
    """
    known = [root / name for name in files if name.endswith(".py")]
    folders = {file.parent for file in known}
    packages = []
    for folder in sorted(folders):
        with suppress(OSError):
            for file in sorted(folder.iterdir()):
                name = str(file.relative_to(root))
                if file.name.startswith(".") or name in files:
                    continue
                if file.name.endswith(_SOURCES) and file.is_file():
                    yield name
                # that of pathlib raises where the folder is removed meanwhile
                elif file not in folders and glob("*.py", root_dir=file):  # noqa: PTH207
                    packages.append(file)
    if packages:
        imported: set[str] = set().union(*(imported_by(text_of(file)) for file in known))
        for package in packages:
            if package.name in imported:
                yield from (str(file.relative_to(root)) for file in found_below(package))


def found_below(place: Path, wanted: Callable[[str], bool] = is_source) -> Iterator[Path]:
    """Yield the files of source in a folder and below it, those of upper folders first; or files
    whose relative names are `wanted`.
    """
    level = [place]
    num_without: Counter[tuple[str, ...]] = Counter()  # entries since the last file, of a branch
    for _ in range(_DEEPEST + 1):
        below: list[Path] = []
        for folder in level:
            branch = folder.relative_to(place).parts[:1]
            if num_without[branch] > _MOST_ENTRIES:
                continue
            if folder != place and not may_be_its_code(folder):
                continue
            files, folders = [], []
            with suppress(OSError), os.scandir(folder) as entries:
                for entry in entries:
                    num_without[branch] += 1
                    if entry.name.startswith("."):
                        continue
                    if entry.is_dir():
                        folders.append(Path(entry.path))
                    elif wanted(os.path.relpath(entry.path, place)) and entry.is_file():
                        files.append(Path(entry.path))
                        num_without[branch] = 0
            yield from sorted(files)
            below += sorted(folders)
        level = below


def sources_below(place: Path) -> Iterator[Path]:
    return islice(found_below(place, lambda name: name.endswith(_SOURCES)), MOST_SOURCES)


def may_be_its_code(folder: Path) -> bool:
    if folder == folder.parent:  # the "/" of a path that is joined, with a folder `sys`
        return False
    if folder.name in _NOT_ITS_CODE or software.is_of_a_sweep(folder):
        return False
    return not any((folder / name).exists() for name in _ENVIRONMENTS)


def text_of(source: Path) -> bytes:
    """Return what a source holds; nothing of a large one, and of one that was removed meanwhile."""
    with suppress(OSError):
        if source.stat().st_size <= _MOST_SEARCHED_BYTES:
            return source.read_bytes()
    return b""


def imported_by(text: bytes) -> set[str]:
    """Return all words of the imports of a source, modules among them."""
    return set(map(os.fsdecode, re.findall(rb"\w+", b" ".join(_IMPORTS.findall(text)))))
