"""The software and the variables that numbers depend on, as any process of this Python sees them.
Standard library only.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import subprocess
from collections.abc import Mapping
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from scalemark.host.own_code import ROOT
from scalemark.host.recorded_variables import RECORDED
from scalemark.records.validation import storable
from scalemark.text.redact import MASK, names_a_secret, without_secrets

PACKAGES = ("tensorflow", "tf_nightly", "keras", "numpy", "ml_dtypes", "scalemark")  # and NVIDIA's
VARIABLES = (
    "TF_",
    "XLA_",
    "NCCL_",
    "CUDA_",
    "CUDNN_",
    "CUBLAS_",
    "NVIDIA_TF32",
    "OMP_",
    "GOMP_",
    "MKL_",
    "KMP_",
    "LD_PRELOAD",
)
# a matter of the attempt, not of the software
PLACEMENT = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")
TERRAFORM = ("TF_VAR_", "TF_TOKEN_", "TF_CLI_", "TF_REGISTRY_")  # may hold secrets
SOURCES = (
    "analysis",
    "conf",
    "costs",
    "hydra_plugins",
    "plots",
    "scalemark",
    "simulator",
    "store",
    "sweep.py",
    "sweeper",
    "trainer",
)  # of what is installed
UNKNOWN_DIFF = "unknown"
_GIT_WITHIN_S = 5.0  # it takes hundredths of a second, unless the disk is another host's
_MOST_HASHED_BYTES = 2**20  # of one untracked file: a data set that lies about is no source
_DRIVER_TELLS = ("/sys/module/nvidia/version", "/proc/driver/nvidia/version")


def describe(variables: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """Python, packages, result-changing variables. Call before TensorFlow is imported: it sets
    variables of its own.

    And for people the versions of what GPUs are driven by, empty where there is none: `driver` as
    the kernel has it,
    `cuda` and `cudnn` as they are installed as packages.
    """
    packages = _packages()
    return {
        "python": platform.python_version(),
        "kernel": platform.release(),
        "packages": packages,
        "variables": result_changing(variables),
        "driver": driver(),
        "cuda": _of_nvidia(packages, "cuda_runtime"),
        "cudnn": _of_nvidia(packages, "cudnn"),
    }


def key(software: Mapping[str, Any]) -> str:
    """Digest of what `describe` found, but for what machine and packages tell, too; numbers of
    different keys are never mixed.
    """
    told = {name: software[name] for name in ("python", "kernel", "packages", "variables")}
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]


def result_changing(variables: Mapping[str, str]) -> dict[str, str]:
    """Those that TensorFlow, CUDA, NCCL or OpenMP read, sorted; not the placement, and nothing that
    may be a secret.

    Of a variable that is not known the value, which may be anything, is not told; a digest tells
    two values apart.
    """
    return {
        storable(name): without_secrets(storable(value))
        if name in RECORDED
        else _told_apart(name, value)
        for name, value in sorted(variables.items())
        if name in RECORDED
        or (
            name.startswith(VARIABLES)
            and not name.startswith(TERRAFORM)
            and name not in PLACEMENT
            and not names_a_secret(name)
        )
    }


def _told_apart(name: str, value: str) -> str:
    """The mask and 32 bits of a digest: other values make other software, and none can be read.

    A guess at a short value can be confirmed: so nothing comes here whose name tells of a secret,
    or that looks like one.
    """
    told = storable(f"{name}={without_secrets(value)}")
    return f"{MASK} {hashlib.sha256(told.encode()).hexdigest()[:8]}"


def commit(root: Path = ROOT) -> str:
    """Git commit of this checkout, with '+dirty' when files differ from it; empty outside a
    checkout.
    """
    told = _git(root, "describe", "--always", "--abbrev=40", "--dirty=+dirty", "--match=")
    return told.decode().strip() if told else ""


def diff(root: Path = ROOT) -> str:
    """Digest of what makes this checkout differ from its commit: its changes, and source files that
    git does not know yet.

    Empty when nothing does, and outside a checkout; UNKNOWN_DIFF when git does not tell.
    """
    if not (root / ".git").exists():
        return ""
    changes = _git(root, "diff", "HEAD", "--binary", "--no-ext-diff", "--no-textconv", "--no-color")
    listed = _git(root, "ls-files", "--others", "--exclude-standard", "-z", "--", *SOURCES)
    if changes is None or listed is None:
        return UNKNOWN_DIFF
    if not changes and not listed:
        return ""
    digest = hashlib.sha256(changes)
    for name in filter(None, listed.split(b"\0")):
        digest.update(b"\0" + name + b"\0" + _content(root / os.fsdecode(name)))
    return digest.hexdigest()[:16]


def driver(tells: tuple[str, ...] = _DRIVER_TELLS) -> str:
    """Version of the NVIDIA driver that is loaded; empty without."""
    for path in tells:
        try:
            found = re.search(r"\b\d+\.\d+(?:\.\d+)?\b", Path(path).read_text())
        except OSError:
            continue
        if found:
            return found[0]
    return ""


def _git(root: Path, *arguments: str) -> bytes | None:
    """What it says; None where it cannot. A checkout only: scalemark may be installed inside
    somebody else's.
    """
    if not (root / ".git").exists():
        return None
    command = ["git", "-C", str(root), *arguments]
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}  # a look changes nothing
    try:
        return subprocess.run(
            command, capture_output=True, check=True, timeout=_GIT_WITHIN_S, env=environment
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return None


def _content(path: Path) -> bytes:
    """Digest of it; of what is large, its size."""
    try:
        size = path.stat().st_size
        return (
            hashlib.sha256(path.read_bytes()).digest()
            if size <= _MOST_HASHED_BYTES
            else str(size).encode()
        )
    except OSError:
        return b"unreadable"  # or removed meanwhile


def _of_nvidia(packages: Mapping[str, str], what: str) -> str:
    """Version of `nvidia_WHAT` or `nvidia_WHAT_cuNN`."""
    return next(
        (
            version
            for name, version in packages.items()
            if re.fullmatch(rf"nvidia_{what}(_cu\d+)?", name)
        ),
        "",
    )


def _packages() -> dict[str, str]:
    found = {}
    for distribution in distributions():
        name = distribution.metadata["Name"].lower().replace("-", "_")
        if name in PACKAGES or name.startswith("nvidia_"):
            found[name] = distribution.version
    return dict(sorted(found.items()))
