"""Bundles what the loop works with. A test hands in its own source, start, clock and wait."""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from sweeper.devices.host_lock import Lock
from sweeper.devices.slots import Slots
from sweeper.live.log import Log
from sweeper.loop.source import Source
from sweeper.running.run_folders import RunFolders
from sweeper.starts import Start
from sweeper.stop import Stop


def wait_readable(descriptors: Iterable[int], timeout_s: float) -> None:
    """Sleep until one of these has something to read, or has come to its end. Also for numbers
    above 1023, which select.select refuses.
    """
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    poll.poll(timeout_s * 1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """What the loop works with."""

    source: Source
    slots: Slots
    host_lock: Lock
    start: Start
    folders: RunFolders
    progress: Log
    stop: Stop
    clock: Callable[[], float] = time.monotonic
    wait: Callable[[Iterable[int], float], None] = wait_readable

    def tell(self, text: str) -> None:
        self.progress.note(text)
