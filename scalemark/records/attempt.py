"""Records of how an attempt began and ended: `attempt.json` and `ended.json`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, make_dataclass
from datetime import datetime
from typing import Any

from scalemark.records.axes import Engine
from scalemark.records.measurement import Result
from scalemark.records.outcomes import Outcome
from scalemark.records.placement import Placement
from scalemark.records.trial import AXES, LACKED_BY_COMMANDS, TrialSpec
from scalemark.records.validation import (
    JsonRecord,
    check_json,
    check_least,
    check_one_of,
    checked,
)
from scalemark.text.untrusted import quoted_lines


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptBegin(JsonRecord):
    """Says which attempt a run folder belongs to: `attempt.json`."""

    sweep_uid: str
    sweep: str  # its name
    trial_id: str
    repeat: int
    attempt: int
    started_at: datetime
    software_key: str  # of the software that its orchestrator wanted

    def __post_init__(self) -> None:
        check_least("repeat", self.repeat, 1)
        check_least("attempt", self.attempt, 1)
        check_year("started_at", self.started_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEnd(JsonRecord):
    """Says how an attempt ended: `ended.json`, written before the row of the database."""

    exit_code: int | None  # as in FinishedAttempt
    duration_s: float | None
    ended_at: datetime
    placement: Placement  # with what was known at the end only
    outcome: str  # an Outcome
    message: str
    result: Result | None  # counts instead of result.json; None where that counts

    def __post_init__(self) -> None:
        check_one_of("outcome", self.outcome, Outcome)
        check_year("ended_at", self.ended_at)
        if self.duration_s is not None:
            check_duration("duration_s", self.duration_s)
        object.__setattr__(self, "message", quoted_lines(self.message))
        result = self.result
        if result and (result.outcome, result.message) != (self.outcome, self.message):
            raise ValueError(
                f"outcome={self.outcome}, and its result says {result.outcome}: {result.message}"
            )


LONGEST_S, FIRST_YEAR, LAST_YEAR = 315_576_000, 1900, 9900
"""Limits beyond which dates and durations cannot be computed with."""


def check_duration(name: str, duration_s: float) -> None:
    """Raises ValueError."""
    check_least(name, duration_s, 0)
    if duration_s > LONGEST_S:
        raise ValueError(f"{name}={duration_s}: wanted {LONGEST_S} (ten years) or less")


def check_year(name: str, at: datetime) -> None:
    """Raises ValueError."""
    if not FIRST_YEAR <= at.year <= LAST_YEAR:
        raise ValueError(f"{name}={at.isoformat()}: wanted a year from {FIRST_YEAR} to {LAST_YEAR}")


def check_environment(found: object) -> None:
    """Raises ValueError when no trainer wrote it."""
    check_json(found, "environment")
    if not isinstance(found, Mapping):
        raise ValueError(f"environment: found {type(found).__name__}, wanted an object")
    optional = dict.fromkeys(("diff", "cuda", "cudnn"), "")
    for name in ("python", "kernel", "commit", *optional):
        if not isinstance(found.get(name, optional.get(name)), str):
            raise ValueError(f"environment.{name}: wanted text")
    for name in ("packages", "variables"):
        if not isinstance(found.get(name), dict):
            raise ValueError(f"environment.{name}: wanted an object")
    for name, version in found["packages"].items():
        if not isinstance(version, str):
            raise ValueError(f"environment.packages.{name}: wanted text")


def spec_of(found: object) -> TrialSpec:
    """Return the trial of a spec in a file. Raises ValueError.

    Values stay as they are, whole numbers in place of floats, too: their digest is the identity.
    """
    is_program = isinstance(found, dict) and found.get("engine") == Engine.command
    checked(_PROGRAM_IN_FILE if is_program else _SPEC_IN_FILE, found, "spec")
    assert isinstance(found, dict)
    return TrialSpec.of(found)


def _in_file(lacked: Collection[str]) -> type[Any]:
    """Return a record of every axis by its type; those that may be lacking have a default."""
    required: list[tuple[str, Any]] = []
    optional: list[tuple[str, Any, Any]] = []
    for axis in AXES.values():
        if axis.default is None and axis.name not in lacked:
            required.append((axis.name, axis.type))
        else:
            optional.append((axis.name, axis.type, axis.lacking))
    optional.append(("free", dict[str, Any], field(default_factory=dict)))
    return make_dataclass("_SpecInFile", [*required, *optional])


_SPEC_IN_FILE = _in_file(())
_PROGRAM_IN_FILE = _in_file(LACKED_BY_COMMANDS)
