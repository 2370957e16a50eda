"""Watches one attempt, a started trainer, until it ends, and turns its end into an outcome. Never
waits itself.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from scalemark.host.host_memory import OUT_OF_HOST_MEMORY, other_limit, says_so
from scalemark.host.kernel_kills import num_kernel_kills
from scalemark.records.cluster import RANK_LOST
from scalemark.records.measurement import Result
from scalemark.records.outcomes import TRAINER_EXIT_CODES, Doing, Outcome
from scalemark.records.placement import ORCHESTRATOR_VARIABLE
from scalemark.run_folder.folder import RunFolder
from scalemark.run_folder.last_error import last_error
from sweeper.devices import host_lock
from sweeper.running.readable import is_readable
from sweeper.starts import Process

PROJECT_ROOT = Path(__file__).resolve().parents[2]
# how often the files of a trainer are read; the end of the process is noticed at once
LOOK_EVERY_S = 0.5
# a look that comes so much too late finds a machine that was paused, or an orchestrator that was
# stopped
OVERSLEPT_S = 2.0
# of the second a trainer would take that it is a rank of something else
_NOT_FOR_TRAINERS = ("HYDRA_FULL_ERROR", "TF_CONFIG")
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)  # a grace period between them


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Of an attempt, as conf.schema.LauncherConfig has them."""

    timeout_s: float  # for all of it
    start_timeout_s: float  # until the first step is done, and again for what comes after the last
    step_timeout_s: float  # from step to step
    grace_s: float  # between SIGINT and SIGTERM, and between SIGTERM and SIGKILL


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How the process of an attempt ended."""

    exit_code: int | None  # -N: by signal N; none when nobody saw it
    duration_s: float
    # why it was ended: timed_out, hung, interrupted, or failed; none when it ended by itself
    cause: Outcome | None = None
    doing: Doing = Doing.BUILDING  # what it was at when it was seen last
    last_step: int | None = None  # the last that was seen
    last_error: str = ""  # the last line of its log that looks like one
    unreadable: str = ""  # what is wrong with its run folder
    # the kernel killed something of this control group for memory meanwhile
    kernel_killed: bool = False
    shares_host: bool = False  # other attempts of the sweep may have run beside it


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What an attempt came to."""

    result: Result
    # failed without a result of its own or of a rank, or interrupted but not by us: another try may
    # do better
    crashed: bool


