"""Memory that a trial needs: variables, gradients, slots, and what the backward pass needs.

```
 between steps   variables and slots                      of each replica, of owners, or of shards
 in a step       + weights fetched from owners or shards, copies in half precision, and
   backward begins   what its layers need                 of one micro-batch, see `costs.kept`
   backward ends     gradients
   accumulation      in both, sums of the gradients
```
What a device holds is counted once, for a GPU and for each replica of a process with CPU devices.
Measured were processes with CPU devices alone, in fp32: see docs/prediction.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from costs import spread
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
    between = _between_steps(work)
    in_a_step = between.fetched + _halves(work) + max(_begins(work), _ends(work))
    return _FRAMEWORK_BYTES + max(between.devices) + in_a_step


def process_bytes(work: Work, num_cores: int) -> float:
    """Return what a process with CPU devices needs more than one with a model of next to nothing.

    Its replicas share the memory of the host, also with the model that they were made from, so that
    fetching weights copies nothing. As many are between their forward and backward passes at once
    as there are cores; their gradients wait for those of all.
    """
    between, num_at_once = _between_steps(work), min(work.num_gpus, num_cores)
    held = _parameter_bytes(work) + between.host + sum(between.devices)
    in_a_step = max(num_at_once * _begins(work), work.num_gpus * _ends(work))
    return held + in_a_step + work.num_gpus * (_REPLICA_BYTES + _halves(work))


@dataclass(frozen=True, slots=True)
class _BetweenSteps:
    """Bytes of variables and slots, and of weights that a step fetches to each device."""

    host: float
    devices: tuple[float, ...]
    fetched: float


def _between_steps(work: Work) -> _BetweenSteps:
    weights, num = _parameter_bytes(work), work.num_gpus
    with_slots = 1.0 + num_slots(work.optimizer)
    match _sends(work):
        case Sends.TO_OWNERS:
            staged = weights if work.staged_vars else 0.0
            if work.local_parameter_device == "cpu":
                return _BetweenSteps(with_slots * weights, (staged,) * num, weights)
            owned = spread.spread(work.network.tensors, num)
            devices = tuple(4.0 * with_slots * elements + staged for elements in owned)
            return _BetweenSteps(0.0, devices, weights if num > 1 else 0.0)
        case Sends.REDUCE_SCATTER:
            return _BetweenSteps(0.0, (with_slots * weights / num,) * num, weights)
        case _:
            return _BetweenSteps(0.0, (with_slots * weights,) * num, 0.0)


def _begins(work: Work) -> float:
    """Return what a step holds of one replica when the last backward pass begins."""
    tables = _TABLES_FIRST * 4.0 * work.network.num_tied
    working = _element_bytes(work) * work.network.num_working * work.batch_size
    return _activation_bytes(work) + working + tables + _sums(work)


def _ends(work: Work) -> float:
    """Return the same when it ends."""
    tables = _TABLES * 4.0 * work.network.num_tied
    return _parameter_bytes(work) + tables + _sums(work)


def _sums(work: Work) -> float:
    """Return the bytes of sums of the gradients of micro-batches."""
    return _parameter_bytes(work) if work.gradient_accumulation > 1 else 0.0


def _halves(work: Work) -> float:
    """Return the bytes of the weights' copies in half precision."""
    return 0.5 * _parameter_bytes(work) if is_half(work.precision) else 0.0


def _sends(work: Work) -> Sends | None:
    update = VARIABLE_UPDATES.get(work.variable_update)
    return None if update is None else update.sends


def _parameter_bytes(work: Work) -> float:
    return 4.0 * work.network.num_parameters


def _element_bytes(work: Work) -> float:
    return 2.0 if is_half(work.precision) else 4.0


def _activation_bytes(work: Work) -> float:
    """Return what is kept of one micro-batch."""
    kept = work.network.kept_again if work.recompute else work.network.kept
    return kept.num_bytes(_element_bytes(work)) * work.batch_size
