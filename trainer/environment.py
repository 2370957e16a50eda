"""The software and the variables that the numbers of an attempt depend on besides its trial and its machine."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import tensorflow as tf

RESULT_CHANGING_PREFIXES = ("TF_", "XLA_", "NCCL_", "CUDA_", "OMP_", "MKL_", "KMP_")
NOT_OURS = ("TF_VAR_", "TF_TOKEN_", "TF_CLI_", "TF_REGISTRY_")  # Terraform's; they may hold secrets
PACKAGES = ("tensorflow", "keras", "numpy", "scalemark")


def describe() -> dict[str, Any]:
    """For `environment.json`. Takes no device."""
    return {
        "python": platform.python_version(),
        "packages": {name: version(name) for name in PACKAGES},
        "cuda_build": {key: str(value) for key, value in sorted(tf.sysconfig.get_build_info().items())},
        "variables": result_changing_variables(os.environ),
        "commit": _commit(),
    }


def result_changing_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """Those that TensorFlow, CUDA or OpenMP read, sorted; Terraform's, which share a prefix, are left out."""
    return {
        name: value
        for name, value in sorted(variables.items())
        if name.startswith(RESULT_CHANGING_PREFIXES) and not name.startswith(NOT_OURS)
    }


def _commit() -> str:
    """Git commit of this checkout, with '+dirty' when files differ from it; empty outside a checkout."""
    root = Path(__file__).parent.parent
    try:
        described = subprocess.run(
            ["git", "-C", str(root), "describe", "--always", "--abbrev=40", "--dirty=+dirty", "--match="],
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return described.stdout.strip()
