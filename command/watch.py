"""Watches a program from its start to its end: its lines, its signals, and what it leaves behind.

```
  program ── pipe ──►  lines ──► reader ──► readings
     │                   └──► log.txt, heartbeat
     └── end, SIGCHLD, SIGINT, SIGTERM ──►  what it started is ended with it
```
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from command import children
from command.output import Output
from scalemark.host.kernel_kills import num_kernel_kills

KILL_AFTER_S = 2.0  # after SIGTERM; who sent it waits longer, launcher.grace_s, before killing us
LEFT_BEHIND_S = 1.0  # that children may take to end by themselves after the program
BUSY_S = 0.005  # between reads of a stream whose chunks come closer than 1.5 times this
LOOK_EVERY_S = 0.5  # lines that came meanwhile are passed on together: code that slept runs slowly


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The end of a program."""

    exit_code: int  # -N: by signal N
    started_s: float  # on the monotonic clock
    ended_s: float
    was_told_to: bool  # by a signal to this process
    left_behind: Sequence[str]  # commands of what it had started and did not end
    last_lines: Sequence[str]
    num_kernel_kills: int  # in this control group, before the program was started


class Signals:
    """Notes signals instead of obeying them, and wakes whoever polls `descriptor`."""

    def __init__(self) -> None:
        self.descriptor, self._writing = os.pipe()
        for one in (self.descriptor, self._writing):
            os.set_blocking(one, False)
        self.seen: list[signal.Signals] = []
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._note)
        signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)

    def take(self) -> list[signal.Signals]:
        """Return those that came since the last call."""
        with suppress(BlockingIOError):
            os.read(self.descriptor, 4096)
        seen, self.seen = self.seen, []
        return seen

    def _note(self, number: int, _: object) -> None:
        self.seen.append(signal.Signals(number))


class Watch:
    """Follows one program."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        output: Output,
        signals: Signals,
        *,
        but: Sequence[int],
    ) -> None:
        self._process, self._output, self._signals = process, output, signals
        self._but = tuple(but)
        self._was_told_to = False
        self._kill_at_s: float | None = None
        self._looked_s = 0.0

    def until_it_ends(self, started_s: float) -> Ended:
        """Read until the program has ended, then end what it left. Raises OSError."""
        num_kernel_kills_before = num_kernel_kills()
        poll = select.poll()
        poll.register(self._signals.descriptor, select.POLLIN)
        poll.register(self._output.descriptor, select.POLLIN)
        ended = os.pidfd_open(self._process.pid)
        poll.register(ended, select.POLLIN)
        try:
            ended_s = self._follow(poll, ended)
        finally:
            os.close(ended)
        exit_code = self._process.wait()
        left_behind = self._end_the_rest()
        self._output.read_what_is_there(time.monotonic() + LEFT_BEHIND_S)
        self._output.end()
        return Ended(
            exit_code=exit_code,
            started_s=started_s,
            ended_s=ended_s,
            was_told_to=self._was_told_to,
            left_behind=left_behind,
            last_lines=tuple(self._output.last_lines),
            num_kernel_kills=num_kernel_kills_before,
        )

    def _follow(self, poll: select.poll, ended: int) -> float:
        """Return when the program ended; what it has left may go on printing for a moment."""
        last_chunk_s, ended_s = 0.0, float("inf")
        while True:
            ready = {descriptor for descriptor, _ in poll.poll(self._wait_ms())}
            now_s = time.monotonic()
            if self._signals.descriptor in ready:
                self._obey(now_s)
            if self._kill_at_s is not None and now_s >= self._kill_at_s:
                children.signal_all(signal.SIGKILL, self._but)
                self._kill_at_s = now_s + KILL_AFTER_S
            if ended in ready:
                ended_s = min(ended_s, now_s)
            if self._output.descriptor in ready and now_s < ended_s + LEFT_BEHIND_S:
                if self._output.read(now_s) == 0:
                    poll.unregister(self._output.descriptor)
                elif now_s - last_chunk_s < 1.5 * BUSY_S:
                    time.sleep(BUSY_S)
                last_chunk_s = now_s
            elif ended in ready:
                return ended_s
            if now_s - self._looked_s >= LOOK_EVERY_S:
                self._looked_s = now_s
                self._output.look(now_s)
            elif self._output.is_much_pending:
                self._output.pass_on()

    def _wait_ms(self) -> float:
        """Wait no longer than until the next look is due: a program may print nothing."""
        if self._kill_at_s is None:
            return LOOK_EVERY_S * 1000
        return min(LOOK_EVERY_S, max(0.0, self._kill_at_s - time.monotonic())) * 1000

    def _obey(self, now_s: float) -> None:
        """Pass signals on: SIGINT to the program's group, as a terminal does, others to all."""
        for which in self._signals.take():
            self._was_told_to = True
            if which == signal.SIGINT:
                with suppress(ProcessLookupError):
                    os.killpg(self._process.pid, which)
            else:
                children.signal_all(which, self._but)
                self._kill_at_s = self._kill_at_s or now_s + KILL_AFTER_S

    def _end_the_rest(self) -> list[str]:
        """Give what the program had started a moment to end, then kill it."""
        until_s = time.monotonic() + (0.0 if self._was_told_to else LEFT_BEHIND_S)
        while time.monotonic() < until_s:
            if not children.living(self._but):
                return []
            self._output.read_what_is_there(until_s)
            time.sleep(0.01)
        return children.end_all(self._but)
