"""Finds and reads what a program left below its run folder, of bounded number and size."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator
from pathlib import Path

from scalemark.run_folder.regular_file import read_regular

MOST_FILES = 10_000
MOST_DEPTH = 8


def files_below(folder: Path) -> Iterator[Path]:
    """Yield at most MOST_FILES files, those of upper folders first. Links are not followed."""
    level, seen = [folder], 0
    for _ in range(MOST_DEPTH):
        below: list[Path] = []
        for one in level:
            for entry in _entries(one):
                seen += 1
                if seen > MOST_FILES:
                    return
                if entry.is_dir(follow_symlinks=False):
                    below.append(Path(entry.path))
                elif entry.is_file(follow_symlinks=False):
                    yield Path(entry.path)
        level = below


def named_below(folder: Path, names: Collection[str]) -> list[Path]:
    """Return the files of these names, those of upper folders first."""
    return [path for path in files_below(folder) if path.name in names]


def read_text(path: Path) -> str | None:
    """Return the text of a file; None where it cannot be read or is no text."""
    try:
        return read_regular(path)
    except (OSError, ValueError):
        return None


def read_json(path: Path) -> object:
    """Return the content of a JSON file; None where it has none."""
    try:
        content: object = json.loads(read_text(path) or "null")
    except (ValueError, RecursionError):
        return None
    return content


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return []  # it was removed meanwhile, or may not be read
