"""Finds a model of the user's own, as `my_model.py:build`, and reads its file without running it.

The reference is part of a trial's identity together with a digest of the file, so that a changed
file is another trial.
"""

from __future__ import annotations

import ast
import difflib
import hashlib
import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

from scalemark.models import ModelError
from scalemark.records.attempt import WORKDIR_VARIABLE

WANTED = "wanted FILE.py:FUNCTION or PACKAGE.MODULE:FUNCTION, as my_model.py:build"
_MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
_MOST_BYTES = 2**24  # of a file of source; larger is a slip
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
    module: str  # the name to import it by
    path: Path
    import_folder: Path  # what the file imports from beside it is found from here
    digest: str  # of the bytes of the file


def find(reference: str, folder: Path) -> OwnModel:
    """Find the file and the function that a reference names; nothing of it is run.

    Raises ModelError, which names the nearest file or function.
    """
    where, _, function = reference.rpartition(":")
    if not where or not function.isidentifier() or not reference.isprintable():
        raise ModelError(f"model={reference!r}: {WANTED}")
    if where.endswith(".py"):
        path = Path(os.path.normpath(folder / Path(where).expanduser()))
        shown = path.relative_to(folder) if path.is_relative_to(folder) else path
        reference, module, import_folder = f"{shown.as_posix()}:{function}", path.stem, path.parent
    elif _MODULE.fullmatch(where):
        module = where
        path, import_folder = _file_of_module(reference, where, folder)
    else:
        raise ModelError(f"model={reference}: {WANTED}")
    source = _read(reference, path)
    _check_defined(reference, path, source, function)
    return OwnModel(
        reference=reference,
        function=function,
        module=module,
        path=path,
        import_folder=import_folder,
        digest=hashlib.sha256(source).hexdigest()[:_DIGITS],
    )


def _file_of_module(reference: str, module: str, folder: Path) -> tuple[Path, Path]:
    """Return the file of a module, and the folder that its package is imported from.

    `importlib.util.find_spec` would import the packages around it.
    """
    parts = module.split(".")
    spec = _spec(reference, parts[0], [str(folder), *sys.path])
    package = list(spec.submodule_search_locations or ())
    import_folder = Path(package[0] if package else str(spec.origin)).parent
    for number in range(2, len(parts) + 1):
        search = list(spec.submodule_search_locations or ())
        spec = _spec(reference, ".".join(parts[:number]), search)
    if not spec.origin or not spec.origin.endswith(".py"):
        raise ModelError(f"model={reference}: {module} has no file of Python source; {WANTED}")
    return Path(spec.origin), import_folder


def _spec(reference: str, name: str, search: list[str]) -> ModuleSpec:
    """Raises ModelError."""
    spec = PathFinder.find_spec(name, search)
    if spec is None:
        package = name.rpartition(".")[0]
        where = f"the package {package}" if package else f"{search[0]}, nor installed"
        raise ModelError(f"model={reference}: there is no module {name} in {where}; {WANTED}")
    return spec


def _read(reference: str, path: Path) -> bytes:
    """Raises ModelError."""
    if not path.is_file():
        if path.exists():
            raise ModelError(f"model={reference}: {path} is no regular file; {WANTED}")
        raise ModelError(f"model={reference}: {path}: there is no such file{_nearest_file(path)}")
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise ModelError(
                f"model={reference}: {path} has {path.stat().st_size} bytes; wanted a file of "
                "Python source"
            )
        return path.read_bytes()
    except OSError as error:
        raise ModelError(f"model={reference}: {path}: {error.strerror}") from None


def _nearest_file(path: Path) -> str:
    try:
        names = sorted(each.name for each in path.parent.iterdir() if each.suffix == ".py")
    except OSError:
        return f"; there is no folder {path.parent}"
    near = difflib.get_close_matches(path.name, names, n=1)
    return f"; did you mean {near[0]}?" if near else ""


@cache
def _defined(source: bytes, file_name: str) -> ast.Module:
    """Parse once per content: a grid asks for each of its cells. Raises SyntaxError, ValueError."""
    return ast.parse(source, file_name)


def _check_defined(reference: str, path: Path, source: bytes, function: str) -> None:
    """Raise ModelError unless the file defines the function, by what its text says."""
    try:
        statements = list(_statements(_defined(source, path.name).body))
    except SyntaxError as error:
        raise ModelError(
            f"model={reference}: {path}, line {error.lineno or 1}: {error.msg}; wanted source of "
            "Python"
        ) from None
    except (ValueError, RecursionError) as error:
        raise ModelError(f"model={reference}: {path}: {error}; wanted source of Python") from None
    known = [name for statement in statements for name in _names(statement)]
    if function not in known:
        if "*" in known:  # from somewhere import *
            return
        near = difflib.get_close_matches(function, known, n=1)
        functions = [each.name for each in statements if isinstance(each, ast.FunctionDef)]
        there = f"it defines {', '.join(functions)}" if functions else "it defines no function"
        hint = f"did you mean {near[0]}?" if near else there
        raise ModelError(f"model={reference}: {path.name} does not define {function}; {hint}")
    for statement in statements:
        if isinstance(statement, ast.AsyncFunctionDef) and statement.name == function:
            raise ModelError(f"model={reference}: {function} is async; wanted a plain function")
        if isinstance(statement, ast.FunctionDef) and statement.name == function:
            needed = _needed(statement.args)
            if needed:
                raise ModelError(
                    f"model={reference}: {function} needs {', '.join(needed)}; wanted a function "
                    "that can be called without arguments"
                )


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


def _needed(arguments: ast.arguments) -> list[str]:
    """Return the arguments that have no default."""
    positional = [*arguments.posonlyargs, *arguments.args]
    needed = [each.arg for each in positional[: len(positional) - len(arguments.defaults)]]
    for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        if default is None:
            needed.append(each.arg)
    return needed
