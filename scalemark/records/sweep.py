"""What the database holds of a sweep beside its attempts: `sweep.json`."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from scalemark.records.attempt import spec_of
from scalemark.records.validation import (
    checked,
    parsed,
    utc_text,
)


def sweep_uid(name: str, started_at: datetime, command: str) -> str:
    """What tells a sweep from those of the same name in other databases: 16 hex digits of a digest
    of how it first began.
    """
    digest = hashlib.sha256(json.dumps([name, utc_text(started_at), command]).encode())
    return digest.hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedFor:
    """One trial of a sweep. Where a sweep was continued with others, two may have the same
    position.
    """

    position: int
    spec: str  # canonical JSON of its TrialSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRecord:
    """What a database holds of one sweep beside its attempts: `sweep.json`, once it has begun."""

    name: str
    reason: str
    command: str  # of the first beginning, as the time
    started_at: datetime
    trials: tuple[AskedFor, ...]  # also those finished earlier
    left_out: tuple[tuple[str, str], ...]  # overrides of a refused cell, and why

    @property
    def uid(self) -> str:
        return sweep_uid(self.name, self.started_at, self.command)

    def to_json(self) -> str:
        """A line per trial: their specs are JSON already."""
        head = {name: getattr(self, name) for name in ("uid", "name", "reason", "command")}
        head |= {"started_at": utc_text(self.started_at), "left_out": self.left_out}
        trials = ",\n".join(
            f'{{"position": {trial.position}, "spec": {trial.spec}}}' for trial in self.trials
        )
        return f'{json.dumps(head, indent=1)[:-2]},\n "trials": [\n{trials}\n ]\n}}\n'

    @classmethod
    def from_json(cls, text: str) -> SweepRecord:
        """Inverse of `to_json`. Raises ValueError when it is none."""
        told = checked(_ToldSweep, parsed(text))
        uid, trials = told.pop("uid"), told.pop("trials")
        found = cls(
            **told,
            trials=tuple(
                AskedFor(position=one.position, spec=spec_of(one.spec).to_json()) for one in trials
            ),
        )
        if found.uid != uid:
            raise ValueError(f"uid {uid}, and what it tells of has {found.uid}")
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _ToldTrial:
    """One of `trials` in `sweep.json`."""

    position: int
    spec: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class _ToldSweep:
    """The values of `sweep.json`."""

    uid: str
    name: str
    reason: str
    command: str
    started_at: datetime
    trials: tuple[_ToldTrial, ...]
    left_out: tuple[tuple[str, str], ...]
