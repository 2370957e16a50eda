"""Counts what XLA does beside products: it fuses what follows each other element by element.

Numbers are passes through a tensor, forward and backward: what products or reductions read is
written, and what they wrote is read; all between stays in registers. A reduction over all of a
tensor, as batch normalization's, ends a kernel, and what comes after it reads the tensor again.
"""

from __future__ import annotations

from typing import assert_never

from costs.memory_bound import BIAS, MemoryBound, of_product, total
from scalemark import layers as nn
from scalemark.layers import Plain, Tensor


def fused(logits: Tensor) -> MemoryBound:
    """Count a whole model with its loss."""
    num = logits.num_elements
    loss = MemoryBound(float32=5 * num, casts=num, num_kernels=3)
    return total(logits, _of_layer, _of_sum, loss)


def _of_layer(tensor: Tensor) -> MemoryBound:
    layer, out = tensor.layer, tensor.num_elements
    given = sum(one.num_elements for one in tensor.inputs)
    match layer:
        case nn.Conv() | nn.Dense():
            return of_product(layer, out, _ACTIVATION)
        case nn.BatchNorm():
            return MemoryBound(elementwise=8 * out, num_kernels=6)
        case Plain.RELU:  # its gradient alone is a kernel
            return MemoryBound(elementwise=3 * out, num_kernels=1)
        case nn.Pool(kind="max"):
            return MemoryBound(elementwise=3 * (given + out), num_kernels=2)
        case nn.Pool():
            return MemoryBound(elementwise=2 * (given + out), num_kernels=2)
        case Plain.ADD:  # read by what comes after it
            return MemoryBound(elementwise=out)
        case Plain.CONCAT:
            return MemoryBound(elementwise=4 * out, num_kernels=1 + len(tensor.inputs))
        case Plain.GLOBAL_MEAN:
            return MemoryBound(elementwise=2 * given, num_kernels=2)
        case nn.PadChannels():
            return MemoryBound(elementwise=given + out, num_kernels=2)
        case nn.Dropout():
            return MemoryBound(elementwise=_DROPOUT * out, num_kernels=2)
        case Plain.IMAGES | Plain.FLATTEN | Plain.TOKENS | Plain.KEPT | Plain.IN_A_ROW:
            return MemoryBound()
        case nn.Masked():
            return MemoryBound(num_kernels=1)
        case nn.Every() | Plain.FIRST:
            return MemoryBound(elementwise=2 * given, num_kernels=2)
        case nn.Embed():
            return MemoryBound(float32=4 * out, casts=2 * out, num_kernels=4)
        case nn.Positions() | nn.Segments() | Plain.CLASS_TOKEN | Plain.BIAS:
            return MemoryBound(elementwise=BIAS * out, num_kernels=2)
        case nn.LayerNorm():  # three forward; backward two reductions, over positions and channels
            return MemoryBound(elementwise=10 * out, num_kernels=6)
        case nn.Attend():
            return _of_attention(tensor, layer)
        case nn.TiedLogits():
            return MemoryBound(num_kernels=3)
        case unknown:
            assert_never(unknown)


def _of_attention(tensor: Tensor, layer: nn.Attend) -> MemoryBound:
    """Count the scores, read and written by softmax and by its gradient."""
    length, out = tensor.shape[0], tensor.num_elements
    has_dropout = layer.dropout_rate > 0
    of_score = 5 + _DROPOUT * has_dropout
    scores = length * length * layer.num_heads
    return MemoryBound(elementwise=12 * out + of_score * scores, num_kernels=12 + 2 * has_dropout)


def _of_sum(tensor: Tensor, num_uses: int) -> MemoryBound:
    return MemoryBound(elementwise=(num_uses - 1) * tensor.num_elements)


_ACTIVATION = {"linear": (0, 0), "relu": (2, 1), "gelu": (5, 1)}
_DROPOUT = 4  # the mask is drawn where it is used
