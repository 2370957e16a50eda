"""The record of a sweep without its attempts, `sweep.json`, and the fields that are settings."""

from __future__ import annotations

import hashlib
import json
from copy import deepcopy
from dataclasses import Field, dataclass, field
from datetime import datetime
from typing import Any

from scalemark.records.attempt import spec_of
from scalemark.records.validation import checked, parsed, utc_text


def sweep_uid(name: str, started_at: datetime, command: str) -> str:
    """Identify a sweep among those of the same name in other databases."""
    digest = hashlib.sha256(json.dumps([name, utc_text(started_at), command]).encode())
    return digest.hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedFor:
    """One trial of a sweep. A continued sweep may have two of the same position."""

    position: int
    spec: str  # canonical JSON of its TrialSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRecord:
    """The name, reason and trials of a sweep."""

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
        """Return JSON with a line per trial; specs are JSON already."""
        head = {name: getattr(self, name) for name in ("uid", "name", "reason", "command")}
        head |= {"started_at": utc_text(self.started_at), "left_out": self.left_out}
        trials = ",\n".join(
            f'{{"position": {trial.position}, "spec": {trial.spec}}}' for trial in self.trials
        )
        return f'{json.dumps(head, indent=1)[:-2]},\n "trials": [\n{trials}\n ]\n}}\n'

    @classmethod
    def from_json(cls, text: str) -> SweepRecord:
        """Invert `to_json`. Raises ValueError."""
        values = checked(_SweepInFile, parsed(text))
        uid = values.pop("uid")
        values["trials"] = tuple(
            AskedFor(position=trial.position, spec=spec_of(trial.spec).to_json())
            for trial in values["trials"]
        )
        record = cls(**values)
        if record.uid != uid:
            raise ValueError(f"uid {uid}, and its name, time and command make {record.uid}")
        return record


@dataclass(frozen=True, slots=True, kw_only=True)
class _TrialInFile:
    position: int
    spec: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class _SweepInFile:
    uid: str
    name: str
    reason: str
    command: str
    started_at: datetime
    trials: tuple[_TrialInFile, ...]
    left_out: tuple[tuple[str, str], ...]


_HELP = "help"


def setting(help: str, *, default: Any) -> Any:  # noqa: A002
    """Return the field of a setting. Lists are copied for each instance."""
    metadata = {_HELP: help}
    if isinstance(default, list):
        return field(default_factory=lambda: deepcopy(default), metadata=metadata)
    return field(default=default, metadata=metadata)


def help_of(setting: Field[Any]) -> str:
    """Return the line of help; empty where the field is no setting."""
    return str(setting.metadata.get(_HELP, ""))
