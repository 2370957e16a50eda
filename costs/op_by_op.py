"""Counts what TensorFlow does beside products without XLA, a kernel per operation.

A kernel reads each of its inputs and writes its output once; a reduction reads its input. Numbers
below are such passes through a tensor, forward and backward, and the kernels of both, as the layers
in `trainer/layers/` and TensorFlow's gradients have them. cuDNN's batch normalization reads its
input twice each way. `python -m benchmarks.step_ops` counts the same in the graph of a step.
"""

from __future__ import annotations

from typing import assert_never

from costs.memory_bound import BIAS, MemoryBound, of_product, total
from scalemark import layers as nn
from scalemark.layers import Plain, Tensor


def op_by_op(logits: Tensor) -> MemoryBound:
    """Count a whole model with its loss."""
    num = logits.num_elements
    # in float32: largest, difference, exponents, their sum, the gradient, and it times the loss's
    loss = MemoryBound(float32=9 * num, casts=2 * num, num_kernels=10)
    return total(logits, _of_layer, _of_sum, loss)


def _of_layer(tensor: Tensor) -> MemoryBound:
    layer, out = tensor.layer, tensor.num_elements
    given = sum(one.num_elements for one in tensor.inputs)
    match layer:
        case nn.Conv() | nn.Dense():
            return of_product(layer, out, _ACTIVATION)
        case nn.BatchNorm():  # two copies and four small kernels for the moving statistics
            return MemoryBound(library=8 * out, num_kernels=8)
        case Plain.RELU:
            return MemoryBound(elementwise=_RELU * out, num_kernels=2)
        case nn.Pool(kind="max"):
            return MemoryBound(library=3 * (given + out), num_kernels=2)
        case nn.Pool():
            return MemoryBound(library=2 * (given + out), num_kernels=2)
        case Plain.ADD:
            return MemoryBound(elementwise=3 * out, num_kernels=1)
        case Plain.CONCAT:  # backward, each branch gets its slice
            return MemoryBound(elementwise=4 * out, num_kernels=1 + len(tensor.inputs))
        case Plain.GLOBAL_MEAN:
            return MemoryBound(elementwise=4 * given, num_kernels=4)
        case nn.PadChannels():
            return MemoryBound(elementwise=2 * (given + out), num_kernels=2)
        case nn.Dropout():
            return MemoryBound(
                elementwise=_DROPOUT * out, float32=_DRAWN * out, num_kernels=_DROPOUT_KERNELS
            )
        case Plain.IMAGES | Plain.FLATTEN | Plain.TOKENS | Plain.KEPT | Plain.IN_A_ROW:
            return MemoryBound()
        case nn.Masked():
            return MemoryBound(num_kernels=1)
        case nn.Every() | Plain.FIRST:
            return MemoryBound(elementwise=2 * given, num_kernels=2)
        case nn.Embed():
            return MemoryBound(float32=4 * out, casts=2 * out, num_kernels=4)
        case nn.Positions() | nn.Segments() | Plain.CLASS_TOKEN:
            return MemoryBound(elementwise=4 * out, num_kernels=4)
        case Plain.BIAS:
            return MemoryBound(elementwise=BIAS * out, num_kernels=2)
        case nn.LayerNorm():  # forward 12, backward 21
            return MemoryBound(float32=33 * out, casts=4 * out, num_kernels=24)
        case nn.Attend():
            return _of_attention(tensor, layer)
        case nn.TiedLogits():
            return MemoryBound(num_kernels=3)
        case unknown:
            assert_never(unknown)


def _of_attention(tensor: Tensor, layer: nn.Attend) -> MemoryBound:
    """Count the scores (mask, softmax, its gradient, dropout), and what is split and joined."""
    length, out = tensor.shape[0], tensor.num_elements
    scores = length * length * layer.num_heads
    of_score, num_kernels = 13 + 2 * layer.is_causal, 27 + 5 * layer.is_causal
    drawn = 0
    if layer.dropout_rate:
        of_score += _DROPOUT
        num_kernels += _DROPOUT_KERNELS
        drawn = _DRAWN * scores
    return MemoryBound(
        elementwise=26 * out + of_score * scores, float32=drawn, num_kernels=num_kernels
    )


def _of_sum(tensor: Tensor, num_uses: int) -> MemoryBound:
    return MemoryBound(elementwise=(num_uses + 1) * tensor.num_elements, num_kernels=1)


_RELU = 5
_ACTIVATION = {"linear": (0, 0), "relu": (_RELU, 2), "gelu": (28, 12)}
_DROPOUT = 12  # the mask as numbers, scaled, and times the input, each way
# of bits drawn, written, read, and a byte of the mask written and read each way, 7 bytes together
_DRAWN = 2
_DROPOUT_KERNELS = 27  # most for the seed
