"""Axes that are environment variables, as `+env.NCCL_ALGO=Ring,Tree` on the command line.

The trainer, or the program of the user's own, is given the variable; without the axis it inherits
what the sweep was started with. The axis is called `env.NCCL_ALGO` everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from scalemark.text.untrusted import without_secrets

PREFIX = "env."
INHERITED = "inherited"
"""What texts say of a trial that lacks the variable which others have."""
WORDS_FOR_INHERITED = (INHERITED, "null")
"""What a user may write for that."""

# capitals alone, because SQLite's columns do not tell them from small letters; 63 characters with
# the prefix are the longest name of a column in PostgreSQL
_NAME = re.compile(r"[A-Z_][A-Z0-9_]{0,58}", re.ASCII)
_LONGEST_VALUE = 1000  # XLA_FLAGS may be long

_PINNING = (
    "it is how a trial is pinned to its GPUs; choose how many by num_gpus=, and export a mask to "
    "choose which"
)
_RANK = (
    "it makes a process a rank; choose hosts by hosts=, and let the command start the ranks, as "
    "torchrun does"
)
_SOFTWARE = (
    "it chooses which software runs, which is recorded of a whole sweep; export it, and run a "
    "sweep for each value"
)
_REFUSED = {
    **dict.fromkeys(("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"), _PINNING),
    **dict.fromkeys(("NVIDIA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"), _PINNING),
    **dict.fromkeys(("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"), _PINNING),
    **dict.fromkeys(("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK"), _RANK),
    **dict.fromkeys(("GROUP_RANK", "MASTER_ADDR", "MASTER_PORT"), _RANK),
    "TF_CONFIG": "it makes a process one of several hosts; choose these by hosts=",
    **dict.fromkeys(("PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONHOME"), _SOFTWARE),
    **dict.fromkeys(("VIRTUAL_ENV", "CONDA_PREFIX", "UV_PROJECT_ENVIRONMENT"), _SOFTWARE),
}
_OURS = ("SCALEMARK_", "HYDRA_")


def checked(name: str, value: object) -> str:
    """Return the value of an environment variable, by its bare name. Raises ValueError, with what
    to do, for a name or value that cannot be one, is not the user's to set, or may be a secret.
    """
    axis = f"{PREFIX}{name}"
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"{axis}: wanted the name of an environment variable in capital letters, digits and "
            "_, with no digit first and 59 characters at most"
        )
    if name in _REFUSED:
        raise ValueError(f"{axis}: {_REFUSED[name]}")
    if name.startswith(_OURS):
        raise ValueError(f"{axis}: it controls scalemark itself; leave it out")
    text = _text(axis, value)
    if without_secrets(f"{name}={text}") != f"{name}={text}":
        raise ValueError(
            f"{axis} seems to hold a password or a token, and values of axes are stored; export it "
            "instead, and it is inherited"
        )
    return text


def _text(axis: str, value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, str):
        if 0 < len(value) <= _LONGEST_VALUE and value.isprintable():
            return value
        raise ValueError(
            f"{axis}={value[:60]!r}: wanted a line of 1 to {_LONGEST_VALUE} printable characters, "
            f"or {INHERITED}"
        )
    # 1.50 and TRUE were read as a number and as true: how they were written is lost
    shown = str(value).lower()[:60] if isinstance(value, bool) else str(value)[:60]
    raise ValueError(
        f"{axis}={shown}: wanted text, as a variable holds its very characters; put what you "
        f"wrote in quotes, as \"+{axis}='{shown}'\""
    )


def is_variable(axis: str) -> bool:
    """Return whether an axis is an environment variable."""
    return axis.startswith(PREFIX)


def variables(free: Iterable[tuple[str, object]]) -> dict[str, str]:
    """Return the environment variables among free axes, by their bare names."""
    return {name.removeprefix(PREFIX): str(value) for name, value in free if is_variable(name)}


def named(values: Mapping[str, object]) -> dict[str, object]:
    """Return variables by the names of their axes, without those that are `null` or `inherited`:
    they are left as they are.
    """
    found = {}
    for name, value in values.items():
        if value is not None and value != INHERITED:
            found[f"{PREFIX}{name}"] = value
    return found
