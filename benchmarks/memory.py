"""Memory of a process and all that it started."""

from __future__ import annotations

import psutil


def tree_bytes(process: psutil.Process) -> int:
    """Resident bytes of a process and its descendants; shared pages are counted once per
    process.
    """
    total = 0
    for member in (process, *process.children(recursive=True)):
        try:
            total += member.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return total
