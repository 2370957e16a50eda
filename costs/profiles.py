"""The hardware profiles that ship: a file each in `conf/hardware/`, below its key `profile`."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from costs.hardware import Hardware

FOLDER = Path(__file__).resolve().parent.parent / "conf" / "hardware"


class BrokenProfileError(ValueError):
    """A file in the folder is no profile that can be used; the message names the file, and what is
    wrong with it.
    """


class UnknownProfileError(ValueError):
    """There is no such profile; the message names those that there are."""


@cache
def profiles() -> tuple[str, ...]:
    """Their names; the other files of the folder are of machines that exist."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.yaml") if _may_be_one(path)))


@cache
def profile(name: str) -> Hardware:
    """Raises UnknownProfileError and BrokenProfileError."""
    if name not in profiles():
        close = difflib.get_close_matches(name, profiles(), n=1)
        meant = f"did you mean {close[0]}? " if close else ""
        raise UnknownProfileError(
            f"hardware={name}: no such profile; {meant}There are {', '.join(profiles())}"
        )
    path = FOLDER / f"{name}.yaml"
    try:
        return Hardware.from_values(yaml.safe_load(path.read_text(encoding="utf-8"))["profile"])
    except (ValueError, TypeError, yaml.YAMLError) as error:
        raise BrokenProfileError(
            f"conf/hardware/{path.name}: {' '.join(str(error).split())}; mend this file"
        ) from None


def sound() -> tuple[Hardware, ...]:
    """All that can be used: a file that is broken stands in nobody's way who does not ask for
    it.
    """
    return tuple(found for name in profiles() if (found := _sound(name)))


def _sound(name: str) -> Hardware | None:
    try:
        return profile(name)
    except BrokenProfileError:
        return None


def _may_be_one(path: Path) -> bool:
    """What cannot be read is named where it is asked for."""
    try:
        told = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (ValueError, yaml.YAMLError):
        return True
    return not isinstance(told, dict) or "profile" in told


def overrides_of(hardware_profile: str) -> tuple[str, ...]:
    """What `sweep.py` must be told to simulate this hardware (JSON): its name, and in what it
    differs from the file so named.
    """
    told = json.loads(hardware_profile)
    name = told["name"]
    changed = (
        _changed(told, asdict(profile(name)), "hardware.profile") if name in profiles() else ()
    )
    return ("engine=simulated", f"hardware={name}", *changed)


def _changed(wanted: Mapping[str, Any], shipped: Mapping[str, Any], at: str) -> Iterator[str]:
    """In Hydra's syntax; sources change nothing."""
    for name, value in wanted.items():
        if name == "sources" or (name in shipped and value == shipped[name]):
            continue
        if isinstance(value, dict):
            yield from _changed(value, shipped[name], f"{at}.{name}")
            yield from (f"~{at}.{name}.{gone}" for gone in shipped[name] if gone not in value)
        else:
            yield f"{at}.{name}={json.dumps(value)}"
