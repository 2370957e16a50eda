"""The names that trials can have of what the trainer owns, as its all-reduces and precisions: the
folder is the registry.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "trainer"


@cache
def names(folder: str) -> tuple[str, ...]:
    """Of the files in `trainer/<folder>/`, sorted; without importing any of them."""
    return tuple(
        sorted(path.stem for path in (FOLDER / folder).glob("*.py") if path.stem != "__init__")
    )
