"""Ends what an agent runs when it could give no heartbeat for too long, also while the agent waits
for a database or a folder.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Watchdog:
    """Calls `act` once, in a thread of its own, when the time set by `renew` has come and no later
    one was set.
    """

    def __init__(self, act: Callable[[], None]) -> None:
        self._act = act
        self._changed = threading.Condition()
        self._due_s = float("inf")  # of time.monotonic
        self._is_closed = False
        self.has_acted = False

    def renew(self, for_s: float) -> None:
        with self._changed:
            self._due_s = time.monotonic() + for_s
            self._changed.notify()

    @contextmanager
    def watching(self) -> Iterator[None]:
        thread = threading.Thread(target=self._watch, daemon=True)
        thread.start()
        try:
            yield
        finally:
            with self._changed:
                self._is_closed = True
                self._changed.notify()
            thread.join()

    def _watch(self) -> None:
        with self._changed:
            while not self._is_closed:
                left_s = self._due_s - time.monotonic()
                if left_s <= 0:
                    self.has_acted = True
                    self._act()
                    return
                self._changed.wait(min(left_s, threading.TIMEOUT_MAX))
