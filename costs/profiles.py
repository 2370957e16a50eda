"""Finds hardware profiles, a file each, below its key `profile`: those that ship lie in
`conf/hardware/`, a user's own in `hardware/` of the settings folder, or anywhere.
"""

from __future__ import annotations

import difflib
import json
import os
import re
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


def own_profiles() -> tuple[str, ...]:
    """Return the names of the user's own, in the settings folder."""
    folder = _own_folder()
    found = folder.glob("*.yaml") if folder else ()
    return tuple(sorted(path.stem for path in found if _NAME.fullmatch(path.stem)))


def own_profile_file(name: str) -> Path | None:
    """Return the file of a profile of the user's own, there or not: `my_box.yaml`, or a name in the
    settings folder. None for what is neither, and for a user without a home.
    """
    if name.endswith(_ENDING):
        return Path(name).expanduser().absolute()
    folder = _own_folder()
    if folder is None or not _NAME.fullmatch(name):
        return None
    return folder / f"{name}{_ENDING}"


def _own_folder() -> Path | None:
    """Return scalemark/hardware in XDG_CONFIG_HOME, else in ~/.config; None without a home."""
    folder = os.environ.get("XDG_CONFIG_HOME", "")
    if not Path(folder).is_absolute():  # the specification has others ignored
        try:
            folder = str(Path.home() / ".config")
        except RuntimeError:
            return None
    return Path(folder) / "scalemark" / "hardware"


_ENDING = ".yaml"
_NAME = re.compile(r"\w+", re.ASCII)


@cache
def profile(name: str) -> Hardware:
    """Read a profile, those that ship before the user's own. Raises UnknownProfileError and
    BrokenProfileError.
    """
    file = FOLDER / f"{name}{_ENDING}" if name in profiles() else own_profile_file(name)
    if file is None or not file.is_file():
        names = (*profiles(), *own_profiles())
        close = difflib.get_close_matches(name, names, n=1)
        meant = f"did you mean {close[0]}? " if close else ""
        raise UnknownProfileError(
            f"hardware={name}: no such profile; {meant}there are {', '.join(names)}"
        )
    return Hardware.from_values(read_profile(file))


def read_profile(file: Path) -> Mapping[str, Any]:
    """Return the values of a profile, which are those of a box. Raises BrokenProfileError."""
    try:
        values = yaml.safe_load(file.read_text(encoding="utf-8"))["profile"]
        Hardware.from_values(values)
    except (OSError, KeyError, ValueError, TypeError, yaml.YAMLError) as error:
        shown = f"conf/hardware/{file.name}" if file.parent == FOLDER else str(file)
        raise BrokenProfileError(
            f"{shown}: {' '.join(str(error).split())}; mend this file"
        ) from None
    found: Mapping[str, Any] = values
    return found


def sound() -> tuple[Hardware, ...]:
    """Return all that ship and can be used: a broken file harms nobody who does not ask for it."""
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
    if name in (*profiles(), *own_profiles()):
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
