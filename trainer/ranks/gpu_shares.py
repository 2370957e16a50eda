"""Shares the GPUs of one machine among workers that stand for its hosts."""

from __future__ import annotations

import os
from collections.abc import Mapping


def visible_devices(
    worker: int, per_host: int, num_hosts: int, variables: Mapping[str, str] = os.environ
) -> str:
    """Return a worker's CUDA_VISIBLE_DEVICES: its share of the GPUs this process may see."""
    every = ",".join(map(str, range(per_host * num_hosts)))
    # an empty mask hides all GPUs, as CUDA takes it
    visible = variables.get("CUDA_VISIBLE_DEVICES", every).split(",")
    return ",".join(visible[worker * per_host : (worker + 1) * per_host])
