"""Finds the file of a program, as the folder where it runs sees it."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from scalemark.text.wording import counted

PYTHON = re.compile(r"python[\d.]*")
"""Names of its interpreters."""

SCRIPTS = (".py", ".sh")
"""Endings of their names."""


def found(name: str, path: str, folder: Path) -> str | None:
    """Return the file; None where there is none. `path` is the variable PATH of the program."""
    if "/" in name:
        at = folder / name
        return str(at) if at.is_file() else None
    entries = [str(folder / entry) for entry in path.split(os.pathsep)]
    return shutil.which(name, path=os.pathsep.join(entries))


def not_found(name: str, path: str, folder: Path) -> str:
    """Say why `found` finds none, and what to do."""
    if "/" in name:
        what = "is no file" if (folder / name).exists() else "is not there"
        return f"{folder / name} {what}; wanted a program, by a path from {folder} or in PATH"
    near = [entry for entry in path.split(os.pathsep) if (folder / entry / name).is_file()]
    if near:
        return f"{Path(near[0]) / name} is not executable; chmod +x it, or name its interpreter"
    here = f"; in {folder} there is one: write ./{name}" if (folder / name).is_file() else ""
    hint = here or "; activate the environment that has it, or name it by its path"
    folders = counted(len(path.split(os.pathsep)), "folder")
    return f"{name}: no such program in the {folders} of PATH{hint}"


def not_executable(file: str) -> str:
    """Say what to do about a file that has not the permission to be started."""
    return f"{file} is not executable; chmod +x it, or name its interpreter before it"


def problem(words: Sequence[str], path: str, folder: Path) -> str:
    """Say which file of a command line is missing, the program or the script of its Python; empty
    where none is.
    """
    file = found(words[0], path, folder)
    if file is None:
        return not_found(words[0], path, folder)
    if not os.access(file, os.X_OK):
        return not_executable(file)
    script = words[1] if len(words) > 1 and PYTHON.fullmatch(Path(words[0]).name) else ""
    if script.endswith(".py") and not (folder / script).is_file():
        return f"{folder / script} is not there; wanted a script, by a path from {folder}"
    return ""
