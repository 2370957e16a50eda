"""Records of what the stages of the kit find: numbers, and verdicts on the lines that must hold."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TypeAlias

from scalemark.records.validation import JsonRecord


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
