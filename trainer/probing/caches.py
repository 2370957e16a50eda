"""Reads how much the last-level caches hold of the cores that this process may use."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

_CPUS = Path("/sys/devices/system/cpu")


def last_level_bytes(cpus: Iterable[int] | None = None, folder: Path = _CPUS) -> int:
    """Count a cache that cores share once; 0 where the kernel does not say."""
    found: dict[str, int] = {}  # by the cores that share it
    for cpu in os.sched_getaffinity(0) if cpus is None else cpus:
        caches = []
        for path in (folder / f"cpu{cpu}" / "cache").glob("index*"):
            with suppress(FileNotFoundError):  # some virtual machines tell no sizes
                caches.append(_cache(path))
        if caches:
            _, shared_by, size = max(caches)
            found[shared_by] = size
    return sum(found.values())


def _cache(path: Path) -> tuple[int, str, int]:
    """Return level, cores and bytes; the kernel writes sizes as 32768K."""
    size = (path / "size").read_text().strip().removesuffix("K")
    shared_by = (path / "shared_cpu_list").read_text().strip()
    return int((path / "level").read_text()), shared_by, int(size) * 1024
