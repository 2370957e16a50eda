"""How tables are written: each file is one format, named like it, with `write`."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Protocol, TextIO

from plots.tables.document import Document
from plots.whole_file import draft_of
from store.errors import StoreError
from store.filters.selection import nearest

# endings of files, too
_SHORT_NAMES = {"md": "markdown", "tex": "latex", "htm": "html", "txt": "terminal"}


class Format(Protocol):
    """What a file of this folder has."""

    def write(self, documents: Sequence[Document], out: TextIO) -> None:
        """All of them, one below the other."""


Write = Callable[[Sequence[Document], TextIO], None]


def names() -> list[str]:
    """Of all formats."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def of_file(path: Path) -> str | None:
    """The format that the ending of its name tells; None when it tells none."""
    ending = path.suffix.removeprefix(".").lower()
    return ending if ending in names() or ending in _SHORT_NAMES else None


def chosen(name: str | None, as_json: bool = False) -> Write:
    """The format of this name, else the one for terminals. Raises StoreError for a name that is
    none.
    """
    if as_json and name not in (None, "json"):
        raise StoreError(f"--json with --format {name}: give either")
    wanted = "json" if as_json else _SHORT_NAMES.get(name or "terminal", name or "terminal")
    if wanted not in names():
        raise StoreError(f"{wanted[:100]}: no such format; {nearest(wanted[:100], names())}")
    found: Format = import_module(f"{__name__}.{wanted}")
    return found.write


def write_file(documents: Sequence[Document], write: Write, path: Path) -> None:
    """Write the file whole or not at all. Raises StoreError when it cannot be written."""
    try:
        with draft_of(path) as draft, draft.open("w", encoding="utf-8", newline="") as out:
            write(documents, out)
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}; choose another file with --out") from error
