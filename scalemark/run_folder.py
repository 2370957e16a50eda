"""The run folder: the files of one attempt, written by engines and read by the rest."""

import errno
import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from scalemark.records import measurement
from scalemark.records.attempt import (
    WORKER_0,
    AttemptBegin,
    AttemptEnd,
    Placement,
    Rank,
    RankLimits,
    environment_of,
    pack_steps,
    spec_of,
)
from scalemark.records.machine import Machine, XidError
from scalemark.records.trial import TrialSpec
from scalemark.records.validation import build, parsed
from scalemark.text.untrusted import GRAPH_ERROR, quoted, telling_line

MOST_BYTES = 2**26


def open_regular(path: Path, *, follows_links: bool = False) -> BinaryIO:
    """Open a file without waiting for another program or leaving the folder. Raises OSError."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags if follows_links else flags | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):  # ENXIO: a socket
            raise refused(path, "a link" if path.is_symlink() else "a socket") from error
        raise
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise refused(path, "a FIFO" if stat.S_ISFIFO(mode) else "a device")


def read_regular(path: Path, most_bytes: int = MOST_BYTES) -> str:
    """Return the text of a file. Raises OSError, also for a larger one, and ValueError."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size <= most_bytes:
            return file.read(size).decode()  # not what is appended meanwhile
    raise OSError(errno.EFBIG, f"found more than {most_bytes} bytes, wanted no more", str(path))


def refused(path: Path, what: str) -> OSError:
    return OSError(errno.EINVAL, f"found {what}, wanted a regular file", str(path))


_Made = TypeVar("_Made")
SWEEP_FILE = "sweep.json"  # of a sweep, beside its run folders
MOST_STEPS_BYTES = 2**28  # of steps.jsonl: some 1.5 million calls


