"""Bundles what the loop works with, and what the user chose. A test hands in its own ledger, start,
clock and wait.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from conf.schema import LauncherConfig, RetryConfig, SweepConfig
from scalemark.host.processes import HEARTBEAT_TIMEOUT
from scalemark.records.attempt import RankLimits
from store.sweeps.ledger import Ledger
from sweeper.devices.host_lock import Lock
from sweeper.devices.slots import Slots
from sweeper.launchers import HostSlots
from sweeper.live.progress import Progress
from sweeper.loop.stopping import Stop
from sweeper.running.attempt import Limits
from sweeper.running.recover import Recovered
from sweeper.running.run_folders import RunFolders
from sweeper.starts import Start


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
    """Parts that the loop works with."""

    ledger: Ledger
    recover: Callable[[], Recovered | None]  # closes what killed orchestrators had in flight
    slots: Slots | HostSlots
    host_lock: Lock
    start: Start
    folders: RunFolders
    progress: Progress
    stop: Stop
    clock: Callable[[], float] = time.monotonic
    wait: Callable[[Iterable[int], float], None] = wait_readable

    def tell(self, text: str) -> None:
        self.progress.note(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The user's settings."""

    sweep: SweepConfig
    launcher: LauncherConfig
    retry: RetryConfig
    # others take a process that is silent for so long for dead: the heartbeat timeout
    heartbeat_timeout_s: float = HEARTBEAT_TIMEOUT.total_seconds()

    @property
    def limits(self) -> Limits:
        launcher = self.launcher
        return Limits(
            timeout_s=launcher.timeout_s,
            start_timeout_s=launcher.start_timeout_s,
            step_timeout_s=launcher.step_timeout_s,
            grace_s=launcher.grace_s,
        )

    @property
    def rank_limits(self) -> RankLimits:
        return RankLimits(
            start_timeout_s=self.launcher.rank_start_timeout_s,
            timeout_s=self.launcher.rank_timeout_s,
        )
