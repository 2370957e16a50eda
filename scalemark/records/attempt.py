"""How an attempt began and ended: `attempt.json` and `ended.json`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, make_dataclass
from datetime import datetime
from typing import Any

from scalemark.records.measurement import Result
from scalemark.records.outcomes import Outcome
from scalemark.records.placement import Placement
from scalemark.records.trial import AXES, TrialSpec
from scalemark.records.validation import (
    build,
    check_json,
    check_least,
    check_one_of,
    checked,
    parsed,
    utc_text,
)
from scalemark.text.untrusted import quoted_lines


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptBegin:
    """Which attempt a run folder is of: `attempt.json`, once the folder is made."""

    sweep_uid: str
    sweep: str  # its name
    trial_id: str
    repeat: int
    attempt: int
    started_at: datetime
    software_key: str  # of what its orchestrator wanted to run it with

    def __post_init__(self) -> None:
        check_least("repeat", self.repeat, 1)
        check_least("attempt", self.attempt, 1)
        check_year("started_at", self.started_at)

    def to_json(self) -> str:
        return json.dumps(asdict(self) | {"started_at": utc_text(self.started_at)}, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> AttemptBegin:
        """Raises ValueError."""
        return build(cls, parsed(text))


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEnd:
    """How an attempt ended, as the database has it: `ended.json`, written before the row."""

    exit_code: int | None  # as in FinishedAttempt
    duration_s: float | None
    ended_at: datetime
    placement: Placement  # as it came to be
    outcome: str  # an Outcome
    message: str
    result: Result | None  # what counts instead of result.json; none where that counts as it is

    def __post_init__(self) -> None:
        check_one_of("outcome", self.outcome, Outcome)
        check_year("ended_at", self.ended_at)
        if self.duration_s is not None:
            check_duration("duration_s", self.duration_s)
        object.__setattr__(self, "message", quoted_lines(self.message))
        if self.result and (self.result.outcome, self.result.message) != (
            self.outcome,
            self.message,
        ):
            raise ValueError(
                f"outcome={self.outcome}, and its result says {self.result.outcome}: "
                f"{self.result.message}"
            )

    def to_json(self) -> str:
        return json.dumps(asdict(self) | {"ended_at": utc_text(self.ended_at)}, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> AttemptEnd:
        """Raises ValueError."""
        return build(cls, parsed(text))


LONGEST_S, FIRST_YEAR, LAST_YEAR = 315_576_000, 1900, 9900
"""What nobody measures, and beyond which times cannot be reckoned with."""


def check_duration(name: str, duration_s: float) -> None:
    """Raises ValueError."""
    check_least(name, duration_s, 0)
    if duration_s > LONGEST_S:
        raise ValueError(f"{name}={duration_s}: wanted {LONGEST_S} (ten years) or less")


def check_year(name: str, at: datetime) -> None:
    """Raises ValueError."""
    if not FIRST_YEAR <= at.year <= LAST_YEAR:
        raise ValueError(f"{name}={at.isoformat()}: wanted a year from {FIRST_YEAR} to {LAST_YEAR}")


def check_environment(told: object) -> None:
    """Raises ValueError when it is none that a trainer wrote."""
    check_json(told, "environment")
    if not isinstance(told, Mapping):
        raise ValueError(f"environment: found {type(told).__name__}, wanted an object")
    for name, kind in (
        ("python", str),
        ("kernel", str),
        ("commit", str),
        ("packages", dict),
        ("variables", dict),
    ):
        if not isinstance(told.get(name), kind):
            raise ValueError(f"environment.{name}: wanted {'text' if kind is str else 'an object'}")
    for name in ("diff", "cuda", "cudnn"):
        if not isinstance(told.get(name, ""), str):
            raise ValueError(f"environment.{name}: wanted text")
    for name, version in told["packages"].items():
        if not isinstance(version, str):
            raise ValueError(f"environment.packages.{name}: wanted text")


def spec_of(told: object) -> TrialSpec:
    """Kept as it was told, whole numbers in place of floats, too: its digest is the trial's
    identity. Raises ValueError.
    """
    checked(_ToldSpec, told, "spec")
    assert isinstance(told, dict)
    return TrialSpec.of(told)


_ToldSpec = make_dataclass(
    "_ToldSpec",
    [
        *((axis.name, axis.type) for axis in AXES.values() if axis.default is None),
        *(
            (axis.name, axis.type, axis.default)
            for axis in AXES.values()
            if axis.default is not None
        ),
        ("free", dict[str, Any], field(default_factory=dict)),
    ],
)
"""The values of a spec as they travel."""
