"""Writes the software that played a trial into its run folder: `environment.json`."""

from __future__ import annotations

import json
import os
from functools import cache
from typing import Any

from scalemark.host import software
from scalemark.run_folder.folder import RunFolder


def write(folder: RunFolder) -> None:
    variables = {"variables": software.result_changing(os.environ), "set_by_trial": {}}
    environment = _of_checkout() | variables
    folder.write(folder.environment, json.dumps(environment, indent=1, sort_keys=True))


@cache
def _of_checkout() -> dict[str, Any]:
    """Describe the code that this process has loaded, as `trainer.process.environment` does."""
    built = {"cuda_build": "", "cudnn_build": ""}
    return software.describe({}) | {"commit": software.commit(), "diff": software.diff()} | built


def load() -> None:
    """Ask now, so that processes forked from this one need not."""
    _of_checkout()
