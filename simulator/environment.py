"""Writes the software that played a trial into its run folder: `environment.json`. Asked for once
per process that is forked.
"""

from __future__ import annotations

import json
import os
from functools import cache
from typing import Any

from scalemark.host import software
from scalemark.run_folder.folder import RunFolder


def write(folder: RunFolder) -> None:
    environment = _of_checkout() | {
        "variables": software.result_changing(os.environ),
        "set_by_trial": {},
    }
    folder.write(folder.environment, json.dumps(environment, indent=1, sort_keys=True))


@cache
def _of_checkout() -> dict[str, Any]:
    """As `trainer.process.environment` has it, of the code that this process has loaded."""
    built = {"cuda_build": "", "cudnn_build": ""}
    return software.describe({}) | {"commit": software.commit(), "diff": software.diff()} | built


def load() -> None:
    """Now, so that a process forked from this one need not."""
    _of_checkout()
