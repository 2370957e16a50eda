"""The abilities that an all-reduce declares."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

HOST = -1
"""The host's memory, where copies begin or end; other ends are GPUs, counted from 0."""


class Traffic(Protocol):
    """Counts what is sent during one step; `simulator.costs.links.Traffic` knows the links."""

    def copy(self, source: int, target: int, num_bytes: float, num_copies: float = 1.0) -> None:
        """Add copies from one GPU to another, or from or to HOST; `num_bytes` is of all of them."""

    def host_sums(self, num_bytes: float, memory_bytes: float) -> None:
        """Add what the CPUs sum, and what moves through the host's memory for it."""

    def collective(self, sizes: Sequence[float], num_gpus: int, launchers: int) -> None:
        """Add one NCCL kernel per message; each of `launchers` GPUs waits for its turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AllReduceAbilities:
    """ABILITIES of a file in `trainer/all_reduces/`."""

    # sends(traffic, sizes, num_gpus) tells the cost model what one step sends: `sizes` are the
    # bytes of each message of one GPU, in the order of the layers
    sends: Callable[[Traffic, Sequence[float], int], None]
    uses_nccl: bool = False  # on GPUs, whose memory it needs beside TensorFlow's
    gpu_only: str = ""  # why CPU devices cannot run it; empty where they can
    within_hosts: bool = True  # sums on one host of several that one client drives
