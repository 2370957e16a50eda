"""Finds the folder where what takes a while to make is kept: data sets, answers, peaks."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def cache_folder(variables: Mapping[str, str] = os.environ) -> Path:
    """Return SCALEMARK_CACHE, else `scalemark` in the user's cache folder.

    Raises RuntimeError for a user without a home, as a container may have.
    """
    if chosen := variables.get("SCALEMARK_CACHE"):
        return Path(chosen)
    caches = variables.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(caches) / "scalemark"
