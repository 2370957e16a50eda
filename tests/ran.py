"""Runs a program to its end, for tests of what it says and how it ends."""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def ran(command: Sequence[str | Path], **options: Any) -> subprocess.CompletedProcess[str]:
    """Return how a command ended and what it printed; `options` are those of `subprocess.run`."""
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)
