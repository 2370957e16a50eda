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
from collections import Counter
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
# TensorFlow's kernel of a bias's gradient (bias_op_gpu.cu.cc) has a block for so many values, and
# no more blocks than multiprocessors: of an H200, whatever the GPU
_BLOCK_VALUES = 1024
_MOST_BLOCKS = 132
# that a block waits at each channel of the output until the one before has added its sum: 48
# gradients of GPT-2 of 8,192 tokens, which have all blocks, take 21.6 ms
_ADD_S = 3.4e-6
# of one block, both ways: of resnet18_cifar's 16 channels each 33.6 MB in 1.96 ms
_CHANNEL_BYTES_PER_S = 17e9
_NORM_PASSES = 8  # as `costs.op_by_op` counts them
_TRANSPOSES = 10  # passes: the input and output forward, and three tensors backward


@dataclass(frozen=True, slots=True, kw_only=True)
class BesideProducts:
    """The parts of all passes of an update on one GPU."""

    traffic_s: float  # at the full bandwidth of the GPU's memory
    scalar_traffic_s: float = 0.0  # the same, of kernels that handle one value at a time
    scalar_s: float = 0.0  # what these take at least
    bias_gradients_s: float = 0.0  # besides
    # of normalization, by its number of channels: the part of traffic_s, and what blocks take at
    # least
    by_channels_s: tuple[tuple[float, float], ...] = ()

    @classmethod
    def of(cls, work: Work, hardware: Hardware, num_passes: float) -> BesideProducts:
        """Work it out for so many forward and backward passes, each through one micro-batch."""
        num_examples = num_passes * work.batch_size
        per_second = hardware.memory_gb_per_s * 1e9
        element_bytes = 2.0 if is_half(work.precision) else 4.0
        counted = work.network.fused if work.xla else work.network.op_by_op
        moved = num_examples * counted.num_bytes(element_bytes)
        if work.xla:
            return cls(traffic_s=moved / per_second)
        if not is_half(work.precision):
            return cls(
                traffic_s=(moved + num_examples * element_bytes * _transposed(work)) / per_second,
                by_channels_s=_by_channels_s(work, num_examples * element_bytes, per_second),
            )
        num_values = num_examples * counted.elementwise if _has_scalar_kernels(work) else 0.0
        return cls(
            traffic_s=(moved - element_bytes * num_values) / per_second,
            scalar_traffic_s=element_bytes * num_values / per_second,
            scalar_s=num_values / (_PER_CLOCK * _clocks_per_s(hardware)),
            bias_gradients_s=_bias_gradients_s(work),
        )

    def seconds(self, memory: Values) -> Values:
        """Return how long it takes, by the share of the memory's bandwidth that is reached."""
        scalar_s = np.maximum(self.scalar_traffic_s / memory, self.scalar_s)
        total_s: Values = self.traffic_s / memory + scalar_s + self.bias_gradients_s
        for traffic_s, least_s in self.by_channels_s:
            total_s = total_s + np.maximum(0.0, least_s - traffic_s / memory)
        return total_s


def _bias_gradients_s(work: Work) -> float:
    """Return what gradients of biases take, where channels come last: of dense layers always."""
    if not work.is_of_trainer:
        return 0.0
    num_adds = 0
    for one in work.network.biases:
        if work.data_format == "NHWC" or not one.is_of_convolution:
            num_blocks = math.ceil(work.batch_size * one.num_elements / _BLOCK_VALUES)
            num_adds += min(num_blocks, _MOST_BLOCKS)
    return work.gradient_accumulation * num_adds * _ADD_S


def _transposed(work: Work) -> float:
    """Return the passes of one example's elements for bringing channels first and back."""
    if work.data_format != "NHWC":
        return 0.0
    return _TRANSPOSES * sum(elements for elements, _ in work.network.normalized)


def _by_channels_s(
    work: Work, element_bytes: float, per_second: float
) -> tuple[tuple[float, float], ...]:
    """Return what normalization takes at the full bandwidth, and by its blocks, for each number of
    channels; `element_bytes` are of one element of all examples.
    """
    passes: Counter[int] = Counter()
    for elements, channels in work.network.normalized:
        passes[channels] += _NORM_PASSES * elements
    found = []
    for channels, num in passes.items():
        num_bytes = num * element_bytes
        found.append((num_bytes / per_second, num_bytes / (channels * _CHANNEL_BYTES_PER_S)))
    return tuple(found)


def _has_scalar_kernels(work: Work) -> bool:
    abilities = precision_of(work.precision)
    return abilities is not None and abilities.has_scalar_kernels


def _clocks_per_s(hardware: Hardware) -> float:
    """Return the clocks of all multiprocessors; infinite where the peak that tells is not known."""
    lanes = _LANES.get(hardware.compute_capability, _USUAL_LANES)
    return hardware.tflops.get("fp32", math.inf) * 1e12 / (2 * lanes)
