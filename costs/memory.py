"""Memory that a trial needs: variables, gradients, slots, and what the backward pass needs.

```
 between steps   variables and slots                      of each replica, of owners, or of shards
 forward         + what the backward pass needs           of one micro-batch, see `costs.kept`
 backward        + gradients, as that becomes less
 accumulation    + the sums of the gradients
```
"""

from __future__ import annotations

from costs.optimizers import num_slots
from costs.work import Work
from scalemark.abilities import VARIABLE_UPDATES, precision_of
from scalemark.abilities.variable_update import Sends

_FRAMEWORK_BYTES = 0.6e9  # CUDA's context, cuDNN, cuBLAS
# Of each replica on a CPU device: its graph, and what the allocator cannot give back. From gpt_mini
# with batch 64, see benchmarks/memory_estimate.py.
_REPLICA_BYTES = 46e6
# Copies of a table that begins and ends a model, beside its gradient: each use has a gradient of
# its own, and products with it pack the table. From gpt2 with batch 1.
_TABLES = 3.0
# The same when the backward pass begins: the gradient of the last use, and the packed table.
_TABLES_FIRST = 2.0


def is_half(precision: str) -> bool:
    """Return whether activations have 2 bytes."""
    abilities = precision_of(precision)
    return abilities is not None and abilities.activation_bytes == 2


def memory_bytes(work: Work) -> float:
    """Return what one GPU needs."""
    copies = _held(work) + 1.0 + _sums(work)
    if is_half(work.precision):
        copies += 0.5
    return _FRAMEWORK_BYTES + copies * _parameter_bytes(work) + _activation_bytes(work)


def process_bytes(work: Work, num_cores: int) -> float:
    """Return what a process with CPU devices needs more than one with a model of next to nothing.

    Its replicas share the memory of the host, also with the model that they were made from. As many
    are between their forward and backward passes at once as there are cores; their gradients wait
    for those of all.
    """
    parameters, network = _parameter_bytes(work), work.network
    num_copies = work.num_gpus
    if _sends(work) in (Sends.TO_OWNERS, Sends.REDUCE_SCATTER):
        num_copies = 1
    held = 1.0 + num_copies * (1.0 + num_slots(work.optimizer))
    tied = 4.0 * network.num_tied
    working = 4.0 * network.num_working * work.batch_size
    begins = _activation_bytes(work) + working + _TABLES_FIRST * tied
    ends = (1.0 + _sums(work)) * parameters + _TABLES * tied
    most = max(min(work.num_gpus, num_cores) * begins, work.num_gpus * ends)
    return work.num_gpus * _REPLICA_BYTES + held * parameters + most


def _sums(work: Work) -> float:
    """Return the copies of all gradients that hold sums of micro-batches."""
    return 1.0 if work.gradient_accumulation > 1 else 0.0


def _held(work: Work) -> float:
    """Return variables and slots of one GPU, as copies of all variables."""
    sends, slots = _sends(work), num_slots(work.optimizer)
    if sends is Sends.TO_OWNERS and work.local_parameter_device == "cpu":
        return 1.0
    if sends is Sends.REDUCE_SCATTER:  # all weights while a step computes, and its shard
        return 1.0 + (1.0 + slots) / work.num_gpus
    return 1.0 + slots


def _sends(work: Work) -> Sends | None:
    update = VARIABLE_UPDATES.get(work.variable_update)
    return None if update is None else update.sends


def _parameter_bytes(work: Work) -> float:
    return 4.0 * work.network.num_parameters


def _activation_bytes(work: Work) -> float:
    """Return what is kept of one micro-batch."""
    network = work.network
    kept = network.num_kept_again if work.recompute else network.num_kept
    return (2.0 if is_half(work.precision) else 4.0) * kept * work.batch_size
