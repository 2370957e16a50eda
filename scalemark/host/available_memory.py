"""Reads how much host memory a process may take without harm to others. Linux only."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

_ROOT = Path("/")


def available_bytes(root: Path = _ROOT) -> int:
    """Return what the kernel calls available, or the limit of our control group where that is
    less.
    """
    text = (root / "proc/meminfo").read_text()
    lines = dict(line.split(":", 1) for line in text.splitlines())
    available = int(lines["MemAvailable"].split()[0]) * 1024  # always in kB
    return min([available, *_limits(root)])


def _limits(root: Path) -> list[int]:
    """Return the limits of our control group and of those above it, of either version."""
    found = []
    for line in (root / "proc/self/cgroup").read_text().splitlines():
        _, controllers, group = line.split(":", 2)
        folder, name = root / "sys/fs/cgroup", "memory.max"
        if "memory" in controllers.split(","):
            folder, name = folder / "memory", "memory.limit_in_bytes"
        elif controllers:
            continue
        own = folder / group.lstrip("/")
        for above in (own, *own.parents):
            # not every group has the file, and `max` is no limit
            with suppress(FileNotFoundError, ValueError):
                found.append(int((above / name).read_text()))
    return found
