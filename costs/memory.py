"""Memory that one GPU needs: variables, gradients, the optimizer's slot, activations, and what the
framework takes.
"""

from __future__ import annotations

from costs.work import Work

_FRAMEWORK_BYTES = 0.6e9  # CUDA's context, cuDNN, cuBLAS
# of all outputs: ReLUs work in place, and what is no longer needed makes room for gradients and
# workspaces
_KEPT = 0.6
HALF = ("fp16", "bf16", "mixed")
"""Precisions whose activations have 2 bytes."""


def memory_bytes(work: Work) -> float:
    parameters = 4.0 * work.network.num_parameters
    copies = (
        2.0
        if work.variable_update == "parameter_server" and work.local_parameter_device == "cpu"
        else 3.0
    )
    if work.precision in HALF:
        copies += 0.5
    activations = (
        work.network.activation_bytes * work.batch_size * (0.5 if work.precision in HALF else 1.0)
    )
    return _FRAMEWORK_BYTES + copies * parameters + _KEPT * activations
