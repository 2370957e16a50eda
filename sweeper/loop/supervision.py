"""Decides when the loop stops and when it tells the database that it lives, and has the records
that its parts share.

- `Stop` counts signals; `Stopping` knows these and all other reasons to start nothing more.
- `Heartbeat` gives a sign every few seconds, also while a write waits for a locked database.
- `Tools` and `Policy` are what the loop is made with.
"""

import signal
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from types import FrameType
from typing import TypeVar

from conf.schema import LauncherConfig
from scalemark.host.processes import HEARTBEAT_TIMEOUT, wait_readable
from store.errors import AwayError, LockedError, LostDatabaseError, StoreError
from store.ledger import Ledger
from sweeper import SweepRefusedError
from sweeper.devices.host_lock import Lock
from sweeper.devices.slots import Slots
from sweeper.live.progress import Progress
from sweeper.loop.attempt import Attempt
from sweeper.loop.backlog import Backlog, Given
from sweeper.loop.run_folders import Recovered, RunFolders
from sweeper.starts import Start


class Stop:
    """Counts requests to stop: once is to start nothing more, twice is to end everything now.

    Only Ctrl-C can be the second time: a terminal that is closed sends SIGHUP twice, a system that
    goes down SIGTERM and SIGHUP. Looked at between actions, so that no attempt is lost while it is
    being recorded.
    """

    def __init__(self) -> None:
        self.times_asked = 0

    def ask(self, times: int) -> None:
        """Ask by another way than a signal; what is less than before changes nothing."""
        self.times_asked = max(times, self.times_asked)

    def _ask(self, number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGINT:
            self.times_asked += 1
        else:
            self.ask(1)

    @contextmanager
    def listening(self) -> Iterator[socket.socket]:
        """Gives a socket that becomes readable with every signal.

        SIGINT is heard also where a shell had it ignored for a background job; SIGHUP not where
        `nohup` did.
        """
        heard = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            heard.append(signal.SIGHUP)
        reader, writer = socket.socketpair()
        reader.setblocking(False)
        writer.setblocking(False)
        before = [signal.signal(number, self._ask) for number in heard]
        woken_before = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        try:
            yield reader
        finally:
            signal.set_wakeup_fd(woken_before)
            for number, handler in zip(heard, before, strict=True):
                signal.signal(number, handler)
            reader.close()
            writer.close()


class Stopping:
    """Collects the reasons to start nothing more: a signal, a failure of the store."""

    def __init__(self, stop: Stop, running: Sized, tell: Callable[[str], object]) -> None:
        self.stop = stop
        self.starts_no_more = False  # a program is not read, or GPUs stay in use
        self.failure: StoreError | SweepRefusedError | None = None  # results cannot be written
        self._running, self._tell = running, tell

    @property
    def was_interrupted(self) -> bool:
        return self.stop.times_asked > 0

    @property
    def is_stopping(self) -> bool:
        return self.was_interrupted or self.starts_no_more or self.failure is not None

    def give_up(self, error: StoreError | SweepRefusedError) -> None:
        """Start nothing more; what runs may end, and the next command reads its run folder. Where
        nothing runs, the end says the error at once.
        """
        if self.failure is None:
            self.failure = error
            if self._running:
                self._tell(f"{error}; waiting for what still runs")


Value = TypeVar("Value")

BEAT_EVERY_S = 10.0
GIVE_UP_AFTER = 2 / 3  # of the time after which others take over
LOCKED_TRIES = 10  # each waits for store.sqlite.BUSY_TIMEOUT_S
AWAY_TRIES = 60  # each waits some 5 s for the server


class Heartbeat:
    """Beats when it is due. Raises LostError when another orchestrator took this one for dead."""

    def __init__(
        self,
        ledger: Ledger,
        stopping: Stopping,
        heartbeat_timeout_s: float,
        tell: Callable[[str], object],
        clock: Callable[[], float],
    ) -> None:
        self._ledger, self._stopping = ledger, stopping
        self._timeout_s, self._tell, self._clock = heartbeat_timeout_s, tell, clock
        self._beat_every_s = min(BEAT_EVERY_S, heartbeat_timeout_s / 6)
        self._is_away = False  # the database, and that was said
        self._beat_s = self.next_s = clock()

    def beat_if_due(self) -> None:
        if self._clock() >= self.next_s:
            self._beat()

    def write(self, write: Callable[[], Value]) -> Value:
        """Try again for minutes while the database is locked or away; then raise StoreError."""
        tries_left = {LockedError: LOCKED_TRIES, AwayError: AWAY_TRIES}
        while True:
            try:
                return write()
            except (LockedError, AwayError) as error:
                tries_left[type(error)] -= 1
                if not tries_left[type(error)]:
                    raise
                if isinstance(error, AwayError):
                    self._say_away(error)
                else:
                    self._tell(f"{error}; trying again")

    def _beat(self) -> None:
        """Give a sign. A database that is locked for a while ends nothing."""
        now_s = self._clock()
        try:
            self._ledger.beat(datetime.now(UTC))
            self._beat_s, self._is_away = now_s, False
        except StoreError as error:
            # counted from before the last sign was given: the database may have noted it then
            gives_up_s = self._beat_s + GIVE_UP_AFTER * self._timeout_s
            if self._clock() < gives_up_s and not isinstance(error, LostDatabaseError):
                self._say_away(error)
                self.next_s = min(self._clock() + self._beat_every_s, gives_up_s)
                return
            self._stopping.give_up(error)
        self.next_s = self._clock() + self._beat_every_s

    def _say_away(self, error: StoreError) -> None:
        """Say it once, until a sign could be given."""
        if not self._is_away:
            self._is_away = True
            self._tell(f"{error}; trying again")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """Parts that the loop works with."""

    ledger: Ledger
    recover: Callable[[], Recovered | None]  # closes what killed orchestrators had in flight
    slots: Slots
    host_lock: Lock
    start: Start
    folders: RunFolders
    progress: Progress
    stop: Stop
    clock: Callable[[], float] = time.monotonic
    wait: Callable[[Iterable[int], float], object] = wait_readable

    def tell(self, text: str) -> None:
        self.progress.note(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The user's settings."""

    launcher: LauncherConfig
    # others take a process that is silent for so long for dead: the heartbeat timeout
    heartbeat_timeout_s: float = HEARTBEAT_TIMEOUT.total_seconds()


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """What the parts of the loop share."""

    tools: Tools
    policy: Policy
    backlog: Backlog
    heartbeat: Heartbeat
    stopping: Stopping
    runs: dict[Attempt, Given]  # that run now
