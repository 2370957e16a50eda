"""`--link`: a box with another figure than its profile has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from costs.hardware import Hardware
from store.errors import StoreError

_COUNTS = ("num_gpus", "num_cores", "gpus_per_switch", "num_sockets", "nvlink_clique")
_MAY_BE_UNKNOWN = ("nvlink_gb_per_s", "socket_gb_per_s")
_LINKS = (
    "pcie_gb_per_s",
    *_MAY_BE_UNKNOWN,
    "host_memory_gb_per_s",
    "host_sum_gb_per_s",
    "decode_images_per_s_per_core",
    *_COUNTS,
)


def relinked(box: Hardware, links: Sequence[str]) -> Hardware:
    """Change a box as `pcie_gb_per_s=24` says. Raises StoreError."""
    for text in links:
        name, _, value = text.partition("=")
        if name not in _LINKS:
            raise StoreError(
                f"--link {text}: wanted one of {', '.join(_LINKS)}, as pcie_gb_per_s=24"
            )
        try:
            box = Hardware.from_values({**asdict(box), name: _figure(name, value)})
        except ValueError as error:
            raise StoreError(f"--link {text}: {error}") from None
    return box


def _figure(name: str, value: str) -> float | int | None:
    """Read a figure; `Hardware` checks its bounds. Raises ValueError."""
    if name in _COUNTS:
        if not (value.isascii() and value.isdecimal()):
            raise ValueError(f"wanted a whole number, as {name}=8")
        return int(value)
    if name in _MAY_BE_UNKNOWN and value == "null":
        return None
    try:
        return float(value)
    except ValueError:
        raise ValueError(f"wanted a number, as {name}=24") from None
