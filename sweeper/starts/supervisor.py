"""Kills what trainers started when the orchestrator dies, even by SIGKILL.

```
  orchestrator ── "+123", "-123" ──►  supervisor: when the pipe ends, SIGKILL to groups listed
       └── starts ──►  trainer 123 ── starts ──►  sampler and others, all in group 123
```

Linux kills a trainer whose parent dies, but not what that trainer has started, and before a thread
of the trainer could do it.
"""

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress


class Supervisor:
    """Talks to a supervisor process, which is started with the first group."""

    def __init__(self) -> None:
        self._groups: set[int] = set()
        self._process: subprocess.Popen[bytes] | None = None

    def add(self, group: int) -> None:
        self._groups.add(group)
        self._send(f"+{group}\n")

    def remove(self, group: int) -> None:
        """Call before the number of the group may become another's."""
        self._groups.remove(group)
        if self._process:
            self._send(f"-{group}\n")

    def close(self) -> None:
        """End the supervisor, which kills what is still listed."""
        if self._process:
            assert self._process.stdin
            self._process.stdin.close()
            self._process.send_signal(signal.SIGCONT)  # if somebody stopped it, it would never end
            self._process.wait()
            self._process = None

    def _send(self, text: str) -> None:
        process = self._process or self._start()
        assert process.stdin
        try:
            process.stdin.write(text.encode())
        except BrokenPipeError:  # somebody killed it: the next one is reported everything
            self.close()
            self._send("".join(f"+{group}\n" for group in self._groups))

    def _start(self) -> subprocess.Popen[bytes]:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,  # whoever ends our group leaves it to do its work
            bufsize=0,
        )
        return self._process


def supervise(lines: Iterable[str]) -> None:
    """Kill the groups that were added and not removed when `lines` ends."""
    groups: set[int] = set()
    for line in lines:
        change, group = line[0], int(line[1:])
        if change == "+":
            groups.add(group)
        else:
            groups.discard(group)
    for group in groups:
        with suppress(ProcessLookupError):  # nothing is left of it, which is what was wanted
            os.killpg(group, signal.SIGKILL)


_PR_SET_PDEATHSIG = 1  # linux/prctl.h

if __name__ == "__main__":
    # one that somebody stopped does its work nevertheless when the orchestrator dies
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGCONT)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    supervise(sys.stdin)
