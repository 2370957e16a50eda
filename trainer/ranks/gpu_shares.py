"""Shares the GPUs of one machine among workers that stand for its hosts."""

from __future__ import annotations

import os
from collections.abc import Mapping


def visible_devices(
    worker: int, per_host: int, num_hosts: int, variables: Mapping[str, str] = os.environ
) -> str:
    """Return a worker's CUDA_VISIBLE_DEVICES: its share of the GPUs this process may see."""
    given = variables.get("CUDA_VISIBLE_DEVICES")
    visible = (
        [str(number) for number in range(per_host * num_hosts)]
        if given is None
        else given.split(",")
    )
    return ",".join(visible[worker * per_host : (worker + 1) * per_host])
