"""Writes the software of a program into its run folder: `environment.json`."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from command.start import Program
from scalemark.host import program_software, software
from scalemark.host.own_version import own_version
from scalemark.run_folder.folder import RunFolder


def write(program: Program, folder: RunFolder) -> str:
    """Find and write it; return what is not known of it, empty for nothing.

    What asks git and the interpreter has ended afterwards.
    """
    found = program_software.describe(program.software_words, program.folder, program.variables)
    built = {"set_by_trial": dict(program.set_by_trial), "cuda_build": "", "cudnn_build": ""}
    environment = found | _of_checkout() | built
    folder.write(folder.environment, json.dumps(environment, indent=1, sort_keys=True))
    return program_software.doubt(program.software_words, found)


def load() -> None:
    """Ask now, so that processes forked from this one need not."""
    _of_checkout()
    own_version()


@cache
def _of_checkout() -> dict[str, Any]:
    """Describe the code that this process has loaded."""
    return {"commit": software.commit(), "diff": software.diff()}
