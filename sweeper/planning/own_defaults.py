"""Puts the user's own settings below the command line of a sweep."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from scalemark.host.user_settings import (
    DATABASE_VARIABLE,
    LAUNCHER,
    STORE,
    UserSettingsError,
    user_settings,
)
from scalemark.records.earlier_trial import key_of
from scalemark.text.redact import masked
from sweeper.errors import SweepRefusedError


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnDefaults:
    """The settings of the user's file that nothing typed replaces; false where there are none."""

    path: Path | None
    values: Mapping[str, str | int]

    def __bool__(self) -> bool:
        return bool(self.values)

    @property
    def line(self) -> str:
        settings = [masked(f"{name}={value}") for name, value in self.values.items()]
        return f"from {self.path}: {' '.join(settings)}"

    @property
    def of_schema(self) -> dict[str, str | int]:
        """Return those that replace defaults of `conf.schema`; experiments can change them."""
        return {name: value for name, value in self.values.items() if name != LAUNCHER}

    def typed(self, arguments: Sequence[str]) -> list[str]:
        """Return the arguments with those that choose of a group, before the first of their like:
        Hydra takes no override behind a flag that follows others.
        """
        if LAUNCHER not in self.values:
            return list(arguments)
        is_override = ["=" in one and not one.startswith("-") for one in arguments]
        place = is_override.index(True) if any(is_override) else len(arguments)
        return [*arguments[:place], f"{LAUNCHER}={self.values[LAUNCHER]}", *arguments[place:]]

    def to_json(self) -> dict[str, object]:
        values = {}
        for name, value in self.values.items():
            values[name] = masked(value) if isinstance(value, str) else value
        return {"path": str(self.path), "values": values}


def own_defaults(arguments: Sequence[str]) -> OwnDefaults:
    """Raises SweepRefusedError for a file with anything unknown or wrong in it."""
    try:
        own = user_settings()
    except UserSettingsError as error:
        raise SweepRefusedError(str(error)) from error
    typed = {key_of(argument) for argument in arguments}
    if os.environ.get(DATABASE_VARIABLE):
        typed.add(STORE)
    if "engine=simulated" in arguments:
        typed.add(LAUNCHER)  # it runs on this machine alone, whatever starts trials on GPUs
    values = {name: value for name, value in own.values.items() if name not in typed}
    return OwnDefaults(path=own.path, values=values)
