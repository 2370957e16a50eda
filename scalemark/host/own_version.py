"""Tells the version of scalemark, also where a checkout is run that was never installed."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version

NOT_INSTALLED = "not installed"


@cache
def own_version() -> str:
    """Return the version of scalemark; `not installed` where its package is not."""
    try:
        return version("scalemark")
    except PackageNotFoundError:
        return NOT_INSTALLED
