"""Bundles what the loop works with, watches the attempts that run, and ends them when asked to."""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

from conf.schema import LauncherConfig, OnInterrupt, RetryConfig, SweepConfig
from scalemark.host.processes import HEARTBEAT_TIMEOUT
from scalemark.records.attempt import Placement, RankLimits
from scalemark.records.measurement import AttemptResult
from scalemark.text.wording import counted
from store.ledger import Ledger
from sweeper.devices.host_lock import Held, Lock
from sweeper.devices.slots import Grant, Slots
from sweeper.launchers import HostSlots
from sweeper.live.progress import Progress, Started
from sweeper.loop.backlog import Backlog, Repeat
from sweeper.loop.stopping import Heartbeat, Stop, Stopping
from sweeper.running.attempt import Attempt, Ended, Limits
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """Devices and cores of one attempt, and the lock that keeps other sweeps off them."""

    grant: Grant
    held: Held


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """An attempt with all that it was given, before it is started and while it runs."""

    repeat: Repeat
    placement: Placement
    room: Room
    environment: dict[str, str]
    started_at: datetime
    started: Started
    loading: int = -1  # a descriptor: readable when what starts it may have been loaded


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """An attempt that runs."""

    given: Given
    attempt: Attempt


@dataclass(frozen=True, slots=True, kw_only=True)
class Over:
    """An attempt that has ended, or could not be started."""

    given: Given
    result: AttemptResult
    exit_code: int | None = None  # as that of `sweeper.running.attempt.Ended`
    duration_s: float = 0.0
    crashed: bool  # as that of `sweeper.running.judgement.Judged`


class Supervision:
    """Watches the attempts that run now, which are `runs`."""

    def __init__(self, policy: Policy, stop: Stop, tell: Callable[[str], object]) -> None:
        self.runs: list[Run] = []
        self._policy, self._stop, self._tell = policy, stop, tell
        self._num_obeyed = 0  # how often we were asked to stop, and did

    def obey(self) -> None:
        """Do what signals asked for since the last call."""
        asked = self._stop.times_asked
        if asked == self._num_obeyed:
            return
        self._num_obeyed = asked
        at_once = asked > 1
        ends = at_once or self._policy.sweep.on_interrupt is OnInterrupt.stop
        if ends:
            self.end_all(at_once=at_once)
        if self.runs and not at_once:
            doing = "ending" if ends else "waiting for"
            self._tell(f"{doing} {counted(len(self.runs), 'running attempt')}{self._stop.hint}")

    def look(self, run: Run) -> Ended | None:
        """Keep its deadlines; None while it runs."""
        run.attempt.look()
        return run.attempt.ended()

    def end_all(self, *, at_once: bool) -> None:
        for run in self.runs:
            run.attempt.stop(at_once=at_once)

    def next_look_s(self) -> float:
        return min((run.attempt.next_look_s() for run in self.runs), default=float("inf"))

    def descriptors(self) -> Iterable[int]:
        return (run.attempt.descriptor for run in self.runs)

    def started(self) -> list[Started]:
        return [run.given.started for run in self.runs]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """What the parts of the loop share."""

    tools: Tools
    policy: Policy
    backlog: Backlog
    heartbeat: Heartbeat
    stopping: Stopping
    supervision: Supervision
