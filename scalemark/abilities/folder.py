"""Reads the declarations of the files in one folder."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Generic, TypeVar

PROJECT = Path(__file__).resolve().parents[2]
_BELOW = re.compile(
    r"^(?:import|from) (?:tensorflow|keras|numpy|trainer|conf|sweeper)\b", re.MULTILINE
)

A = TypeVar("A")


class AbilitiesError(Exception):
    """A file does not declare what others must know about its name. The text names both."""


@cache
def names(folder: str) -> tuple[str, ...]:
    """Return the names that a folder as `trainer/precisions` offers, sorted."""
    files = [file for file in (PROJECT / folder).iterdir() if file.suffix == ".py"]
    return tuple(sorted(file.stem for file in files if file.stem != "__init__"))


def preferring(first: Iterable[str], others: Iterable[str]) -> tuple[str, ...]:
    """Return each name once, `first` ahead: the first that can run is what `auto` means."""
    return tuple(dict.fromkeys((*first, *others)))


class Folder(Mapping[str, A], Generic[A]):
    """Maps the names of a folder to the abilities that their files declare, and reads each once."""

    def __init__(self, folder: str, kind: type[A]) -> None:
        self._folder, self._kind = folder, kind
        self._read: dict[str, A] = {}

    def __getitem__(self, name: str) -> A:
        """Raises KeyError where there is no file, AbilitiesError where it declares too little."""
        if name not in self._read:
            if name not in names(self._folder):
                raise KeyError(name)
            self._read[name] = _declared(f"{self._folder}/{name}.py", self._kind)
        return self._read[name]

    def __iter__(self) -> Iterator[str]:
        return iter(names(self._folder))

    def __len__(self) -> int:
        return len(names(self._folder))

    def check(self) -> None:
        """Read every file. Raises AbilitiesError for the first that declares too little."""
        for name in self:
            self[name]


def _declared(file: str, kind: type[A]) -> A:
    text = (PROJECT / file).read_text(encoding="utf-8")
    below = _BELOW.search(text)
    head = text[: below.start()] if below else text
    module = ModuleType(f"{__name__}:{file}")
    sys.modules[module.__name__] = module  # where dataclasses look for the types of their fields
    try:
        exec(compile(head, file, "exec", dont_inherit=True), module.__dict__)  # our own file
    except (ImportError, NameError, SyntaxError, TypeError, ValueError) as error:
        raise AbilitiesError(
            f"{file}: its ABILITIES cannot be read, {error}; {_wanted(kind)}"
        ) from error
    abilities = getattr(module, "ABILITIES", None)
    if not isinstance(abilities, kind):
        raise AbilitiesError(f"{file}: declares no ABILITIES; {_wanted(kind)}")
    return abilities


def _wanted(kind: type) -> str:
    where = kind.__module__.replace(".", "/")
    return (
        f"wanted ABILITIES = {kind.__name__}(...) above its first import of tensorflow, "
        f"trainer, conf or sweeper, "
        f"with what {where}.py asks for"
    )
