"""The all-reduces that trials can have: a file each in `trainer/all_reduces/`."""

from __future__ import annotations

from functools import cache
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "trainer" / "all_reduces"


@cache
def all_reduces() -> tuple[str, ...]:
    """Their names, sorted."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "__init__"))
