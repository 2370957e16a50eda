"""Watches one attempt, a started trainer, until it ends, turns its end into an outcome, and decides
what follows. Waits for nothing but what it kills.
"""

import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from conf.schema import LauncherConfig
from scalemark.host import processes
from scalemark.host.orphans import end_started_by
from scalemark.records.attempt import HOST_LOST, RANK_LOST
from scalemark.records.measurement import (
    TRAINER_EXIT_CODES,
    AttemptResult,
    Doing,
    Outcome,
    judge_kill,
    said_of_others,
)
from scalemark.run_folder import RunFolder, last_error, open_regular, with_gpu_errors
from sweeper.starts import Process

LOOK_EVERY_S = 0.5  # between reads of a trainer's files; its end is noticed at once
# after a GPU's allocator has given up, its trial ends by itself within seconds, or never
NO_MEMORY_S = 60.0
_MOST_BYTES = 2**20  # of one look; more is written within seconds only by a summary that follows
_LINE_BYTES = 400  # that a look goes back, for a line of which it saw the beginning
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)  # a grace period between them


@dataclass(slots=True, kw_only=True)
class LastRead:
    """The state of a run folder at its last read."""

    doing: Doing = Doing.BUILDING
    last_step: int | None = None
    heard: bool = False  # a user's program, whose output counts as a sign of life
    gave_up: str = ""  # the line of a log with which a GPU's allocator did
    unreadable: str = ""  # what is wrong with the folder


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessEnd:
    """The end of an attempt's process."""

    exit_code: int | None  # -N: by signal N; None when nobody saw it
    duration_s: float
    # why it was ended: timed_out, hung, interrupted, or failed; None when it ended by itself
    cause: Outcome | None = None
    seen: LastRead = field(default_factory=LastRead)
    last_error: str = ""  # the last line of its log that looks like one
    # the kernel killed something of this control group for memory meanwhile
    kernel_killed: bool = False
    shares_host: bool = False  # other attempts of the sweep may have run beside it


class FolderWatch:
    """Reads a run folder again and again. What cannot be read now may be read later.

    In logs it looks for the line with which a GPU's allocator gives up. The op that lacks memory
    fails, and its trial ends. Not so where other GPUs wait for that one in NCCL, whose op hears no
    cancellation: then nothing follows this line. With a process per GPU each has a log of its own.
    """

    def __init__(self, folder: RunFolder, now_s: float) -> None:
        self.read_s = self.changed_s = now_s
        self.seen = LastRead()
        self._heartbeat_ns = 0
        self._folder = folder
        self._read_bytes: Counter[Path] = Counter()  # of each log

    def read(self, now_s: float) -> None:
        """Note progress; there is none as long as nothing can be read."""
        self.read_s, seen = now_s, self.seen
        try:
            # one that is gone would look like one where nothing has happened yet
            self._folder.path.stat()
            doing = self._folder.read_doing()
            last_step = None
            if doing is not Doing.BUILDING:
                last_step = self._folder.last_step()
            heartbeat_ns = self._folder.heartbeat_ns()
        except (OSError, ValueError) as error:
            seen.unreadable = str(error)
            return
        seen.unreadable = ""
        if heartbeat_ns != self._heartbeat_ns:
            seen.heard, self._heartbeat_ns, self.changed_s = True, heartbeat_ns, now_s
        if (doing, last_step) != (seen.doing, seen.last_step):
            seen.doing, seen.last_step, self.changed_s = doing, last_step, now_s
        try:
            for log in self._folder.logs():
                seen.gave_up = seen.gave_up or self._giving_up(log)
        except OSError as error:
            seen.unreadable = str(error)

    def last_error(self) -> str:
        """Return the last line of its log that looks like one."""
        try:
            return last_error(self._folder.log)
        except OSError as error:
            self.seen.unreadable = str(error)
            return ""

    def _giving_up(self, log: Path) -> str:
        """Return the line in what was added to a log, or nothing. Raises OSError."""
        with open_regular(log) as file:
            file.seek(self._read_bytes[log])
            added = file.read(_MOST_BYTES)
        self._read_bytes[log] += max(0, len(added) - _LINE_BYTES)
        line = processes.GAVE_UP.search(added.decode(errors="replace"))
        if line is None:
            return ""
        if log == self._folder.log:
            return line[0]
        return f"{line[0]} ({log.name})"  # GPUs of other processes have the same numbers


