"""The software and the variables that numbers depend on, as any process of this Python sees them. Standard library only."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
from collections.abc import Mapping
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

PACKAGES = ("tensorflow", "tf_nightly", "keras", "numpy", "ml_dtypes", "scalemark")  # and NVIDIA's
VARIABLES = ("TF_", "XLA_", "NCCL_", "CUDA_", "CUDNN_", "CUBLAS_", "NVIDIA_TF32", "OMP_", "GOMP_", "MKL_", "KMP_", "LD_PRELOAD")
PLACEMENT = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")  # a matter of the attempt, not of the software
TERRAFORM = ("TF_VAR_", "TF_TOKEN_", "TF_CLI_", "TF_REGISTRY_")  # may hold secrets


def describe(variables: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """Python, packages, result-changing variables. Call before TensorFlow is imported: it sets variables of its own."""
    return {
        "python": platform.python_version(),
        "kernel": platform.release(),
        "packages": _packages(),
        "variables": result_changing(variables),
    }


def key(software: Mapping[str, Any]) -> str:
    """Digest of what `describe` found; numbers with different keys are never mixed."""
    told = {name: software[name] for name in ("python", "kernel", "packages", "variables")}
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]


def result_changing(variables: Mapping[str, str]) -> dict[str, str]:
    """Those that TensorFlow, CUDA, NCCL or OpenMP read, sorted; not the placement, and not Terraform's."""
    return {
        name: value
        for name, value in sorted(variables.items())
        if name.startswith(VARIABLES) and not name.startswith(TERRAFORM) and name not in PLACEMENT
    }


def commit() -> str:
    """Git commit of this checkout, with '+dirty' when files differ from it; empty outside a checkout."""
    root = Path(__file__).parent.parent
    command = ["git", "-C", str(root), "describe", "--always", "--abbrev=40", "--dirty=+dirty", "--match="]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def _packages() -> dict[str, str]:
    found = {}
    for distribution in distributions():
        name = distribution.metadata["Name"].lower().replace("-", "_")
        if name in PACKAGES or name.startswith("nvidia_"):
            found[name] = distribution.version
    return dict(sorted(found.items()))
