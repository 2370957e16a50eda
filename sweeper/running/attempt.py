"""Watches one attempt, a started trainer, until it ends. Waits for nothing but what it kills."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from scalemark.host.memory import GAVE_UP, num_kernel_kills
from scalemark.records.outcomes import Doing, Outcome
from scalemark.run_folder import RunFolder, last_error, open_regular
from sweeper.running.orphans import end_started_by, is_readable
from sweeper.starts import Process

LOOK_EVERY_S = 0.5  # between reads of a trainer's files; its end is noticed at once
# a look that comes so much too late finds that the machine was paused, or this process stopped
OVERSLEPT_S = 2.0
# after a GPU's allocator has given up, its trial ends by itself within seconds, or never
NO_MEMORY_S = 60.0
_MOST_BYTES = 2**20  # of one look; more is written within seconds only by a summary that follows
_LINE_BYTES = 400  # that a look goes back, for a line of which it saw the beginning
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)  # a grace period between them


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The time limits of an attempt, as `conf.schema.LauncherConfig` has them."""

    timeout_s: float  # for all of it
    start_timeout_s: float  # until the first step is done, and again for what comes after the last
    step_timeout_s: float  # from step to step
    grace_s: float  # between SIGINT and SIGTERM, and between SIGTERM and SIGKILL


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The end of an attempt's process."""

    exit_code: int | None  # -N: by signal N; None when nobody saw it
    duration_s: float
    # why it was ended: timed_out, hung, interrupted, or failed; None when it ended by itself
    cause: Outcome | None = None
    doing: Doing = Doing.BUILDING  # when it was seen last
    last_step: int | None = None  # the last that was seen
    heard: bool = False  # a user's program, whose output counted as a sign of life
    last_error: str = ""  # the last line of its log that looks like one
    gave_up: str = ""  # the line of a log with which a GPU's allocator did
    unreadable: str = ""  # what is wrong with its run folder
    # the kernel killed something of this control group for memory meanwhile
    kernel_killed: bool = False
    shares_host: bool = False  # other attempts of the sweep may have run beside it


class Seen:
    """The state of a run folder at its last read. What cannot be read now may be read later."""

    def __init__(self, folder: RunFolder, now_s: float) -> None:
        self.read_s = self.changed_s = now_s
        self.doing = Doing.BUILDING
        self.last_step: int | None = None
        self.unreadable = ""  # what is wrong with the folder
        self.heard = False  # it prints: that is a sign of life, too
        self._heartbeat_ns = 0
        self._folder = folder
        self._allocators = AllocatorWatch(folder)

    @property
    def gave_up(self) -> str:
        """The line of a log with which a GPU's allocator gave up; empty while none did."""
        return self._allocators.gave_up

    def read(self, now_s: float) -> None:
        """Note progress; there is none as long as nothing can be read."""
        self.read_s = now_s
        try:
            # one that is gone would look like one where nothing has happened yet
            self._folder.path.stat()
            doing = self._folder.read_doing()
            last_step = self._folder.last_step() if doing is not Doing.BUILDING else None
            heartbeat_ns = self._folder.heartbeat_ns()
        except (OSError, ValueError) as error:
            self.unreadable = str(error)
            return
        self.unreadable = ""
        if heartbeat_ns != self._heartbeat_ns:
            self.heard, self._heartbeat_ns, self.changed_s = True, heartbeat_ns, now_s
        if (doing, last_step) != (self.doing, self.last_step):
            self.doing, self.last_step, self.changed_s = doing, last_step, now_s
        try:
            self._allocators.look()
        except OSError as error:
            self.unreadable = str(error)

    def last_error(self) -> str:
        """Return the last line of its log that looks like one."""
        try:
            return last_error(self._folder.log)
        except OSError as error:
            self.unreadable = str(error)
            return ""


class AllocatorWatch:
    """Watches the logs of a trial's processes for the line with which a GPU's allocator gives up.

    The op that lacks memory fails, and its trial ends. Not so where other GPUs wait for that one in
    NCCL, whose op hears no cancellation: then nothing follows this line. With a process per GPU
    each has a log of its own.
    """

    def __init__(self, folder: RunFolder) -> None:
        self.gave_up = ""  # the first such line
        self._folder = folder
        self._read_bytes: Counter[Path] = Counter()

    def look(self) -> None:
        """Raises OSError where a log cannot be read."""
        if self.gave_up:
            return
        for log in self._folder.logs():
            self._look_into(log)

    def _look_into(self, log: Path) -> None:
        with open_regular(log) as file:
            file.seek(self._read_bytes[log])
            added = file.read(_MOST_BYTES)
        self._read_bytes[log] += max(0, len(added) - _LINE_BYTES)
        line = GAVE_UP.search(added.decode(errors="replace"))
        if line and not self.gave_up:
            # GPUs of other processes have the same numbers
            where = "" if log == self._folder.log else f" ({log.name})"
            self.gave_up = f"{line[0]}{where}"


