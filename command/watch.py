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
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from command import children
from command.log import Log
from scalemark.host.kernel_kills import num_kernel_kills
from scalemark.readers.lines import Lines

LAST_LINES = 400  # kept for finding out why a program ended
KILL_AFTER_S = 2.0  # after SIGTERM; who sent it waits longer, launcher.grace_s, before killing us
LEFT_BEHIND_S = 1.0  # that children may take to end by themselves after the program
BUSY_S = 0.005  # between reads of a stream whose chunks come closer than 1.5 times this
LOOK_EVERY_S = 0.5  # lines that came meanwhile are heard together: code that slept runs slowly
_CHUNK_BYTES = 2**20  # as much as the pipe holds
_MOST_UNHEARD_BYTES = 2**16


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


class Listener:
    """An observer of a program; this one does nothing with what it is given."""

    def hear(self, line: str, arrival_s: float) -> None:
        """Take a line."""

    def beat(self, now_s: float) -> None:
        """Take that the program printed something since the last beat."""

    def look(self, now_s: float) -> None:
        """Take the time, at least every LOOK_EVERY_S."""


class Watch:
    """Follows one program."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        output: int,
        signals: Signals,
        log: Log,
        *,
        but: Sequence[int],
        listener: Listener,
    ) -> None:
        self._process, self._output, self._signals, self._log = process, output, signals, log
        self._listener, self._but = listener, tuple(but)
        self._lines, self._last_lines = Lines(), deque[str](maxlen=LAST_LINES)
        self._was_told_to = False
        self._kill_at_s: float | None = None
        self._buffer = memoryview(bytearray(_CHUNK_BYTES))
        self._unheard: list[tuple[bytes, float]] = []  # chunks, and when they came
        self._num_unheard_bytes = 0
        self._looked_s = 0.0

    def until_it_ends(self, started_s: float) -> Ended:
        """Read until the program has ended, then end what it left. Raises OSError."""
        num_kernel_kills_before = num_kernel_kills()
        poll = select.poll()
        poll.register(self._signals.descriptor, select.POLLIN)
        poll.register(self._output, select.POLLIN)
        ended = os.pidfd_open(self._process.pid)
        poll.register(ended, select.POLLIN)
        try:
            ended_s = self._follow(poll, ended)
        finally:
            os.close(ended)
        exit_code = self._process.wait()
        left_behind = self._end_the_rest()
        self._read_what_is_there(time.monotonic() + LEFT_BEHIND_S)
        self._hear()
        self._tell(self._lines.end())
        self._log.flush()
        return Ended(
            exit_code=exit_code,
            started_s=started_s,
            ended_s=ended_s,
            was_told_to=self._was_told_to,
            left_behind=left_behind,
            last_lines=tuple(self._last_lines),
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
            if self._output in ready and now_s < ended_s + LEFT_BEHIND_S:
                if self._read(now_s) == 0:
                    poll.unregister(self._output)
                elif now_s - last_chunk_s < 1.5 * BUSY_S:
                    time.sleep(BUSY_S)
                last_chunk_s = now_s
            elif ended in ready:
                return ended_s
            if now_s - self._looked_s >= LOOK_EVERY_S:
                self._looked_s = now_s
                self._look(now_s)
            elif self._num_unheard_bytes > _MOST_UNHEARD_BYTES:
                self._hear()

    def _look(self, now_s: float) -> None:
        self._listener.look(now_s)
        if self._unheard:
            self._hear()
            self._log.flush()
            self._listener.beat(now_s)

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

    def _read(self, now_s: float) -> int | None:
        """Take what is in the pipe; return its bytes, 0 at its end, and None where it is empty."""
        try:
            num_bytes = os.readv(self._output, [self._buffer])
        except BlockingIOError:
            return None
        self._unheard.append((bytes(self._buffer[:num_bytes]), now_s))
        self._num_unheard_bytes += num_bytes
        return num_bytes

    def _read_what_is_there(self, until_s: float) -> None:
        """Empty the pipe, as long as what fills it leaves time for that."""
        while (now_s := time.monotonic()) < until_s and self._read(now_s):
            self._hear()

    def _hear(self) -> None:
        """Log what came, and tell its lines to who listens."""
        for chunk, arrival_s in self._unheard:
            self._log.write(chunk)
            self._tell(self._lines.feed(chunk, arrival_s))
        self._unheard.clear()
        self._num_unheard_bytes = 0

    def _tell(self, lines: Iterable[tuple[str, float]]) -> None:
        for line, arrival_s in lines:
            self._last_lines.append(line)
            self._listener.hear(line, arrival_s)

    def _end_the_rest(self) -> list[str]:
        """Give what the program had started a moment to end, then kill it."""
        until_s = time.monotonic() + (0.0 if self._was_told_to else LEFT_BEHIND_S)
        while time.monotonic() < until_s:
            if not children.living(self._but):
                return []
            self._read_what_is_there(until_s)
            time.sleep(0.01)
        return children.end_all(self._but)
