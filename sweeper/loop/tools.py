"""Bundles what the loop works with, and what the user chose. A test hands in its own ledger, start,
clock and wait.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from conf.schema import LauncherConfig, RetryConfig, SweepConfig
from scalemark.host.processes import HEARTBEAT_TIMEOUT
from scalemark.records.attempt import Placement, RankLimits
from store.ledger import ClaimResult, OpenRepeat
from store.rows import FinishedAttempt
from sweeper.devices.host_lock import Lock
from sweeper.devices.slots import Slots
from sweeper.launchers import HostSlots
from sweeper.live.progress import Log
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


class States(Protocol):
    """Writes the states of repeats, as `store.ledger.Ledger` does and with its errors."""

    def open_repeats(self) -> Sequence[OpenRepeat]: ...
    def claim(self, repeat: OpenRepeat, at: datetime) -> ClaimResult: ...
    def give_back(self, repeat_id: int, at: datetime) -> None: ...
    def run(self, repeat: OpenRepeat, run_dir: str, placement: Placement, at: datetime) -> int: ...
    def started(self, repeat_id: int, pid: int, start_ticks: int) -> None: ...
    def finish(
        self, repeat_id: int, attempt: FinishedAttempt, at: datetime, *, again: str | None = None
    ) -> None: ...
    def skip(self, repeat_ids: Sequence[int], reason: str, at: datetime) -> None: ...
    def beat(self, at: datetime) -> None: ...
    def end(self, at: datetime, *, finished: bool) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """Parts that the loop works with."""

    ledger: States
    recover: Callable[[], Recovered | None]  # closes what killed orchestrators had in flight
    slots: Slots | HostSlots
    host_lock: Lock
    start: Start
    folders: RunFolders
    progress: Log
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
