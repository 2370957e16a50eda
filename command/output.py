"""Reads what a program prints: its bytes go to the log, and its lines to who listens.

```
  pipe ──► chunks, as they come ──► pass on ──► log.txt
                                      └────► lines ──► listener
```
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterable

from command.log import Log
from scalemark.readers.lines import Lines

LAST_LINES = 400  # kept for finding out why a program ended
_CHUNK_BYTES = 2**20  # as much as the pipe holds
_MOST_PENDING_BYTES = 2**16


class Listener:
    """Takes what a program prints; this one does nothing with it."""

    def take_line(self, line: str, arrival_s: float) -> None:
        """Take a line."""

    def beat(self, now_s: float) -> None:
        """Take that the program printed something since the last beat."""

    def look(self, now_s: float) -> None:
        """Take the time, at least every LOOK_EVERY_S."""


class Output:
    """The output of one program, which is passed on some time after it was read."""

    def __init__(self, descriptor: int, log: Log, listener: Listener) -> None:
        self.descriptor = descriptor
        self.last_lines = deque[str](maxlen=LAST_LINES)
        self._log, self._listener = log, listener
        self._lines = Lines()
        self._buffer = memoryview(bytearray(_CHUNK_BYTES))
        self._pending: list[tuple[bytes, float]] = []  # chunks, and when they came
        self._num_pending_bytes = 0

    @property
    def is_much_pending(self) -> bool:
        return self._num_pending_bytes > _MOST_PENDING_BYTES

    def read(self, now_s: float) -> int | None:
        """Take what is in the pipe; return its bytes, 0 at its end, and None where it is empty."""
        try:
            num_bytes = os.readv(self.descriptor, [self._buffer])
        except BlockingIOError:
            return None
        self._pending.append((bytes(self._buffer[:num_bytes]), now_s))
        self._num_pending_bytes += num_bytes
        return num_bytes

    def read_what_is_there(self, until_s: float) -> None:
        """Empty the pipe, as long as what fills it leaves time for that."""
        while (now_s := time.monotonic()) < until_s and self.read(now_s):
            self.pass_on()

    def pass_on(self) -> None:
        """Log what came, and tell its lines to who listens."""
        for chunk, arrival_s in self._pending:
            self._log.write(chunk)
            self._tell(self._lines.feed(chunk, arrival_s))
        self._pending.clear()
        self._num_pending_bytes = 0

    def look(self, now_s: float) -> None:
        """Hear what came, if anything, and let the listener look."""
        self._listener.look(now_s)
        if self._pending:
            self.pass_on()
            self._log.flush()
            self._listener.beat(now_s)

    def end(self) -> None:
        """Hear the rest, with a last line that nothing ends."""
        self.pass_on()
        self._tell(self._lines.end())
        self._log.flush()

    def _tell(self, lines: Iterable[tuple[str, float]]) -> None:
        for line, arrival_s in lines:
            self.last_lines.append(line)
            self._listener.take_line(line, arrival_s)
