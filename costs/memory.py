"""Memory that a GPU needs: variables, gradients, optimizer's slot, activations, framework."""

from __future__ import annotations

from costs.work import Work
from scalemark.abilities import VARIABLE_UPDATES, precision_of
from scalemark.abilities.variable_update import Sends

_FRAMEWORK_BYTES = 0.6e9  # CUDA's context, cuDNN, cuBLAS
# of all outputs: ReLUs work in place, and what is no longer needed makes room for gradients and
# workspaces
_KEPT = 0.6


def is_half(precision: str) -> bool:
    """Return whether activations have 2 bytes."""
    abilities = precision_of(precision)
    return abilities is not None and abilities.activation_bytes == 2


def memory_bytes(work: Work) -> float:
    parameters = 4.0 * work.network.num_parameters
    update = VARIABLE_UPDATES.get(work.variable_update)
    has_owners = update is not None and update.sends is Sends.TO_OWNERS
    copies = 2.0 if has_owners and work.local_parameter_device == "cpu" else 3.0
    activations = work.network.activation_bytes * work.batch_size
    if is_half(work.precision):
        copies += 0.5
        activations *= 0.5
    return _FRAMEWORK_BYTES + copies * parameters + _KEPT * activations
