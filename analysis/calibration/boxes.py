"""The boxes that a guessed one may be: its sockets, what its GPUs share, and how they are linked.

```
 own lanes      pairs below a switch      half below a switch     of one socket, or of two
 0 1 2 3 ...    [0 1] [2 3] [4 5] ...     [0 1 2 3] [4 5 6 7]
```
What one GPU more costs depends on it: without peer-to-peer, copies of all GPUs below a switch go
through its one uplink, so that 4 GPUs of one switch take three times as long as 2, 8 of two
switches hardly longer than 4.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

from costs.hardware import Hardware

# NVLink 2 of V100; half or twice as much is within the prior of a guessed link
_NVLINK_GB_PER_S = 120.0
_NVLINK_HOP_US = 3.4  # NCCL src/graph/tuning.cc at 5067397c
_BRIDGED = 2  # bridges join the cards of a workstation in pairs
_CLIQUE = 4  # of DGX-1 and its likes


@dataclass(frozen=True, slots=True, kw_only=True)
class Possible:
    """One of the boxes that it may be."""

    hardware: Hardware
    weight: float  # before any row is seen; of all together 1


def possible(
    guess: Hardware, *, is_gpu_known: bool, has_nvlink: bool = False
) -> tuple[Possible, ...]:
    """Return the boxes with a GPU of which only the name is known.

    Where not even that is known, GPUs may have NVLink, or not reach each other. `has_nvlink` says
    that some have it, by the box's name or its driver, and not which.
    """
    half = -(-guess.num_gpus // 2)
    # GPUs of one board are below one switch.
    switches = dict.fromkeys(max(guess.gpus_per_board, num) for num in (1, 2, half))
    reach = (guess.peer_to_peer,) if is_gpu_known else (True, False)
    found = []
    for per_switch, num_sockets, peer_to_peer in product(switches, (1, 2), reach):
        box = replace(
            guess,
            gpus_per_switch=per_switch,
            num_sockets=num_sockets,
            peer_to_peer=peer_to_peer,
            nvlink_gb_per_s=None,
            nvlink_clique=0,
        )
        found.append(box)
    cliques: tuple[int, ...] = ()
    if has_nvlink:
        cliques = (_BRIDGED, _CLIQUE, guess.num_gpus)
    elif not is_gpu_known:
        cliques = (_CLIQUE, guess.num_gpus)
    for clique in cliques:
        box = replace(
            guess,
            gpus_per_switch=max(2, guess.gpus_per_board),
            nvlink_gb_per_s=guess.nvlink_gb_per_s or _NVLINK_GB_PER_S,
            nvlink_clique=clique,
            hop_us=_NVLINK_HOP_US,
        )
        found.append(box)
    return tuple(Possible(hardware=box, weight=1 / len(found)) for box in found)
