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
    """Raised for a file that is no profile; the message names the file, and what is wrong."""


class UnknownProfileError(ValueError):
    """Raised for an unknown name; the message lists those that there are."""


@cache
def profiles() -> tuple[str, ...]:
    """Return the names; the other files of the folder are of machines that exist."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.yaml") if _may_be_one(path)))


def _may_be_one(path: Path) -> bool:
    """Keep also what cannot be read: it is named where it is asked for."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (ValueError, yaml.YAMLError):
        return True
    return not isinstance(content, dict) or "profile" in content


@cache
def profile(name: str) -> Hardware:
    """Read a profile. Raises UnknownProfileError and BrokenProfileError."""
    if name not in profiles():
        close = difflib.get_close_matches(name, profiles(), n=1)
        meant = f"did you mean {close[0]}? " if close else ""
        raise UnknownProfileError(
            f"hardware={name}: no such profile; {meant}there are {', '.join(profiles())}"
        )
    path = FOLDER / f"{name}.yaml"
    try:
        return Hardware.from_values(yaml.safe_load(path.read_text(encoding="utf-8"))["profile"])
    except (ValueError, TypeError, yaml.YAMLError) as error:
        raise BrokenProfileError(
            f"conf/hardware/{path.name}: {' '.join(str(error).split())}; mend this file"
        ) from None


def sound() -> tuple[Hardware, ...]:
    """Return all that can be used: a broken file harms nobody who does not ask for it."""
    found = []
    for name in profiles():
        try:
            found.append(profile(name))
        except BrokenProfileError:
            continue
    return tuple(found)


def overrides_of(hardware_profile: str) -> tuple[str, ...]:
    """Return the overrides that simulate this hardware (JSON) with `sweep.py`.

    They name the profile, and in what the hardware differs from the file so named.
    """
    wanted = json.loads(hardware_profile)
    name = wanted["name"]
    found = ["engine=simulated", f"hardware={name}"]
    if name in profiles():
        found += _changed(wanted, asdict(profile(name)), "hardware.profile")
    return tuple(found)


def _changed(wanted: Mapping[str, Any], shipped: Mapping[str, Any], at: str) -> Iterator[str]:
    """Yield what differs in Hydra's syntax; sources change nothing."""
    for name, value in wanted.items():
        if name == "sources" or (name in shipped and value == shipped[name]):
            continue
        if isinstance(value, dict):
            yield from _changed(value, shipped[name], f"{at}.{name}")
            yield from (f"~{at}.{name}.{gone}" for gone in shipped[name] if gone not in value)
        else:
            yield f"{at}.{name}={json.dumps(value)}"