class _File:
    """A file of fixed name, as an attribute of the folder."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, folder: "RunFolder", owner: "type[RunFolder]") -> Path:
        return folder.path / self._name


def _reader(file: _File, make: Callable[[str], _Made]) -> Callable[["RunFolder"], _Made | None]:
    """Return a method that reads a file; None where there is none."""
    return lambda folder: folder._read(file.__get__(folder, RunFolder), make)


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The files of one attempt. The trainer writes most of them; the orchestrator reads them.

    A file that cannot be read raises OSError, and one that makes no sense, as after a full disk,
    ValueError. Both name the file.
    """

    path: Path

    trial = _File("trial.json")
    attempt = _File("attempt.json")
    ended = _File("ended.json")
    machine = _File("machine.json")
    placement = _File("placement.json")
    doing = _File("doing.txt")
    loaded = _File("loaded.txt")  # of our trainer: empty, there once TensorFlow is imported
    environment = _File("environment.json")
    steps = _File("steps.jsonl")
    telemetry = _File("telemetry.jsonl")
    gpu_errors = _File("gpu_errors.jsonl")  # an XidError per line
    profile = _File("profile")  # a folder
    heartbeat = _File("heartbeat.txt")  # of a user's program: touched when it has printed something
    watched = _File("watched.json")  # of a user's program: by it `log` is read again
    result = _File("result.json")
    rank_limits = _File("rank_limits.json")
    token = _File(".token")  # of an attempt elsewhere; `rank_token` of a rank
    go = _File(".go")  # ranks elsewhere begin once all have their hosts
    log = _File("log.txt")  # of the trainer; with ranks: of their supervisor and of worker 0

    def rank_log(self, rank: Rank) -> Path:
        """Return the log of a rank of a distributed trial; worker 0 is its trainer."""
        if rank == WORKER_0:
            return self.log
        return self.path / f"log-{rank.name}.txt"

    def rank_token(self, rank: Rank) -> Path:
        return self.path / f"{self.token.name}{rank.name}"

    def waits_for_host(self) -> bool:
        """Say whether it, or one of its ranks, runs elsewhere and waits for its host."""
        return any(self.path.glob(f"{self.token.name}*"))

    def logs(self) -> list[Path]:
        """Return the logs that are there: of the trainer, then of other ranks."""
        return [*self.path.glob(self.log.name), *sorted(self.path.glob("log-*.txt"))]

    def rank_beat(self, rank: Rank) -> Path:
        """Return the file with a growing number, which a rank writes every few seconds.

        "7 joining" says that it may be silent until it has met the other ranks.
        """
        return self.path / f"beat-{rank.name}.txt"

    def write(self, path: Path, text: str) -> None:
        """Write a file whole or not at all.

        The steps are on the disk before the result that rests on them, so that a power loss spares
        both or neither. A sweep's own file waits for the disk, too, and no other one: that would
        disturb the measurement.
        """
        if path == self.result:
            self._sync_steps()
        draft = path.with_suffix(".draft")
        try:
            with draft.open("w") as file:
                file.write(text)
                if path in (self.result, self.environment) or path.name == SWEEP_FILE:
                    file.flush()
                    os.fsync(file.fileno())
            draft.replace(path)
        except OSError:
            with suppress(OSError):
                draft.unlink()
            raise

    def _sync_steps(self) -> None:
        """Flush the file, and its name in the folder."""
        for path in (self.steps, self.path):
            with suppress(FileNotFoundError):
                descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
                try:
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)

    def read_trial(self) -> TrialSpec:
        with _making_sense_of(self.trial):
            return spec_of(parsed(read_regular(self.trial)))

    # none of them is there in a folder that a trainer was given by hand
    read_attempt = _reader(attempt, AttemptBegin.from_json)
    read_machine = _reader(machine, Machine.from_json)
    read_placement = _reader(placement, Placement.from_json)
    # none while it runs, when its orchestrator was killed, or before it is known
    read_ended = _reader(ended, AttemptEnd.from_json)
    read_environment = _reader(environment, environment_of)
    read_result = _reader(result, measurement.AttemptResult.from_json)

    def read_rank_limits(self) -> RankLimits:
        """Defaults in a folder that a trainer was given by hand."""
        return self._read(self.rank_limits, RankLimits.from_json) or RankLimits()

    def read_steps(self) -> list[measurement.StepSample]:
        """Return all complete lines, without a last one that a crash cut off."""
        return self._read(self.steps, _steps_in, MOST_STEPS_BYTES) or []

    def read_gpu_errors(self) -> list[XidError]:
        """Return what GPUs reported, in the order in which it came; nothing where none is there."""
        return self._read(self.gpu_errors, _gpu_errors_in) or []

    def read_doing(self) -> measurement.Doing:
        """Return what the trainer is doing; a process that has not said it yet is building."""
        return self._read(self.doing, measurement.Doing) or measurement.Doing.BUILDING

    def last_step(self) -> int | None:
        """Return the number of the last step; None before the first."""
        newest = self.newest_step()
        return newest.step if newest else None

    def newest_step(self) -> "NewestStep | None":
        """Read the last step from the end of the file only: a measurement runs."""
        try:
            with open_regular(self.steps) as file:
                file.seek(max(0, file.seek(0, 2) - 1024))
                lines = file.read(1024).split(b"\n")[:-1]
        except FileNotFoundError:
            return None
        if not lines:
            return None
        with _making_sense_of(self.steps):
            values = parsed(lines[-1].decode())
            return build(NewestStep, {"step": values["step"], "phase": values.get("phase", "")})

    def heartbeat_ns(self) -> int:
        """Return when a user's program printed something last; 0 before, and of trainers."""
        try:
            return self.heartbeat.lstat().st_mtime_ns
        except FileNotFoundError:
            return 0

    def _read(
        self, path: Path, make: Callable[[str], _Made], most_bytes: int = MOST_BYTES
    ) -> _Made | None:
        """Return None when there is no such file."""
        try:
            with _making_sense_of(path):
                return make(read_regular(path, most_bytes))
        except FileNotFoundError:
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewestStep:
    """The step that a trainer wrote last."""

    step: int
    phase: str  # a Phase; empty of a line without one


def _steps_in(text: str) -> list[measurement.StepSample]:
    lines = text.split("\n")[:-1]
    try:
        steps = parsed(f"[{','.join(lines)}]")  # several times faster than line by line
    except ValueError:
        steps = []
    if len(steps) != len(lines):  # find the damaged line
        steps = [_line(number, line) for number, line in enumerate(lines, 1)]
    return [
        build(measurement.StepSample, step, f"line {number}")
        for number, step in enumerate(steps, 1)
    ]