class Attempt:
    """Watches a process from its start. `clock` counts seconds.

    Time in which `look` should have been called and was not is left out of all that is counted.
    """

    def __init__(
        self,
        folder: RunFolder,
        process: Process,
        limits: LauncherConfig,
        *,
        shares_host: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folder = folder
        self._process, self._limits = process, limits
        self._clock = processes.AwakeClock(clock, LOOK_EVERY_S)
        self._shares_host = shares_host
        self._num_kernel_kills = processes.num_kernel_kills()
        self._started_s = self._timed_from_s = self._clock.look()
        self._has_begun = False  # it waits for no host any more
        self._watch = FolderWatch(folder, self._started_s)
        self._cause: Outcome | None = None
        self._signals: list[signal.Signals] = []  # still to be sent
        self._signal_due_s = 0.0

    @property
    def descriptor(self) -> int:
        """Readable once the process has ended."""
        return self._process.descriptor

    def look(self) -> None:
        """Check the deadlines; end, and go on ending, what has missed one or was stopped."""
        now_s = self._clock.look()
        if processes.wait_readable([self.descriptor]):
            return
        if self._cause is None:
            self._check_deadlines(now_s)
        if self._signals and now_s >= self._signal_due_s:
            self._process.signal_group(self._signals.pop(0))
            self._signal_due_s = now_s + self._limits.grace_s

    def next_look_s(self) -> float:
        """Return the seconds until `look` has something to do; LOOK_EVERY_S at most."""
        due_s = min(self._watch.read_s + LOOK_EVERY_S, self._timed_from_s + self._limits.timeout_s)
        if self._signals:
            due_s = self._signal_due_s
        elif self._cause is not None:
            due_s = float("inf")
        return min(max(0.0, due_s - self._clock.now_s()), LOOK_EVERY_S)

    def stop(self, *, at_once: bool = False) -> None:
        """End it because the sweep was interrupted; `at_once`: by SIGKILL, and now."""
        now_s = self._clock.look()
        self._begin_ending(Outcome.INTERRUPTED, now_s)
        if at_once:
            self._signals, self._signal_due_s = [signal.SIGKILL], now_s
        self.look()

    def ended(self) -> ProcessEnd | None:
        """Return None while the process runs.

        Call it once afterwards: it ends what is left of the group, and lets go of its number.
        """
        if not processes.wait_readable([self.descriptor]):
            return None
        now_s = self._clock.look()
        self._process.signal_group(signal.SIGKILL)
        exit_code = self._process.reap()
        if exit_code is None or exit_code < 0:  # it could not end its own children
            end_started_by(self._process.pid)
        if self._cause is None:
            self._watch.read(now_s)
        return ProcessEnd(
            exit_code=exit_code,
            duration_s=now_s - self._started_s,
            cause=self._cause,
            seen=self._watch.seen,
            last_error=self._watch.last_error(),
            kernel_killed=processes.num_kernel_kills() > self._num_kernel_kills,
            shares_host=self._shares_host,
        )

    def _check_deadlines(self, now_s: float) -> None:
        watch, seen = self._watch, self._watch.seen
        if self._folder.waits_for_host():  # before its start, or while its files are sent
            self._timed_from_s = watch.read_s = watch.changed_s = now_s
            if not self._has_begun:
                self._started_s = now_s
            return
        self._has_begun = True
        if now_s - self._timed_from_s >= self._limits.timeout_s:
            self._begin_ending(Outcome.TIMED_OUT, now_s)
        elif now_s - watch.read_s >= LOOK_EVERY_S:
            watch.read(now_s)
            allowed_s = self._limits.start_timeout_s
            if seen.doing is Doing.STEPPING:
                allowed_s = self._limits.step_timeout_s
            if seen.gave_up:
                allowed_s = min(allowed_s, NO_MEMORY_S)
            if now_s - watch.changed_s >= allowed_s:
                cause = Outcome.HUNG
                if seen.unreadable:
                    cause = Outcome.FAILED
                self._begin_ending(cause, now_s)

    def _begin_ending(self, cause: Outcome, now_s: float) -> None:
        if self._cause is None:
            self._cause, self._signals, self._signal_due_s = cause, list(_ENDING), now_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What came of an attempt that has ended, or could not be started."""

    result: AttemptResult
    # failed without a result of its own or of a rank, or interrupted but not by us: worth a retry
    crashed: bool
    exit_code: int | None = None  # as that of ProcessEnd
    duration_s: float = 0.0


def judge(folder: RunFolder, ended: ProcessEnd, limits: LauncherConfig) -> Judged:
    """Judge an attempt by its result, or else by its end."""
    unreadable = ""
    try:
        written = folder.read_result()
    except (OSError, ValueError) as error:
        written, unreadable = None, str(error)
    if written and _counts(written, ended):
        crashed = written.outcome == Outcome.INTERRUPTED or ended.exit_code == RANK_LOST
        crashed = crashed and ended.exit_code != HOST_LOST  # it is not what the host died of
    else:
        outcome, message = _judge_end(ended, limits)
        crashed = outcome is Outcome.FAILED
        if crashed:
            why = unreadable or ended.seen.unreadable or ended.last_error
            message = f"{message}: {why or 'see log.txt in its run folder'}"
        written = with_gpu_errors(AttemptResult(outcome=outcome, message=message), folder)
    return Judged(
        result=written, crashed=crashed, exit_code=ended.exit_code, duration_s=ended.duration_s
    )


def _counts(written: AttemptResult, ended: ProcessEnd) -> bool:
    """Return whether a result fits the end of its process.

    It is written whole, as the last thing, so a kill that comes later changes nothing. When we
    ended the attempt, its word that it was interrupted or failed says nothing new.
    """
    if ended.exit_code not in (None, HOST_LOST, -signal.SIGKILL):
        codes = TRAINER_EXIT_CODES | {RANK_LOST: Outcome.FAILED}
        if codes.get(ended.exit_code) != written.outcome:
            return False
    return ended.cause is None or written.outcome not in (Outcome.INTERRUPTED, Outcome.FAILED)


def _judge_end(ended: ProcessEnd, limits: LauncherConfig) -> tuple[Outcome, str]:
    if ended.cause is Outcome.INTERRUPTED:
        return Outcome.INTERRUPTED, "the sweep was interrupted"
    if ended.cause is Outcome.TIMED_OUT:
        return Outcome.TIMED_OUT, f"not finished within launcher.timeout_s={limits.timeout_s:g}"
    gave_up = ended.seen.gave_up
    if ended.cause is Outcome.HUNG and gave_up:
        return Outcome.OUT_OF_MEMORY, (
            f"out of GPU memory, and other GPUs waited for it in vain: {gave_up}; try a "
            "smaller batch_size, image_px or seq_len"
        )
    if ended.cause is Outcome.HUNG:
        return Outcome.HUNG, _missed(ended.seen, limits)
    if ended.cause is Outcome.FAILED:
        return Outcome.FAILED, "ended, for its run folder could not be read"
    if ended.exit_code is None:
        why = "ended unseen, and left no result (the fork server that started it was lost)"
        return Outcome.FAILED, why
    if ended.exit_code == -signal.SIGKILL:
        return judge_kill(by_kernel=ended.kernel_killed, shares_host=ended.shares_host)
    by_itself = ended.exit_code > 0 or ended.exit_code == -signal.SIGABRT
    if by_itself and processes.says_so(ended.last_error):
        return Outcome.OUT_OF_MEMORY, processes.OUT_OF_HOST_MEMORY
    if ended.exit_code < 0 and gave_up:  # oneDNN goes on without the memory, and crashes
        return Outcome.OUT_OF_MEMORY, f"{processes.OUT_OF_HOST_MEMORY}: {gave_up}"
    remedy = processes.other_limit(ended.last_error)
    message = f"ended with exit code {ended.exit_code} and left no result"
    if ended.exit_code < 0:
        name = processes.signal_name(-ended.exit_code)
        remedy = remedy or processes.other_limit(name)
        message = f"ended by {name}"
    if remedy:
        message += f" ({remedy})"
    return Outcome.FAILED, message


def _missed(seen: LastRead, limits: LauncherConfig) -> str:
    output = ""
    if seen.heard:
        output = " and no output"
    if seen.doing is Doing.BUILDING:
        return f"no first step{output} within launcher.start_timeout_s={limits.start_timeout_s:g}"
    if seen.doing is Doing.PROFILING:
        return (
            f"no end within launcher.start_timeout_s={limits.start_timeout_s:g} after the "
            "measured steps"
        )
    after = "the first step"
    if seen.last_step is not None:
        after = f"step {seen.last_step}"
    return f"no step{output} within launcher.step_timeout_s={limits.step_timeout_s:g} after {after}"


MOST_LOSSES = 5  # of a host, after which a repeat is left: perhaps it is what its hosts die of


def disturbances_of(result: AttemptResult) -> list[str]:
    """Return what made an attempt `disturbed`, as its verdict says it; nothing for others."""
    if result.outcome != Outcome.COMPLETED:
        return []
    return [said_of_others(gpu) for gpu in result.gpu_telemetry if gpu.num_foreign_processes]


def end_of(result: AttemptResult, *, crashed: bool) -> tuple[str, int]:
    """Return what an end is called, and how often a repeat is tried again after such ends: a crash
    uses up no retry that is meant for a disturbance. `crashed` is as Judged has it.
    """
    outcome = Outcome(result.outcome)
    if disturbances_of(result):
        return "disturbed", 1
    if crashed and outcome in (Outcome.FAILED, Outcome.INTERRUPTED):
        return "crashed", 1
    if outcome is Outcome.INTERRUPTED:  # its host was lost; the next command tries it again
        return outcome.value, MOST_LOSSES
    return outcome.value, 0
