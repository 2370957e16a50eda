"""Tells how long a GPU works beside products: its memory limits that work, or what TensorFlow's
kernels do one after another.

Without XLA, elementwise kernels of bfloat16 handle one value at a time, so that multiprocessors
limit them on GPUs whose memory is fast. cuDNN normalizes a channel of float32 by one block, so that
few channels leave multiprocessors idle, and channels come first for it. What a bias's gradient in
half precision takes is contention of atomic sums. The constants are of profiles of an H200
(TensorFlow 2.21, docs/prediction.md).
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
# ResNet-50 in bf16 move 40.6 GB in 22.7 ms
_PER_CLOCK = 3.4
# results in fp32 per clock of a multiprocessor (CUDA C++ programming guide, arithmetic
# instructions)
_LANES = {"8.0": 64}
_USUAL_LANES = 128
_BIAS_GRADIENT_S = 0.45e-3  # whatever the bias's size: 48 of GPT-2 take 21.6 ms
# of one block, both ways: of resnet18_cifar's 16 channels each 33.6 MB in 1.96 ms
_CHANNEL_BYTES_PER_S = 17e9
_NORM_PASSES = 8  # as `costs.op_by_op` counts them
_TRANSPOSES = 10  # passes: the input and output forward, and three tensors backward
_MEMORY_SHARE = 0.7  # of the bandwidth that normalization reaches with channels enough


@dataclass(frozen=True, slots=True, kw_only=True)
class BesideProducts:
    """The parts of all passes of an update on one GPU."""

    traffic_s: float  # at the full bandwidth of the GPU's memory
    scalar_traffic_s: float = 0.0  # the same, of kernels that handle one value at a time
    scalar_s: float = 0.0  # what these take at least
    serial_s: float = 0.0  # of bias gradients and of channels, besides

    @classmethod
    def of(cls, work: Work, hardware: Hardware, num_passes: float) -> BesideProducts:
        """Work it out for so many forward and backward passes, each through one micro-batch."""
        num_examples = num_passes * work.batch_size
        per_second = hardware.memory_gb_per_s * 1e9
        element_bytes = 2.0 if is_half(work.precision) else 4.0
        if work.xla:
            moved = num_examples * work.network.fused.num_bytes(element_bytes)
            return cls(traffic_s=moved / per_second)
        serial_s = _bias_gradients_s(work, num_passes)
        moved = num_examples * work.network.op_by_op.num_bytes(element_bytes)
        if not is_half(work.precision):
            moved += num_examples * element_bytes * _transposed(work)
            serial_s = _waiting_s(work, num_examples * element_bytes, per_second)
        if not _has_scalar_kernels(work):
            return cls(traffic_s=moved / per_second, serial_s=serial_s)
        num_values = num_examples * work.network.op_by_op.elementwise
        return cls(
            traffic_s=(moved - element_bytes * num_values) / per_second,
            scalar_traffic_s=element_bytes * num_values / per_second,
            scalar_s=num_values / (_PER_CLOCK * _clocks_per_s(hardware)),
            serial_s=serial_s,
        )

    def seconds(self, memory: Values) -> Values:
        """Return how long it takes, by the share of the memory's bandwidth that is reached."""
        scalar_s = np.maximum(self.scalar_traffic_s / memory, self.scalar_s)
        total_s: Values = self.traffic_s / memory + scalar_s + self.serial_s
        return total_s


def _bias_gradients_s(work: Work, num_passes: float) -> float:
    """Return what gradients of biases take, where channels come last: of dense layers always."""
    if not work.data_format:  # a published figure, of whatever software
        return 0.0
    num_last = sum(
        work.data_format == "NHWC" or not one.is_of_convolution for one in work.network.biases
    )
    return num_passes * num_last * _BIAS_GRADIENT_S


def _transposed(work: Work) -> float:
    """Return the passes of one example's elements for bringing channels first and back."""
    if work.data_format != "NHWC":
        return 0.0
    return _TRANSPOSES * sum(elements for elements, _ in work.network.normalized)


def _waiting_s(work: Work, example_bytes: float, per_second: float) -> float:
    """Return what normalization by channels takes longer than its memory would."""
    total_s = 0.0
    for elements, channels in work.network.normalized:
        num_bytes = _NORM_PASSES * elements * example_bytes
        by_memory_s = num_bytes / (_MEMORY_SHARE * per_second)
        total_s += max(0.0, num_bytes / (channels * _CHANNEL_BYTES_PER_S) - by_memory_s)
    return total_s


def _has_scalar_kernels(work: Work) -> bool:
    abilities = precision_of(work.precision)
    return abilities is not None and abilities.has_scalar_kernels


def _clocks_per_s(hardware: Hardware) -> float:
    """Return the clocks of all multiprocessors; infinite where the peak that tells is not known."""
    lanes = _LANES.get(hardware.compute_capability, _USUAL_LANES)
    return hardware.tflops.get("fp32", math.inf) * 1e12 / (2 * lanes)
