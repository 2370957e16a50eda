"""The run folder: the files of one attempt, written by the trainer and read by the rest."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from scalemark.records.attempt import AttemptBegin, AttemptEnd, check_environment, spec_of
from scalemark.records.cluster import WORKER_0, Rank, RankLimits
from scalemark.records.machine import Machine
from scalemark.records.measurement import Result, StepSample
from scalemark.records.outcomes import Doing
from scalemark.records.placement import Placement
from scalemark.records.trial import TrialSpec
from scalemark.records.validation import (
    build,
    build_all,
    parsed,
)
from scalemark.run_folder.regular_file import MOST_BYTES, open_regular, read_regular

_Made = TypeVar("_Made")
MOST_STEPS_BYTES = 2**28  # of steps.jsonl: some 1.5 million calls


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The files of one attempt. The trainer writes most of them; the orchestrator reads them.

    What cannot be read raises OSError; what is read and makes no sense, as after a full disk,
    ValueError. Both name the file.
    """

    path: Path

    @property
    def trial(self) -> Path:
        return self.path / "trial.json"

    @property
    def attempt(self) -> Path:
        return self.path / "attempt.json"

    @property
    def ended(self) -> Path:
        return self.path / "ended.json"

    @property
    def machine(self) -> Path:
        return self.path / "machine.json"

    @property
    def placement(self) -> Path:
        return self.path / "placement.json"

    @property
    def doing(self) -> Path:
        return self.path / "doing.txt"

    @property
    def environment(self) -> Path:
        return self.path / "environment.json"

    @property
    def steps(self) -> Path:
        return self.path / "steps.jsonl"

    @property
    def telemetry(self) -> Path:
        return self.path / "telemetry.jsonl"

    @property
    def profile(self) -> Path:
        return self.path / "profile"

    @property
    def result(self) -> Path:
        return self.path / "result.json"

    @property
    def log(self) -> Path:
        """Of the trainer; in a distributed trial of what looks after its ranks, and of worker 0."""
        return self.path / "log.txt"

    @property
    def rank_limits(self) -> Path:
        return self.path / "rank_limits.json"

    def rank_log(self, rank: Rank) -> Path:
        """Of a rank of a distributed trial; worker 0 is its trainer."""
        return self.log if rank == WORKER_0 else self.path / f"log-{rank.name}.txt"

    def rank_beat(self, rank: Rank) -> Path:
        """What a rank writes anew every few seconds, beginning when it can be reached: a growing
        number.

        "7 joining" where it may be silent from then on, until it has met the others.
        """
        return self.path / f"beat-{rank.name}.txt"

    def write(self, path: Path, text: str) -> None:
        """At once and whole: who ends in the middle leaves no half a file.

        Of what was measured not even a power loss does: the steps are on the disk before the result
        that rests on them. What is written beside the steps never waits for a disk, and neither
        does how the attempt ended: the database, which is told next, is as likely to lose it.
        """
        if path == self.result:
            self._sync_steps()
        draft = path.with_suffix(".draft")
        with draft.open("w") as file:
            file.write(text)
            if path in (self.result, self.environment):
                file.flush()
                os.fsync(file.fileno())
        draft.replace(path)

    def _sync_steps(self) -> None:
        """The file, and its name in the folder."""
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

    def read_attempt(self) -> AttemptBegin | None:
        """None in a folder that a trainer was given by hand."""
        return self._read(self.attempt, AttemptBegin.from_json)

    def read_ended(self) -> AttemptEnd | None:
        """None while it runs, and when its orchestrator was killed before it could tell."""
        return self._read(self.ended, AttemptEnd.from_json)

    def read_rank_limits(self) -> RankLimits:
        """The defaults in a folder that a trainer was given by hand."""
        return self._read(self.rank_limits, RankLimits.from_json) or RankLimits()

    def read_machine(self) -> Machine | None:
        """None in a folder that a trainer was given by hand."""
        return self._read(self.machine, Machine.from_json)

    def read_placement(self) -> Placement | None:
        """None in a folder that a trainer was given by hand."""
        return self._read(self.placement, Placement.from_json)

    def read_steps(self) -> list[StepSample]:
        """All complete lines; a last line cut off by a crash is left out."""
        return self._read(self.steps, _steps_in, MOST_STEPS_BYTES) or []

    def read_doing(self) -> Doing:
        """What the trainer is at; a process that has not told yet is building."""
        return self._read(self.doing, Doing) or Doing.BUILDING

    def last_step(self) -> int | None:
        """Number of the last complete line, from the end of the file alone: cheap enough to ask
        beside a measurement.
        """
        try:
            with open_regular(self.steps) as file:
                file.seek(max(0, file.seek(0, 2) - 1024))
                lines = file.read(1024).split(b"\n")[:-1]
        except FileNotFoundError:
            return None
        with _making_sense_of(self.steps):
            return (
                build(_ToldStep, {"step": parsed(lines[-1].decode())["step"]}).step
                if lines
                else None
            )

    def read_environment(self) -> dict[str, Any] | None:
        """None when the attempt ended before it was known."""
        return self._read(self.environment, _environment_in)

    def read_result(self) -> Result | None:
        """None when the attempt ended without one."""
        return self._read(self.result, Result.from_json)

    def _read(
        self, path: Path, make: Callable[[str], _Made], most_bytes: int = MOST_BYTES
    ) -> _Made | None:
        """None when there is no such file."""
        try:
            with _making_sense_of(path):
                return make(read_regular(path, most_bytes))
        except FileNotFoundError:
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _ToldStep:
    """What is asked of a step while it runs."""

    step: int


def _steps_in(text: str) -> list[StepSample]:
    """Of lines that a crash did not cut off."""
    lines = text.split("\n")[:-1]
    try:
        told = parsed(f"[{','.join(lines)}]")
    except ValueError:
        told = []
    if len(told) != len(lines):  # one by one it is found which
        told = [_line(number, line) for number, line in enumerate(lines, 1)]
    return build_all(StepSample, told, "line")


def _line(number: int, text: str) -> Any:
    try:
        return parsed(text)
    except ValueError as error:
        raise ValueError(f"line {number}: {error}") from error


def _environment_in(text: str) -> dict[str, Any]:
    found = parsed(text)
    check_environment(found)
    return dict(found)


@contextmanager
def _making_sense_of(path: Path) -> Iterator[None]:
    try:
        yield
    except (ValueError, TypeError, KeyError, IndexError) as error:
        told = str(error) if type(error) is ValueError else f"{type(error).__name__}: {error}"
        raise ValueError(f"{path} is damaged: {told}") from error
