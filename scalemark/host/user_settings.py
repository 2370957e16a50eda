"""Reads the user's own defaults from config.toml in the user's settings folder.

Only what changes no number may stand there: where results are kept, what starts trials, and how
often each runs. They give way to the command line and to environment variables.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scalemark.host.own_code import ROOT

STORE, LAUNCHER, REPEATS = "store.url", "launcher", "sweep.repeats"
KNOWN = (STORE, LAUNCHER, REPEATS)
"""The settings, by their names on the command line of a sweep."""

DATABASE_VARIABLE = "SCALEMARK_DB"  # a URL may hold a password, and so is in no command line
MOST_REPEATS = 1000


class UserSettingsError(Exception):
    """The file cannot be read, or says what it may not. The text names the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserSettings:
    """The settings of a file; empty where there is none."""

    path: Path | None  # where it would be; None for a user without a home
    values: Mapping[str, str | int] = field(default_factory=dict)  # of those KNOWN

    @property
    def database(self) -> str | None:
        found = self.values.get(STORE)
        return None if found is None else str(found)


def user_settings(variables: Mapping[str, str] = os.environ) -> UserSettings:
    """Raises UserSettingsError for a file with anything unknown or wrong in it."""
    path = settings_path(variables)
    if path is None or not path.exists():
        return UserSettings(path=path)
    import tomllib  # here, because most have no such file

    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserSettingsError(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise UserSettingsError(f"{path}: not TOML: {error}") from error
    values = _flat(content)
    for name, value in values.items():
        if problem := _problem(name, value):
            raise UserSettingsError(f"{path}: {problem}")
    return UserSettings(path=path, values=values)


def settings_path(variables: Mapping[str, str]) -> Path | None:
    """Return scalemark/config.toml in XDG_CONFIG_HOME, else in ~/.config."""
    folder = variables.get("XDG_CONFIG_HOME", "")
    if not Path(folder).is_absolute():  # the specification has others ignored
        try:
            folder = str(Path.home() / ".config")
        except RuntimeError:
            return None
    return Path(folder) / "scalemark" / "config.toml"


def _flat(content: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return `store.url` of both `store.url = ...` and `[store] url = ...`."""
    found: dict[str, Any] = {}
    for name, value in content.items():
        if isinstance(value, dict) and f"{prefix}{name}" not in KNOWN:
            found |= _flat(value, f"{prefix}{name}.")
        else:
            found[f"{prefix}{name}"] = value
    return found


def _problem(name: str, value: object) -> str | None:
    """Say what is wrong with a setting; None when nothing is."""
    if name not in KNOWN:
        close = difflib.get_close_matches(name, KNOWN, n=1)
        meant = f"did you mean {close[0]}? " if close else ""
        return f"{name}: no such setting; {meant}there are {', '.join(KNOWN)}"
    if name == REPEATS:
        is_count = type(value) is int and 1 <= value <= MOST_REPEATS
        return None if is_count else f"{name} = {value!r}: wanted 1 to {MOST_REPEATS}"
    if name == LAUNCHER:
        choices = sorted(file.stem for file in (ROOT / "conf" / "launcher").glob("*.yaml"))
        wanted = f"one of {', '.join(choices)}, in quotes"
        return None if value in choices else f"{name} = {value!r}: wanted {wanted}"
    if isinstance(value, str) and value:
        return None
    return f"{name}: wanted a file or a URL, in quotes"
