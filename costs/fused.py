"""Counts what XLA does beside products: it fuses what follows each other element by element.

Numbers are passes through a tensor, forward and backward: what products or reductions read is
written, and what they wrote is read; all between stays in registers. A reduction over all of a
tensor, as batch normalization's, ends a kernel, and what comes after it reads the tensor again.

Kernels are as in compiled steps of ResNet-50 and GPT-2 in bf16 (TensorFlow 2.21, profiles of an
H200): small ones cost no bytes that count, and outnumber those that do the work.
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
            return MemoryBound(elementwise=8 * out, num_kernels=_NORM_KERNELS)
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
            return MemoryBound(elementwise=_DROPOUT * out, num_kernels=_DROPOUT_KERNELS)
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
    num_kernels = 12 + _DROPOUT_KERNELS * has_dropout
    return MemoryBound(elementwise=12 * out + of_score * scores, num_kernels=num_kernels)


def _of_sum(tensor: Tensor, num_uses: int) -> MemoryBound:
    return MemoryBound(elementwise=(num_uses - 1) * tensor.num_elements)


_ACTIVATION = {"linear": (0, 0), "relu": (2, 1), "gelu": (5, 1)}
# each way: both sums of parts of the tensor in one, the sum of the parts for each of the two, what
# follows from them for each channel, and what follows for each element
_NORM_KERNELS = 2 * (1 + 2 + 1 + 1)
_DROPOUT = 4  # the mask is drawn where it is used
# one each way, and eight that draw: Threefry has five groups of rounds (Salmon et al. 2011), which
# begin with splitting a counter, and end with joining and scaling bits
_DROPOUT_KERNELS = 2 + 8
