"""The boxes that a guessed one may be: how many sockets it has, what its GPUs share, whether they
reach each other.

```
 own lanes      pairs below a switch      half of the GPUs below a switch       of one socket, or of two
 0 1 2 3 ...    [0 1] [2 3] [4 5] ...     [0 1 2 3] [4 5 6 7]
```
What one GPU more costs depends on it: without peer-to-peer, copies of all GPUs below a switch go
through its one uplink, so that 4 GPUs of one switch take three times as long as 2, 8 of two
switches hardly longer than 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

from costs.hardware import Hardware


@dataclass(frozen=True, slots=True, kw_only=True)
class Possible:
    """One of the boxes that it may be."""

    hardware: Hardware
    weight: float  # before any row is seen; of all together 1


def possible(
    guess: Hardware, *, is_gpu_known: bool, has_nvlink: bool = False
) -> tuple[Possible, ...]:
    """Of a box of which the GPU's name is all that is told. Where not even that is, GPUs may have
    NVLink, or not reach each other. `has_nvlink`: some of them have NVLink, as the box's name or
    its driver tells, and which of them is not known.
    """
    nvlink_gb_per_s = guess.nvlink_gb_per_s or _NVLINK_GB_PER_S
    half = -(-guess.num_gpus // 2)
    reach = (guess.peer_to_peer,) if is_gpu_known else (True, False)
    found = [
        replace(
            guess,
            gpus_per_switch=per_switch,
            num_sockets=sockets,
            peer_to_peer=peers,
            nvlink_gb_per_s=None,
            nvlink_clique=0,
        )
        for per_switch, sockets, peers in product(
            _at_least(guess.gpus_per_board, (1, 2, half)), (1, 2), reach
        )
    ]
    if has_nvlink or not is_gpu_known:
        found += [
            replace(
                guess,
                gpus_per_switch=max(2, guess.gpus_per_board),
                nvlink_gb_per_s=nvlink_gb_per_s,
                nvlink_clique=clique,
                hop_us=_NVLINK_HOP_US,
            )
            for clique in (
                (_BRIDGED, _CLIQUE, guess.num_gpus) if has_nvlink else (_CLIQUE, guess.num_gpus)
            )
        ]
    return tuple(Possible(hardware=one, weight=1 / len(found)) for one in found)


def _at_least(least: int, counts: Sequence[int]) -> tuple[int, ...]:
    """Each once: GPUs of one board are below one switch."""
    return tuple(dict.fromkeys(max(least, count) for count in counts))


# NVLink 2 of V100; half or twice as much is within the prior of a guessed link
_NVLINK_GB_PER_S = 120.0
_NVLINK_HOP_US = 3.4  # NCCL src/graph/tuning.cc at 5067397c
_BRIDGED = 2  # bridges join the cards of a workstation in pairs
_CLIQUE = 4  # of DGX-1 and its likes