def _gpu_errors_in(text: str) -> list[XidError]:
    return [XidError.from_json(line) for line in text.split("\n")[:-1]]


def _line(number: int, text: str) -> Any:
    try:
        return parsed(text)
    except ValueError as error:
        raise ValueError(f"line {number}: {error}") from error


@contextmanager
def _making_sense_of(path: Path) -> Iterator[None]:
    try:
        yield
    except (ValueError, TypeError, KeyError, IndexError) as error:
        what = str(error) if type(error) is ValueError else f"{type(error).__name__}: {error}"
        raise ValueError(f"{path} is damaged: {what}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """The files that an attempt left, read and checked."""

    result: measurement.AttemptResult
    steps: Sequence[measurement.StepSample]
    environment: dict[str, Any] | None


def read_left(folder: RunFolder, result: measurement.AttemptResult) -> Left:
    """Read what belongs to a result. Raises ValueError or OSError, naming the file."""
    if result.measurement is None:
        if result.outcome == measurement.Outcome.COMPLETED:
            raise ValueError(
                f"{folder.result}: outcome=completed, measurement=null: wanted a measurement"
            )
        environment = readable(folder.read_environment)
        return Left(result=result, steps=[], environment=environment)
    return Left(
        result=result,
        steps=steps_of(folder, result.measurement),
        environment=folder.read_environment(),
    )


def left_of_failed(folder: RunFolder, outcome: measurement.Outcome, message: str) -> Left:
    """Return what is left of an attempt whose own result does not count."""
    result = measurement.ended(outcome, message)
    return Left(result=result, steps=[], environment=readable(folder.read_environment))


def steps_of(folder: RunFolder, figures: measurement.Measurement) -> list[measurement.StepSample]:
    """Read the steps of a measurement. Raises ValueError for fewer, and for impossible ones."""
    steps = folder.read_steps()
    try:
        if steps:
            pack_steps(steps)  # as the database will
    except ValueError as error:
        raise ValueError(f"{folder.steps} is damaged: {error}") from error
    num_measured = sum(step.num_steps for step in steps if step.phase == measurement.Phase.MEASURE)
    wanted = 0 if figures.reported else max(1, figures.num_steps)
    if num_measured < wanted:
        raise ValueError(
            f"{folder.steps} is cut off: it holds {num_measured} measured steps, the measurement "
            f"was made of {wanted}"
        )
    return steps


def readable(read: Callable[[], _Made | None]) -> _Made | None:
    """Read a file of a folder; None also when a crash of the machine has damaged it."""
    try:
        return read()
    except (ValueError, OSError):
        return None


_TAIL_BYTES = 2**16
_NO_ERROR = "failed call to cuInit"  # what TensorFlow always says where there is no GPU
_ERROR_LINE = re.compile(r"^[EF]\d{4} |Error\b|Fatal|Check failed|terminate called")
_MOST_CHARACTERS = 300


def last_error(log: Path) -> str:
    """Return the last line that looks like an error, or nothing. Raises OSError."""
    with open_regular(log) as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
        return last_error_in(file.read(_TAIL_BYTES).decode(errors="replace"))


def last_error_in(text: str) -> str:
    """Return the last line of a text that looks like an error, or nothing."""
    lines = text.splitlines()
    for number in reversed(range(len(lines))):
        line = lines[number].strip()
        if not _ERROR_LINE.search(line) or _NO_ERROR in line:
            continue
        if line.endswith(GRAPH_ERROR):  # which only announces the error
            line = f"{line} {telling_line(chr(10).join(lines[number + 1 :]))}".rstrip()
        return quoted(line, _MOST_CHARACTERS)
    return ""


_MOST_NAMED = 3  # the first ones tell the cause; others follow from it


def with_gpu_errors(
    result: measurement.AttemptResult, folder: RunFolder
) -> measurement.AttemptResult:
    """Add to the message of an attempt that failed or hung what its GPUs had reported."""
    if result.outcome not in (measurement.Outcome.FAILED, measurement.Outcome.HUNG):
        return result
    message = result.message
    errors = readable(folder.read_gpu_errors) or []
    for error in errors[:_MOST_NAMED]:
        if str(error) not in message:  # a rank may have said it
            message = f"{message}; {error}"
    return replace(result, message=message)
