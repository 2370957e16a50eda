"""Keeps the newest probe of each machine and kind of device in the user's cache folder."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from scalemark.host.files import cache_folder
from scalemark.records.probe import Probe
from scalemark.run_folder.folder import read_regular

_MOST_BYTES = 2**24  # a machine of 256 GPUs has 65,280 pairs


def read(machine: str, device_kind: str) -> Probe | None:
    """Return what was measured of the machine of this key; None where nothing, or nothing whole."""
    try:
        found = Probe.from_json(read_regular(_file(machine, device_kind), _MOST_BYTES))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RuntimeError) as error:
        print(f"the kept probe cannot be used: {error}", file=sys.stderr)
        return None
    is_of_it = (found.machine, found.device_kind) == (machine, device_kind)
    return found if is_of_it else None


def write(probe: Probe) -> Path:
    """Keep a probe, whole or not at all, in place of an earlier one. Raises OSError."""
    file = _file(probe.machine, probe.device_kind)
    draft = file.with_suffix(f".{os.getpid()}")
    draft.write_text(probe.to_json(), encoding="utf-8")
    draft.replace(file)
    return file


def prepare() -> Path:
    """Make the folder, and return it. Raises OSError where it cannot be written to, and
    RuntimeError for a user without a home.
    """
    folder = _folder()
    folder.mkdir(parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK):
        raise PermissionError(13, os.strerror(13), str(folder))
    return folder


def _folder() -> Path:
    return cache_folder() / "probes"


def _file(machine: str, device_kind: str) -> Path:
    return _folder() / f"{machine}-{device_kind}.json"
