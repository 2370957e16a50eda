"""Makes the environment of a trainer's process."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from scalemark.host.own_code import python_path
from scalemark.records.attempt import (
    ORCHESTRATOR_VARIABLE,
    PYTHONPATH_VARIABLE,
    WORKDIR_VARIABLE,
)
from sweeper.devices import host_lock

# the first changes how Hydra fails; by the second a trainer would take itself for a rank
_NOT_FOR_TRAINERS = ("HYDRA_FULL_ERROR", "TF_CONFIG")


def environment(inherited: Mapping[str, str], visible_devices: str) -> dict[str, str]:
    """Return the variables of a trainer; it runs in another folder, so paths are made absolute."""
    kept = {name: value for name, value in inherited.items() if name not in _NOT_FOR_TRAINERS}
    if cache := inherited.get("SCALEMARK_CACHE"):
        kept["SCALEMARK_CACHE"] = str(Path(cache).absolute())
    if locks := inherited.get(host_lock.VARIABLE):
        # by this others find it as an orphan once we are dead
        kept[host_lock.VARIABLE] = str(Path(locks).expanduser().resolve())
    if own := inherited.get(PYTHONPATH_VARIABLE, inherited.get("PYTHONPATH")):
        kept[PYTHONPATH_VARIABLE] = own
    return kept | {
        ORCHESTRATOR_VARIABLE: str(os.getpid()),
        WORKDIR_VARIABLE: str(Path.cwd()),
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": visible_devices,
        "PYTHONPATH": python_path(inherited),
    }
