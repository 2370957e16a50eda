"""Memory that a trial needs: variables, gradients, slots, and what the backward pass needs.

```
 between steps   variables and slots                      of each replica, of owners, or of shards
 in a step       + weights fetched from owners or shards, copies in half precision, and
   backward begins   what its layers need                 of one micro-batch, see `kept.py`
   backward ends     gradients
   accumulation      in both, sums of the gradients
```
"""

from __future__ import annotations

from scalemark.abilities import OPTIMIZERS, VARIABLE_UPDATES, Sends, precision_of
from simulator.costs.exchange import spread
from simulator.costs.work import Work

_FRAMEWORK_BYTES = 0.6e9  # CUDA's context, cuDNN, cuBLAS
# Copies of a table that begins and ends a model, beside its gradient, when the backward pass ends
# and when it begins: each use has a gradient of its own, and products with it pack the table.
_TABLES_LAST, _TABLES_FIRST = 3.0, 2.0
_SLOTS_OF_OTHERS = {"lamb": 2}  # of optimizers that published figures name, and none of ours is


def is_half(precision: str) -> bool:
    """Return whether activations have 2 bytes."""
    abilities = precision_of(precision)
    return abilities is not None and abilities.activation_bytes == 2


def memory_bytes(work: Work) -> float:
    """Return what one GPU needs."""
    weights = 4.0 * work.network.num_parameters
    held, fetched = _between_steps(work, weights)
    if is_half(work.precision):
        fetched += 0.5 * weights  # copies in half precision
    sums = weights if work.gradient_accumulation > 1 else 0.0
    table = 4.0 * work.network.num_tied
    begins = _activation_bytes(work) + _TABLES_FIRST * table
    ends = weights + _TABLES_LAST * table
    return _FRAMEWORK_BYTES + held + fetched + sums + max(begins, ends)


def num_slots(optimizer: str) -> int:
    """Return how many values an optimizer keeps beside each variable. Raises ValueError for one
    that nothing describes.
    """
    if optimizer in _SLOTS_OF_OTHERS:
        return _SLOTS_OF_OTHERS[optimizer]
    if optimizer not in OPTIMIZERS:
        known = ", ".join([*OPTIMIZERS, *_SLOTS_OF_OTHERS])
        raise ValueError(
            f"optimizer={optimizer}: the cost model does not know what it keeps; it knows {known}"
        )
    return OPTIMIZERS[optimizer].num_slots


def _between_steps(work: Work, weights: float) -> tuple[float, float]:
    """Return the bytes of variables and slots on the GPU that holds most, and of the weights that a
    step fetches there.
    """
    with_slots = 1.0 + num_slots(work.optimizer)
    update = VARIABLE_UPDATES.get(work.variable_update)
    sends = None if update is None else update.sends
    if sends is Sends.TO_OWNERS:
        staged = weights if work.staged_vars else 0.0
        if work.local_parameter_device == "cpu":
            return staged, weights
        largest = max(spread(work.network.tensors, work.num_gpus))
        return 4.0 * with_slots * largest + staged, weights if work.num_gpus > 1 else 0.0
    if sends is Sends.REDUCE_SCATTER:
        return with_slots * weights / work.num_gpus, weights
    return with_slots * weights, 0.0


def _activation_bytes(work: Work) -> float:
    """Return what is kept of one micro-batch, and what the layer that needs most has in hand."""
    element_bytes = 2.0 if is_half(work.precision) else 4.0
    kept = work.network.kept_again if work.recompute else work.network.kept
    in_hand = element_bytes * work.network.num_working
    return (kept.num_bytes(element_bytes) + in_hand) * work.batch_size
