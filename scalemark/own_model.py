"""Finds a model of the user's own, as `my_model.py:build`, and reads its file without running it.

The reference is part of a trial's identity together with a digest of the file, so that a changed
file is another trial.
"""

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import decode_source
from pathlib import Path
from symtable import symtable

from scalemark.models import ModelError
from scalemark.records.attempt import WORKDIR_VARIABLE
from scalemark.run_folder import open_regular
from scalemark.text.wording import did_you_mean

WANTED = "wanted FILE.py:FUNCTION, as my_model.py:build"
_DIGITS = 12  # of the digest: enough to tell the versions of one file apart


def is_own(model: str) -> bool:
    """Return whether this names a model of the user's own, and none of scalemark/models/."""
    return ":" in model


def folder_of(environment: Mapping[str, str]) -> Path:
    """Return the folder that a trainer's references start from: the sweep's."""
    return Path(environment.get(WORKDIR_VARIABLE) or Path.cwd())


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnModel:
    """A function that returns a Keras model, and the file that defines it."""

    reference: str  # one spelling for each: `my_model.py:build` relative to the sweep's folder
    function: str
    path: Path
    digest: str  # of the bytes of the file


def find(reference: str, folder: Path) -> OwnModel:
    """Find the file and the function that a reference names; nothing of it is run.

    Raises ModelError, which names the nearest file or function.
    """
    where, _, function = reference.rpartition(":")
    is_of_file = where.endswith(".py") and function.isidentifier()
    if not is_of_file or not reference.isprintable():
        raise ModelError(f"model={reference!r}: {WANTED}")
    path = Path(os.path.normpath(folder / Path(where).expanduser()))
    shown = path
    if path.is_relative_to(folder):
        shown = path.relative_to(folder)
    reference = f"{shown.as_posix()}:{function}"
    if not os.access(path, os.F_OK):  # also of a name that is too long
        raise ModelError(f"model={reference}: {path}: there is no such file; {_nearest_file(path)}")
    try:
        with open_regular(path, follows_links=True) as file:
            source = file.read()
    except OSError as error:
        raise ModelError(f"model={reference}: {path}: {error.strerror}; {WANTED}") from None
    _check_defined(reference, path, source, function)
    digest = hashlib.sha256(source).hexdigest()[:_DIGITS]
    return OwnModel(reference=reference, function=function, path=path, digest=digest)


def _nearest_file(path: Path) -> str:
    try:
        names = sorted(each.name for each in path.parent.iterdir() if each.suffix == ".py")
    except OSError:
        return f"there is no folder {path.parent}"
    return did_you_mean(path.name, names, f"{path.parent} has no file of a name like it")


@cache
def _defined(source: bytes, file_name: str) -> Sequence[str]:
    """Return the names that the text of a module defines or imports, once per content: a grid asks
    for each of its cells. Raises SyntaxError, ValueError.
    """
    names = []
    for symbol in symtable(decode_source(source), file_name, "exec").get_symbols():
        if symbol.is_assigned() or symbol.is_imported():
            names.append(symbol.get_name())
    return names


def _check_defined(reference: str, path: Path, source: bytes, function: str) -> None:
    """Raise ModelError unless the file defines the function, by what its text says."""
    try:
        known = _defined(source, path.name)
    except SyntaxError as error:
        raise ModelError(
            f"model={reference}: {path}, line {error.lineno or 1}: {error.msg}; wanted source of "
            "Python"
        ) from None
    except (ValueError, RecursionError) as error:
        raise ModelError(f"model={reference}: {path}: {error}; wanted source of Python") from None
    if function not in known and b"import *" not in source:
        hint = did_you_mean(function, known, "define it there, or name another function")
        raise ModelError(f"model={reference}: {path.name} does not define {function}; {hint}")
