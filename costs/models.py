"""The models that can be trained here: a file each in `conf/model/`."""

from __future__ import annotations

from functools import cache
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "conf" / "model"


@cache
def trainable() -> frozenset[str]:
    """Their names; the cost model knows more."""
    return frozenset(path.stem for path in FOLDER.glob("*.yaml"))
