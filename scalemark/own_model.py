"""Finds a model of the user's own, as `my_model.py:build`, and reads its file without running it.

The reference is part of a trial's identity together with a digest of the file, so that a changed
file is another trial.
"""

import ast
import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from scalemark.models import ModelError
from scalemark.records.attempt import WORKDIR_VARIABLE
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
    if not path.exists():
        raise ModelError(f"model={reference}: {path}: there is no such file; {_nearest_file(path)}")
    try:
        source = path.read_bytes()
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
def _defined(source: bytes, file_name: str) -> ast.Module:
    """Parse once per content: a grid asks for each of its cells. Raises SyntaxError, ValueError."""
    return ast.parse(source, file_name)


def _check_defined(reference: str, path: Path, source: bytes, function: str) -> None:
    """Raise ModelError unless the file defines the function, by what its text says."""
    try:
        statements = _statements(_defined(source, path.name).body)
        known = [name for statement in statements for name in _names(statement)]
    except SyntaxError as error:
        raise ModelError(
            f"model={reference}: {path}, line {error.lineno or 1}: {error.msg}; wanted source of "
            "Python"
        ) from None
    except (ValueError, RecursionError) as error:
        raise ModelError(f"model={reference}: {path}: {error}; wanted source of Python") from None
    if function not in known and "*" not in known:  # from somewhere import *
        hint = did_you_mean(function, known, "define it there, or name another function")
        raise ModelError(f"model={reference}: {path.name} does not define {function}; {hint}")


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a module, those under its own if, try and with, too."""
    for statement in body:
        yield statement
        if isinstance(statement, ast.If | ast.Try | ast.With):
            for name in ("body", "orelse", "finalbody"):
                yield from _statements(getattr(statement, name, []))
            for handler in getattr(statement, "handlers", []):
                yield from _statements(handler.body)


def _names(statement: ast.stmt) -> Iterator[str]:
    """Yield what a statement defines."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield statement.name
    elif isinstance(statement, ast.Import | ast.ImportFrom):
        for alias in statement.names:
            yield alias.asname or alias.name
    elif isinstance(statement, ast.Assign):
        for target in statement.targets:
            yield from (each.id for each in ast.walk(target) if isinstance(each, ast.Name))
    elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        yield statement.target.id
