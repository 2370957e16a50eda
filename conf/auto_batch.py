"""Chooses the batch that GPUs take by default: what batch_size=auto means."""

from __future__ import annotations

import math
from functools import cache

from simulator.costs.memory import memory_bytes as estimated_bytes
from simulator.costs.networks import Network
from simulator.costs.work import Work

_GIB_OF_A_BATCH = 16
_MOST_OF_MEMORY = 0.85  # the rest is the driver's and NCCL's, and how far estimates are off


def batch_factor(memory_bytes: int | None) -> int:
    """Return how many times a model's batch GPUs with this memory take: a power of two.

    Models' batches are those of tf_cnn_benchmarks, for cards of 12 to 16 GiB.
    """
    gib = (memory_bytes or 0) / 2**30 + 1  # a card of 32 GiB reports a little less
    return 1 << max(0, int(math.log2(gib / _GIB_OF_A_BATCH)))


@cache
def batch_that_fits(
    network: Network, batch_size: int, precision: str, memory_bytes: int | None
) -> int:
    """Halve a batch until GPUs have the memory for it, by the cost model's estimate.

    Call it with a model's own sizes, and the precision that the GPUs have by default: all cells of
    a grid have one batch.
    """
    while memory_bytes and batch_size > 1:
        work = Work(
            network=network,
            num_gpus=1,
            batch_size=batch_size,
            variable_update="replicated",
            local_parameter_device="gpu",
            all_reduce="none",
            precision=precision,
            optimizer="adam",  # which has the most variables of its own
        )
        if estimated_bytes(work) <= _MOST_OF_MEMORY * memory_bytes:
            break
        batch_size //= 2
    return batch_size
