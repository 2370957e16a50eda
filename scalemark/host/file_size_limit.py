"""Says what the limit of the size of files is, where a write may have met it."""

from __future__ import annotations

import resource
from pathlib import Path

NEAR_BYTES = 2**20  # what SQLite writes beside a file, at once


def limit_met(*paths: Path) -> str:
    """Say how large files may grow, where one of these is about as large; else return nothing."""
    most_bytes, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    if most_bytes == resource.RLIM_INFINITY:
        return ""
    largest = max((path.stat().st_size for path in paths if path.exists()), default=0)
    if largest + NEAR_BYTES < most_bytes:
        return ""
    return f"files may grow to {most_bytes / 1024:g} KiB at most here; raise that limit (ulimit -f)"
