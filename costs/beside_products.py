"""Tells how long a GPU works beside products: its memory limits that work, or its instructions do.

TensorFlow's elementwise kernels of bfloat16 handle one value at a time, so that multiprocessors
limit them on GPUs whose memory is fast. The constants are of two profiles of an H200 (TensorFlow
2.21, docs/prediction.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from costs.hardware import Hardware
from costs.memory import is_half
from costs.overlap import Values
from costs.work import Work
from scalemark.abilities import precision_of

# values that a multiprocessor reads or writes per clock: ReLUs, sums and their gradients of
# ResNet-50 move 40.6 GB in 22.7 ms
_PER_CLOCK = 3.4
# of the gradient of one bias, whatever its size, as atomic sums of 2 bytes wait for each other: 48
# of GPT-2 take 21.6 ms
_BIAS_GRADIENT_S = 0.45e-3
# results in fp32 per clock of a multiprocessor (CUDA C++ programming guide, arithmetic
# instructions)
_LANES = {"8.0": 64}
_USUAL_LANES = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class BesideProducts:
    """The parts of all passes of an update on one GPU."""

    traffic_s: float  # at the full bandwidth of the GPU's memory
    scalar_traffic_s: float = 0.0  # the same, of kernels that handle one value at a time
    scalar_s: float = 0.0  # what these take at least
    bias_gradients_s: float = 0.0

    @classmethod
    def of(cls, work: Work, hardware: Hardware, num_passes: float) -> BesideProducts:
        """Work it out for so many forward and backward passes, each through one micro-batch."""
        num_examples = num_passes * work.batch_size
        element_bytes = 2.0 if is_half(work.precision) else 4.0
        per_second = hardware.memory_gb_per_s * 1e9
        moved = work.network.fused if work.xla else work.network.op_by_op
        traffic_s = num_examples * moved.num_bytes(element_bytes) / per_second
        abilities = precision_of(work.precision)
        if work.xla or abilities is None or not abilities.has_scalar_kernels:
            return cls(traffic_s=traffic_s)
        num_values = num_examples * moved.elementwise
        scalar_traffic_s = num_values * element_bytes / per_second
        return cls(
            traffic_s=traffic_s - scalar_traffic_s,
            scalar_traffic_s=scalar_traffic_s,
            scalar_s=num_values / (_PER_CLOCK * _clocks_per_s(hardware)),
            bias_gradients_s=num_passes * moved.num_bias_gradients * _BIAS_GRADIENT_S,
        )

    def seconds(self, memory: Values) -> Values:
        """Return how long it takes, by the share of the memory's bandwidth that is reached."""
        scalar_s = np.maximum(self.scalar_traffic_s / memory, self.scalar_s)
        total_s: Values = self.traffic_s / memory + scalar_s + self.bias_gradients_s
        return total_s


def _clocks_per_s(hardware: Hardware) -> float:
    """Return the clocks of all multiprocessors; infinite where the peak that tells is not known."""
    lanes = _LANES.get(hardware.compute_capability, _USUAL_LANES)
    return hardware.tflops.get("fp32", math.inf) * 1e12 / (2 * lanes)