class Attempt:
    """Looks after a process from its start. `clock` counts seconds.

    Time in which nobody looked, though it was asked for, is left out of all that is counted: as
    likely as not the process stood still, too.
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
        self._folder, self._process, self._limits, self._clock = folder, process, limits, clock
        self._shares_host = shares_host
        self._num_kernel_kills = num_kernel_kills()
        self._started_s = self._changed_s = self._read_s = self._looked_s = clock()
        self._doing = Doing.BUILDING
        self._last_step: int | None = None
        self._unreadable = ""
        self._cause: Outcome | None = None
        self._signals: list[signal.Signals] = []  # still to be sent
        self._signal_due_s = 0.0

    @property
    def descriptor(self) -> int:
        """Readable once the process has ended."""
        return self._process.descriptor

    def look(self) -> None:
        """Check the deadlines; end, and go on ending, what has missed one or was stopped. What has
        ended missed none.
        """
        now_s = self._wake()
        if is_readable(self.descriptor):
            return
        if self._cause is None:
            self._check_deadlines(now_s)
        if self._signals and now_s >= self._signal_due_s:
            self._process.signal_group(self._signals.pop(0))
            self._signal_due_s = now_s + self._limits.grace_s

    def next_look_s(self) -> float:
        """Seconds until `look` has something to do; LOOK_EVERY_S at most."""
        if self._cause is not None:
            due_s = self._signal_due_s if self._signals else float("inf")
        else:
            due_s = min(self._read_s + LOOK_EVERY_S, self._started_s + self._limits.timeout_s)
        return min(max(0.0, due_s - self._clock()), LOOK_EVERY_S)

    def stop(self, *, at_once: bool = False) -> None:
        """The sweep was interrupted. Asking again changes nothing, unless it is to be at once: by
        SIGKILL.
        """
        now_s = self._wake()
        self._begin_ending(Outcome.INTERRUPTED, now_s)
        if at_once:
            self._signals, self._signal_due_s = [signal.SIGKILL], now_s
        self.look()

    def kill(self) -> None:
        """Also by a thread that does not look after it, and whatever the run folder does."""
        if not is_readable(self.descriptor):
            self._process.signal_group(signal.SIGKILL)

    def ended(self) -> Ended | None:
        """None while the process runs. Afterwards call once: ends what is left of the group, then
        lets go of its number.
        """
        if not is_readable(self.descriptor):
            return None
        duration_s = self._wake() - self._started_s
        self._process.signal_group(signal.SIGKILL)
        exit_code = self._process.reap()
        if self._cause is None:
            self._read_progress()
        return Ended(
            exit_code=exit_code,
            duration_s=duration_s,
            cause=self._cause,
            doing=self._doing,
            last_step=self._last_step,
            last_error=self._last_error(),
            unreadable=self._unreadable,
            kernel_killed=num_kernel_kills() > self._num_kernel_kills,
            shares_host=self._shares_host,
        )

    def _wake(self) -> float:
        """The time now. What was overslept moves all that is counted from."""
        now_s = self._clock()
        overslept_s = now_s - self._looked_s - LOOK_EVERY_S
        if overslept_s > OVERSLEPT_S:
            self._started_s += overslept_s
            self._changed_s += overslept_s
            self._signal_due_s += overslept_s
        self._looked_s = now_s
        return now_s

    def _check_deadlines(self, now_s: float) -> None:
        if now_s - self._started_s >= self._limits.timeout_s:
            self._begin_ending(Outcome.TIMED_OUT, now_s)
        elif now_s - self._read_s >= LOOK_EVERY_S:
            self._read_s = now_s
            if self._read_progress():
                self._changed_s = now_s
            elif now_s - self._changed_s >= self._allowed_s():
                self._begin_ending(Outcome.FAILED if self._unreadable else Outcome.HUNG, now_s)

    def _read_progress(self) -> bool:
        """Whether there was any. What cannot be read now may be read later: there is none until its
        deadline.
        """
        try:
            # one that is gone would look like one where nothing has happened yet
            self._folder.path.stat()
            doing = self._folder.read_doing()
            last_step = self._folder.last_step() if doing is not Doing.BUILDING else None
        except (OSError, ValueError) as error:
            self._unreadable = str(error)
            return False
        self._unreadable = ""
        before = self._doing, self._last_step
        self._doing, self._last_step = doing, last_step
        return (doing, last_step) != before

    def _last_error(self) -> str:
        try:
            return last_error(self._folder.log)
        except OSError as error:
            self._unreadable = str(error)
            return ""

    def _allowed_s(self) -> float:
        return (
            self._limits.step_timeout_s
            if self._doing is Doing.STEPPING
            else self._limits.start_timeout_s
        )

    def _begin_ending(self, cause: Outcome, now_s: float) -> None:
        if self._cause is None:
            self._cause, self._signals, self._signal_due_s = cause, list(_ENDING), now_s


def judge(
    folder: RunFolder, ended: Ended, limits: Limits, interrupted: str = "the sweep was interrupted"
) -> Judged:
    """By what the trainer wrote, or else by its end. `interrupted`: what to say if it was."""
    unreadable = ""
    try:
        written = folder.read_result()
    except (OSError, ValueError) as error:
        written, unreadable = None, str(error)
    if written and _counts(written, ended):
        return Judged(
            result=written,
            crashed=written.outcome == Outcome.INTERRUPTED or ended.exit_code == RANK_LOST,
        )
    outcome, message = _judge_end(ended, limits, interrupted)
    if outcome is Outcome.FAILED:
        message = (
            f"{message}: "
            f"{unreadable or ended.unreadable or ended.last_error or 'see log.txt in its run folder'}"
        )
    result = Result(outcome=outcome, message=message, measurement=None, op_placement={})
    return Judged(result=result, crashed=outcome is Outcome.FAILED)


def environment(inherited: Mapping[str, str], visible_devices: str) -> dict[str, str]:
    """Of a trainer. It runs in its run folder, so folders named relative to ours are made
    absolute.
    """
    kept = {name: value for name, value in inherited.items() if name not in _NOT_FOR_TRAINERS}
    if cache := inherited.get("SCALEMARK_CACHE"):
        kept["SCALEMARK_CACHE"] = str(Path(cache).absolute())
    if locks := inherited.get(host_lock.VARIABLE):
        # whose orphan it is, once we are dead
        kept[host_lock.VARIABLE] = str(Path(locks).expanduser().resolve())
    entries = filter(None, inherited.get("PYTHONPATH", "").split(os.pathsep))
    python_path = os.pathsep.join(
        [str(PROJECT_ROOT), *(str(Path(entry).absolute()) for entry in entries)]
    )
    return kept | {
        ORCHESTRATOR_VARIABLE: str(os.getpid()),
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": visible_devices,
        "PYTHONPATH": python_path,
    }


def _counts(written: Result, ended: Ended) -> bool:
    """Unless its exit tells another story: it is written whole, as the last thing, and a kill that
    comes later changes nothing.

    That it was interrupted, or failed over it, is no news when we ended it.
    """
    codes = TRAINER_EXIT_CODES | {RANK_LOST: Outcome.FAILED}
    told = (
        written.outcome
        if ended.exit_code in (None, -signal.SIGKILL)
        else codes.get(ended.exit_code)
    )
    if told != written.outcome:
        return False
    return ended.cause is None or written.outcome not in (Outcome.INTERRUPTED, Outcome.FAILED)


def _judge_end(ended: Ended, limits: Limits, interrupted: str) -> tuple[Outcome, str]:
    if ended.cause is Outcome.INTERRUPTED:
        return Outcome.INTERRUPTED, interrupted
    if ended.cause is Outcome.TIMED_OUT:
        return Outcome.TIMED_OUT, f"not finished within launcher.timeout_s={limits.timeout_s:g}"
    if ended.cause is Outcome.HUNG:
        return Outcome.HUNG, _missed(ended, limits)
    if ended.cause is Outcome.FAILED:
        return Outcome.FAILED, "ended, for its run folder could not be read"
    if ended.exit_code is None:
        return (
            Outcome.FAILED,
            "ended unseen, and left no result (the fork server that started it was lost)",
        )
    if ended.exit_code == -signal.SIGKILL:
        return _judge_kill(ended)
    if (ended.exit_code > 0 or ended.exit_code == -signal.SIGABRT) and says_so(ended.last_error):
        return Outcome.OUT_OF_MEMORY, OUT_OF_HOST_MEMORY
    remedy = other_limit(ended.last_error)
    why = f" ({remedy})" if remedy else ""
    if ended.exit_code < 0:
        return Outcome.FAILED, f"ended by {_signal_name(-ended.exit_code)}{why}"
    return Outcome.FAILED, f"ended with exit code {ended.exit_code} and left no result{why}"


def _missed(ended: Ended, limits: Limits) -> str:
    if ended.doing is Doing.BUILDING:
        return f"no first step within launcher.start_timeout_s={limits.start_timeout_s:g}"
    if ended.doing is Doing.PROFILING:
        return (
            f"no end within launcher.start_timeout_s={limits.start_timeout_s:g} after the "
            "measured steps"
        )
    after = "the first" if ended.last_step is None else str(ended.last_step)
    return f"no step within launcher.step_timeout_s={limits.step_timeout_s:g} after step {after}"


def _judge_kill(ended: Ended) -> tuple[Outcome, str]:
    """The kernel counts its kills for all of the control group, and so cannot tell whose one
    was.
    """
    if ended.kernel_killed and ended.shares_host:
        return (
            Outcome.FAILED,
            (
                "killed by SIGKILL, perhaps by the kernel: it lacked host memory, for this "
                "trial or one beside it"
            ),
        )
    if ended.kernel_killed:
        return Outcome.OUT_OF_MEMORY, "killed by the kernel for lack of host memory"
    return Outcome.FAILED, "killed by SIGKILL from outside (perhaps for lack of memory)"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"  # a real-time signal has no name
