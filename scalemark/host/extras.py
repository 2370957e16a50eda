"""Say how an optional part of scalemark is added to the environment that lacks it."""

from __future__ import annotations

import shlex
import sys
from importlib.util import find_spec
from pathlib import Path

_NVIDIA_DRIVER = Path("/proc/driver/nvidia/version")


def command_that_adds(extra: str) -> str:
    """Return a shell command; environments that uv makes have no pip of their own."""
    if find_spec("pip"):
        installer = [sys.executable, "-m", "pip", "install"]
    else:
        installer = ["uv", "pip", "install", "--python", sys.executable]
    return shlex.join([*installer, f"scalemark[{extra}]"])


def lack_of_tensorflow() -> str | None:
    """Return what to do where TensorFlow is not installed; None where it is."""
    if find_spec("tensorflow") and find_spec("keras"):
        return None
    extra = "cuda" if _NVIDIA_DRIVER.exists() else "tensorflow"
    return f"TensorFlow is not installed; {command_that_adds(extra)} adds it"
