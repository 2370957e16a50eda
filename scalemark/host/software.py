"""Describes the software and the variables that numbers depend on. Standard library only."""

import hashlib
import json
import os
import platform
import re
import subprocess
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from scalemark.host.own_code import ROOT
from scalemark.host.variables import OF_A_SESSION, TERRAFORM, VARIABLES
from scalemark.records.validation import storable
from scalemark.run_folder import SWEEP_FILE
from scalemark.text.untrusted import MASK, names_a_secret, without_secrets

_RECORDED = """
    TF_CONFIG TF_CPP_MIN_LOG_LEVEL TF_CUDNN_DETERMINISTIC TF_CUDNN_USE_AUTOTUNE
    TF_CUDNN_USE_RUNTIME_FUSION TF_DETERMINISTIC_OPS TF_ENABLE_ONEDNN_OPTS
    TF_ENABLE_WINOGRAD_NONFUSED TF_FORCE_GPU_ALLOW_GROWTH TF_FORCE_UNIFIED_MEMORY TF_GPU_ALLOCATOR
    TF_GPU_HOST_MEM_LIMIT_IN_MB TF_GPU_THREAD_COUNT TF_GPU_THREAD_MODE TF_NUM_INTEROP_THREADS
    TF_NUM_INTRAOP_THREADS TF_PER_DEVICE_MEMORY_LIMIT_MB TF_SET_ONEDNN_FPMATH_MODE TF_USE_CUBLASLT
    TF_USE_CUDNN_BATCHNORM_SPATIAL_PERSISTENT TF_XLA_FLAGS XLA_FLAGS NCCL_ALGO NCCL_BUFFSIZE
    NCCL_CROSS_NIC NCCL_CUMEM_ENABLE NCCL_DEBUG NCCL_IB_DISABLE NCCL_IB_HCA NCCL_MAX_NCHANNELS
    NCCL_MIN_NCHANNELS NCCL_NET_GDR_LEVEL NCCL_NTHREADS NCCL_NVLS_ENABLE NCCL_P2P_DISABLE
    NCCL_P2P_LEVEL NCCL_PROTO NCCL_SHM_DISABLE NCCL_SOCKET_IFNAME NCCL_SOCKET_NTHREADS
    NCCL_TOPO_FILE NCCL_TUNER_PLUGIN CUDA_CACHE_DISABLE CUDA_CACHE_PATH CUDA_DEVICE_MAX_CONNECTIONS
    CUDA_HOME CUDA_LAUNCH_BLOCKING CUDA_MODULE_LOADING CUDA_MPS_ACTIVE_THREAD_PERCENTAGE
    CUDA_MPS_PIPE_DIRECTORY CUDA_PATH OMP_DYNAMIC OMP_NUM_THREADS OMP_PLACES OMP_PROC_BIND
    OMP_SCHEDULE OMP_STACKSIZE OMP_WAIT_POLICY GOMP_CPU_AFFINITY GOMP_SPINCOUNT MKL_DYNAMIC
    MKL_ENABLE_INSTRUCTIONS MKL_NUM_THREADS MKL_THREADING_LAYER KMP_AFFINITY KMP_BLOCKTIME
    KMP_HW_SUBSET KMP_LIBRARY KMP_SETTINGS NVIDIA_TF32_OVERRIDE LD_PRELOAD
"""
RECORDED = frozenset(_RECORDED.split())
"""Exact names. The placement (CUDA_VISIBLE_DEVICES, CUDA_DEVICE_ORDER) belongs to the attempt."""


PACKAGES = ("tensorflow", "tf_nightly", "keras", "numpy", "ml_dtypes", "scalemark")  # and NVIDIA's
# these belong to the attempt, not to the software
PLACEMENT = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")
# of what is installed
SOURCES = (
    *("analysis", "command", "conf", "hydra_plugins", "plots", "scalemark", "simulator", "store"),
    *("sweep.py", "sweeper", "trainer"),
)
UNKNOWN_DIFF = "unknown"
DIRTY = "+dirty"  # behind the commit of a checkout with changes
OF_PROGRAM = "program "  # before what `scalemark.host.program_software` finds of its code
COMMIT, CODE = f"{OF_PROGRAM}commit", f"{OF_PROGRAM}code"
CODE_DIFFERS = "code of the program"
_SAID = {CODE: CODE_DIFFERS, f"{OF_PROGRAM}files": "files that the command names"}
_DIGITS = 12
# it takes hundredths of a second, unless the disk is another host's or all is busy
_GIT_WITHIN_S = 20.0
# git sets these for hooks, and would take another checkout or index for them
_OF_A_HOOK = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX")
_DRIVER_FILES = ("/sys/module/nvidia/version", "/proc/driver/nvidia/version")


