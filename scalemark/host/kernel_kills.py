"""Tells whether the kernel kills processes for lack of host memory."""

from __future__ import annotations

from pathlib import Path


def num_kernel_kills() -> int:
    """How many processes of our control group the kernel has killed for memory; 0 where it does not
    say.
    """
    try:
        group = Path("/proc/self/cgroup").read_text().strip().rpartition(":")[2]
        events = Path(f"/sys/fs/cgroup{group}/memory.events").read_text()
    except OSError:
        return 0
    return next(
        (int(line.split()[1]) for line in events.splitlines() if line.startswith("oom_kill ")), 0
    )
