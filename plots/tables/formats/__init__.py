"""Formats of tables: each file is one, named like it, with `write`."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Protocol, TextIO

from plots.tables.document import Document
from plots.whole_file import draft_of
from scalemark.text.wording import shortened
from store.errors import StoreError
from store.filters.selection import nearest

# endings of files, too
_SHORT_NAMES = {"md": "markdown", "tex": "latex", "htm": "html", "txt": "terminal"}


class Format(Protocol):
    """A file of this folder."""

    def write(self, documents: Sequence[Document], out: TextIO) -> None:
        """Write all of them, one below the other."""


Write = Callable[[Sequence[Document], TextIO], None]


def names() -> list[str]:
    """Return the names of all formats."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def of_file(path: Path) -> str | None:
    """Return the format for the ending of a file's name; None where it has none. Raises StoreError
    for another ending.
    """
    ending = path.suffix.removeprefix(".").lower()
    if not ending or ending == "txt":
        return None
    if ending not in names() and ending not in _SHORT_NAMES:
        raise StoreError(
            f"--out {shortened(path.name, 60)}: no format has this ending; name one with "
            f"--format, of {', '.join(names())}"
        )
    return ending


def chosen(name: str | None, as_json: bool = False) -> Write:
    """Return the format of this name, else the one for terminals. Raises StoreError for an unknown
    name.
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
