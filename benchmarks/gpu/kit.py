"""What all stages share: the box, the kit's folder, a share of the time, and records of what they
find.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from types import FrameType
from typing import NoReturn, TextIO, TypeAlias

from benchmarks.gpu.box import Box
from scalemark.cli.terminal import silence
from scalemark.records.validation import JsonRecord

PROJECT = Path(__file__).resolve().parent.parent.parent
_GRACE_S = 10.0  # from SIGINT to SIGKILL


class Verdict(StrEnum):
    """The answer to a line that must hold."""

    MET = "met"
    MISSED = "missed"
    # measured, and the interval has the limit within it; or all that can run here is as it must be,
    # and the rest needs other devices
    OPEN = "open"
    NOT_RUN = "not run"


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """One figure: a line of stdout."""

    what: str
    value: float
    unit: str
    low: float | None = None  # 95 % interval, where repeats allow one
    high: float | None = None

    @property
    def text(self) -> str:
        interval = ""
        if self.low is not None and self.high is not None:
            interval = f" [{_digits(self.low)}, {_digits(self.high)}]"
        return f"{_digits(self.value)}{interval} {self.unit}"


def _digits(value: float) -> str:
    """Write four digits, and all of a larger number: 3.021e+04 is for machines."""
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """The verdict on one line that must hold."""

    line: str  # a key of the stage's LINES
    verdict: str  # a Verdict
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A part of a stage that could not run, and why."""

    text: str


Finding: TypeAlias = Number | Judged | Note


class Ended(StrEnum):
    """How a stage ended."""

    COMPLETED = "completed"
    NOT_RUN = "not run"
    OUT_OF_TIME = "out of time"
    INTERRUPTED = "interrupted"
    BROKEN = "broken"

    def in_words(self, why: str) -> str:
        """Say how and why, as `broken: see the log` or `interrupted after 9 s`."""
        if not why:
            return self.value
        return f"{self} {why}" if self == Ended.INTERRUPTED else f"{self}: {why}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StageResult(JsonRecord):
    """All that a stage found: a file of the kit's folder."""

    stage: str
    ended: str  # an Ended
    why: str  # it did not complete; empty when it did
    took_s: float
    numbers: tuple[Number, ...]
    judged: tuple[Judged, ...]  # every line of the stage
    notes: tuple[Note, ...]
    began_at: datetime | None = None  # unknown of folders of earlier versions, as the commit
    commit: str = ""  # with +dirty where files differ from it


class NotRunError(Exception):
    """Raised where something cannot run here. The text says why."""


class OutOfTimeError(Exception):
    """Raised when a stage's share of the time is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kit:
    """The state that all stages share."""

    box: Box
    folder: Path
    torch_python: str  # the interpreter that has PyTorch

    @property
    def logs(self) -> Path:
        return self.folder / "logs"

    @property
    def database(self) -> Path:
        return self.folder / "results.db"

    @property
    def runs(self) -> Path:
        return self.folder / "runs"


@contextmanager
def limited(limit_s: float) -> Iterator[None]:
    """Raise OutOfTimeError in the block when it takes longer, whatever it waits for; at once where
    there is no time.
    """
    if limit_s <= 0:
        raise OutOfTimeError("no time was left for it; the same command runs the stage")

    def over(_number: int, _frame: FrameType | None) -> NoReturn:
        raise OutOfTimeError(
            f"its {limit_s:.0f} s were over; the same command runs the stage again"
        )

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def program(
    command: Sequence[str], log: Path, variables: Mapping[str, str], folder: Path = PROJECT
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program in a folder, with its output in a log. What still runs at the end is
    interrupted, then killed.

    It has a session of its own: Ctrl-C reaches it once, from here.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as file:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        end(process)


def end(process: subprocess.Popen[bytes], grace_s: float = _GRACE_S) -> None:
    """Interrupt it, and kill it with all that it started where it takes longer than the grace."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired, KeyboardInterrupt):  # a second one kills it
            process.wait(grace_s)
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def last_line(log: Path) -> str:
    """Return the last line of a log that says something, for messages."""
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1].strip()[:300] if lines else f"{log.name} is empty"


def logged(kit: Kit, name: str, error: str) -> str:
    """Keep the whole text of an error in a log; return where, and its last line."""
    log = kit.logs / f"{name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text(f"{error}\n")
    return f"see logs/{log.name}: {last_line(log)}"


def say(text: str) -> None:
    """Tell progress."""
    _print(text, sys.stderr)


def say_result(text: str) -> None:
    """Print a line of stdout."""
    _print(text, sys.stdout)


def _print(text: str, stream: TextIO) -> None:
    try:
        print(text, file=stream, flush=True)
    except OSError:  # its terminal was closed, or Ctrl-C ended `tee`; the report is wanted still
        silence(stream)