class Attempt:
    """Watches a process from its start. `clock` counts seconds.

    Time in which `look` should have been called and was not is left out of all that is counted:
    the process probably stood still, too.
    """

    def __init__(
        self,
        folder: RunFolder,
        process: Process,
        limits: Limits,
        *,
        shares_host: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folder = folder
        self._process, self._limits, self._clock = process, limits, clock
        self._shares_host = shares_host
        self._num_kernel_kills = num_kernel_kills()
        self._started_s = self._looked_s = clock()
        self._seen = Seen(folder, self._looked_s)
        self._cause: Outcome | None = None
        self._signals: list[signal.Signals] = []  # still to be sent
        self._signal_due_s = 0.0

    @property
    def descriptor(self) -> int:
        """Readable once the process has ended."""
        return self._process.descriptor

    def look(self) -> None:
        """Check the deadlines; end, and go on ending, what has missed one or was stopped."""
        now_s = self._wake()
        if is_readable(self.descriptor):
            return
        if self._cause is None:
            self._check_deadlines(now_s)
        if self._signals and now_s >= self._signal_due_s:
            self._process.signal_group(self._signals.pop(0))
            self._signal_due_s = now_s + self._limits.grace_s

    def next_look_s(self) -> float:
        """Return the seconds until `look` has something to do; LOOK_EVERY_S at most."""
        due_s = min(self._seen.read_s + LOOK_EVERY_S, self._started_s + self._limits.timeout_s)
        if self._cause is not None:
            due_s = self._signal_due_s if self._signals else float("inf")
        return min(max(0.0, due_s - self._clock()), LOOK_EVERY_S)

    def stop(self, *, at_once: bool = False) -> None:
        """End it because the sweep was interrupted; `at_once`: by SIGKILL, and now."""
        now_s = self._wake()
        self._begin_ending(Outcome.INTERRUPTED, now_s)
        if at_once:
            self._signals, self._signal_due_s = [signal.SIGKILL], now_s
        self.look()

    def kill(self) -> None:
        """Kill it. Other threads may call this, and no run folder is read."""
        if not is_readable(self.descriptor):
            self._process.signal_group(signal.SIGKILL)

    def ended(self) -> Ended | None:
        """Return None while the process runs.

        Call it once afterwards: it ends what is left of the group, and lets go of its number.
        """
        if not is_readable(self.descriptor):
            return None
        now_s = self._wake()
        self._process.signal_group(signal.SIGKILL)
        exit_code = self._process.reap()
        if exit_code is None or exit_code < 0:  # it could not end its own children
            end_started_by(self._process.pid)
        if self._cause is None:
            self._seen.read(now_s)
        return Ended(
            exit_code=exit_code,
            duration_s=now_s - self._started_s,
            cause=self._cause,
            doing=self._seen.doing,
            last_step=self._seen.last_step,
            heard=self._seen.heard,
            last_error=self._seen.last_error(),
            gave_up=self._seen.gave_up,
            unreadable=self._seen.unreadable,
            kernel_killed=num_kernel_kills() > self._num_kernel_kills,
            shares_host=self._shares_host,
        )

    def _wake(self) -> float:
        """Return the time now, after moving all deadlines by what was overslept."""
        now_s = self._clock()
        overslept_s = now_s - self._looked_s - LOOK_EVERY_S
        if overslept_s > OVERSLEPT_S:
            self._started_s += overslept_s
            self._seen.changed_s += overslept_s
            self._signal_due_s += overslept_s
        self._looked_s = now_s
        return now_s

    def _check_deadlines(self, now_s: float) -> None:
        if self._folder.token.exists():  # it waits for a host
            self._started_s = self._seen.read_s = self._seen.changed_s = now_s
            return
        if now_s - self._started_s >= self._limits.timeout_s:
            self._begin_ending(Outcome.TIMED_OUT, now_s)
        elif now_s - self._seen.read_s >= LOOK_EVERY_S:
            self._seen.read(now_s)
            if now_s - self._seen.changed_s >= self._allowed_s():
                self._begin_ending(Outcome.FAILED if self._seen.unreadable else Outcome.HUNG, now_s)

    def _allowed_s(self) -> float:
        allowed_s = self._limits.start_timeout_s
        if self._seen.doing is Doing.STEPPING:
            allowed_s = self._limits.step_timeout_s
        return min(allowed_s, NO_MEMORY_S) if self._seen.gave_up else allowed_s

    def _begin_ending(self, cause: Outcome, now_s: float) -> None:
        if self._cause is None:
            self._cause, self._signals, self._signal_due_s = cause, list(_ENDING), now_s