def describe(variables: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """Return Python, packages and variables, and for people the versions of driver and CUDA.

    Call it before TensorFlow is imported, which sets variables of its own. `driver` is what the
    kernel has loaded, `cuda` and `cudnn` are installed packages; each is empty where there is none.
    """
    packages = {}
    for distribution in distributions():
        name = distribution.metadata["Name"].lower().replace("-", "_")
        if name in PACKAGES or name.startswith("nvidia_"):
            packages[name] = distribution.version
    return described(platform.python_version(), packages, result_changing(variables))


def described(
    python: str, packages: Mapping[str, str], variables: Mapping[str, str]
) -> dict[str, Any]:
    """Return the facts of a software, with the kernel and the driver of this host."""
    return {
        "python": python,
        "kernel": platform.release(),
        "packages": dict(sorted(packages.items())),
        "variables": variables,
        "driver": driver(),
        "cuda": of_nvidia(packages, "cuda_runtime"),
        "cudnn": of_nvidia(packages, "cudnn"),
    }


def key(software: Mapping[str, Any]) -> str:
    """Digest what `describe` found; numbers of different keys are never mixed.

    `program` is of a user's own, as `scalemark.host.program_software.describe` finds it: where its
    code is known, the commit it was found in is for people alone.
    """
    known = {name: software[name] for name in ("python", "kernel", "packages", "variables")}
    if "program" in software:
        program = dict(software["program"])
        if program.get("code"):
            program.pop("commit", None)
        known["program"] = program
    return hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()[:16]


def facts(description: Mapping[str, Any]) -> dict[str, str]:
    """Return by name what numbers depend on, of a description."""
    known = {name: description.get(name) for name in ("python", "kernel")}
    known |= description.get("packages") or {}
    known |= description.get("variables") or {}
    for name, value in (description.get("program") or {}).items():
        if value:
            shown = str(value)[:_DIGITS]
            if str(value).endswith(DIRTY):
                shown += DIRTY
            known[f"{OF_PROGRAM}{name}"] = shown
    return {name: str(value) for name, value in known.items() if value is not None}


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Name what makes two descriptions software of different keys, as `timm 1.0 -> 2.0`."""
    named = []
    of_before, of_now = facts(before), facts(now)
    for name in sorted(of_before.keys() | of_now.keys()):
        first, second = of_before.get(name, "none"), of_now.get(name, "none")
        if first == second or name == COMMIT:
            continue
        if name in _SAID:
            named.append(_SAID[name])
        elif name in (now.get("variables") or {}) or name in (before.get("variables") or {}):
            named.append(name)
        else:
            named.append(f"{name} {first} -> {second}")
    return named


def result_changing(variables: Mapping[str, str], named: Collection[str] = ()) -> dict[str, str]:
    """Return the variables that TensorFlow, PyTorch, JAX, CUDA, NCCL or OpenMP read, sorted, and
    those that a program itself names.

    The placement is left out, and all that may be a secret. The value of an unknown variable may be
    anything: it becomes a mask and 32 bits of a digest, which tell two values apart. (A guess at a
    short value can be confirmed so, which is why nothing comes here that looks like a secret.)
    """
    recorded = {}
    begins = tuple(name for name in named if name.endswith("_"))  # `startswith("MYAPP_")`
    for name, value in sorted(variables.items()):
        shown = without_secrets(storable(value))
        if name in RECORDED:
            recorded[name] = shown
            continue
        is_known = name.startswith(VARIABLES) and name not in PLACEMENT
        is_named = (name in named or name.startswith(begins)) and not name.startswith(OF_A_SESSION)
        is_secret = name.startswith(TERRAFORM) or names_a_secret(name)
        if (is_known or is_named) and not is_secret:
            digest = hashlib.sha256(f"{storable(name)}={shown}".encode()).hexdigest()
            recorded[storable(name)] = f"{MASK} {digest[:8]}"
    return recorded


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkout:
    """A git checkout, by one answer of git."""

    commit: str  # followed by DIRTY when files differ; empty before the first one
    changed: Sequence[str]  # files that differ from the commit
    edited: Sequence[str]  # files that differ from what is staged
    untracked: Sequence[str]  # without what trials write


def checkout(root: Path) -> Checkout | None:
    """Ask git for the state of a checkout; None where it fails, and elsewhere."""
    options = ("--porcelain=v2", "--branch", "-z", "--no-renames", "--untracked-files=all")
    answer = git(root, "status", *options)
    if answer is None:
        return None
    commit = ""
    changed, edited, untracked = [], [], []
    for entry in os.fsdecode(answer).split("\0"):
        kind, _, rest = entry.partition(" ")
        if rest.startswith("branch.oid ") and "(initial)" not in rest:
            commit = rest.split()[1]
        elif kind == "?" and not any(is_of_a_sweep(root / above) for above in Path(rest).parents):
            untracked.append(rest)
        elif kind in _NUM_FIELDS:
            name = rest.split(" ", _NUM_FIELDS[kind])[-1]
            changed.append(name)
            if rest[1] != ".":
                edited.append(name)
    if commit and changed:
        commit += DIRTY
    return Checkout(commit=commit, changed=changed, edited=edited, untracked=untracked)


_NUM_FIELDS = {"1": 7, "u": 9}  # before the name of a changed file, and of an unmerged one


def own_checkout(root: Path = ROOT) -> dict[str, str]:
    """Return the commit of a checkout, and a digest of its changes and of its source files that git
    does not know yet.

    The digest is empty without any, and outside a checkout; UNKNOWN_DIFF when git fails.
    """
    state = checkout(root)
    if state is None:
        return {"commit": "", "diff": UNKNOWN_DIFF if (root / ".git").exists() else ""}
    ours = [name for name in state.untracked if name.partition("/")[0] in SOURCES]
    names = [*state.changed, *ours]
    digest = hashlib.sha256()
    for name in names:
        digest.update(f"{name}\0{git_content(root / name)}\0".encode(errors="surrogateescape"))
    return {"commit": state.commit, "diff": digest.hexdigest()[:16] if names else ""}


def is_of_a_sweep(folder: Path) -> bool:
    """Return whether a folder is one of `store.runs_dir`: what trials write there is no source."""
    return (folder / SWEEP_FILE).exists()


def driver(files: tuple[str, ...] = _DRIVER_FILES) -> str:
    """Return the version of the NVIDIA driver that is loaded; empty without one."""
    for path in files:
        try:
            match = re.search(r"\b\d+\.\d+(?:\.\d+)?\b", Path(path).read_text())
        except OSError:
            continue
        if match:
            return match[0]
    return ""


def git(root: Path, *arguments: str, within_s: float = _GIT_WITHIN_S) -> bytes | None:
    """Return what git prints; None where it fails, and below the top of a checkout."""
    if not (root / ".git").exists():
        return None
    command = ["git", "-C", str(root), *arguments]
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}  # a look changes nothing
    for name in _OF_A_HOOK:
        environment.pop(name, None)
    try:
        return subprocess.run(
            command, capture_output=True, check=True, timeout=within_s, env=environment
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return None


def checkout_of(place: Path) -> Path | None:
    """Return the top of the git checkout that a folder is in."""
    for above in (place, *place.parents):
        if (above / ".git").exists():
            return above
    return None


MOST_HASHED_BYTES = 2**28  # of one file: a data set is no source


def git_content(file: Path) -> str:
    """Return git's name of what a file holds; of a large one, its size."""
    try:
        size = file.stat().st_size
        if size > MOST_HASHED_BYTES:
            return f"{size} bytes"
        content = file.read_bytes()
    except OSError:
        return "unreadable"  # or removed meanwhile
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def of_nvidia(packages: Mapping[str, str], what: str) -> str:
    """Return the version of `nvidia_WHAT` or `nvidia_WHAT_cuNN`."""
    for name, version in packages.items():
        if re.fullmatch(rf"nvidia_{what}(_cu\d+)?", name):
            return version
    return ""
