"""Ends what a program has started when the process that watches it is killed.

```
  watcher ── pipe ──►  guard, in a session of its own
     └── program ── its children, each with SCALEMARK_RUN_DIR and _HOST_RANK in its environment
```

SIGKILL to the watcher's group reaches neither sessions that the program has made nor what it sent
into the background. The guard sees the pipe end, and finds them by their environment.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

_ROUNDS = 100  # a process that goes on forking is chased for so long


class Guard:
    """A process that does nothing until this one has ended."""

    def __init__(self, marker: Collection[bytes]) -> None:
        """`marker` are entries of the environment that only this program's processes have all.

        Fork it before threads are started and the program is. Raises OSError.
        """
        ours, its = os.pipe()[::-1]
        self._ours = ours
        self.pid = os.fork()
        if self.pid == 0:
            _stand_by(its, marker)
        os.close(its)

    def close(self) -> None:
        """Send it home: all has ended."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._ours)


def _stand_by(pipe: int, marker: Collection[bytes]) -> NoReturn:
    """Never return into the program that was forked."""
    try:
        os.setsid()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        kept = os.dup2(pipe, 0)  # and with all others its own copy of the writing end is closed
        os.closerange(1, 1024)
        os.read(kept, 1)
        for _ in range(_ROUNDS):
            if not _kill_marked(marker):
                break
    finally:
        os._exit(0)


def _kill_marked(marker: Collection[bytes]) -> int:
    """Kill what has the marker in its environment; return how many there were."""
    wanted, num_killed = frozenset(marker), 0
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is another user's
            if int(process.name) == os.getpid():
                continue
            if wanted <= set((process / "environ").read_bytes().split(b"\0")):
                os.kill(int(process.name), signal.SIGKILL)
                num_killed += 1
    return num_killed
