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


class UnknownProfileError(ValueError):
    """There is no such profile; the message names those that there are."""


@cache
def profiles() -> tuple[str, ...]:
    """Their names; the other files of the folder are of machines that exist."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.yaml") if "profile" in yaml.safe_load(path.read_text())))


@cache
def profile(name: str) -> Hardware:
    """Raises UnknownProfileError."""
    if name not in profiles():
        close = difflib.get_close_matches(name, profiles(), n=1)
        meant = f"did you mean {close[0]}? " if close else ""
        raise UnknownProfileError(f"hardware={name}: no such profile; {meant}There are {', '.join(profiles())}")
    return Hardware.from_values(yaml.safe_load((FOLDER / f"{name}.yaml").read_text())["profile"])


def overrides_of(hardware_profile: str) -> tuple[str, ...]:
    """What `sweep.py` must be told to simulate this hardware (JSON): its name, and in what it differs from the file so named."""
    told = json.loads(hardware_profile)
    name = told["name"]
    changed = _changed(told, asdict(profile(name)), "hardware.profile") if name in profiles() else ()
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
