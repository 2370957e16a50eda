"""Counts what a model does beside its products: what goes through a GPU's memory, and its kernels.

    op by op   TensorFlow runs a kernel per operation, which reads its inputs and writes its output
    fused      XLA makes one kernel of what follows each other element by element

Convolutions and products of matrices have their share of the peak instead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import TypeAlias

from scalemark import layers as nn
from scalemark.layers import Plain, Tensor, network_of

_FLOAT32 = 4  # bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryBound:
    """The work of one layer, or of all, forward and backward: of one example what is read and
    written, in elements.
    """

    library: int = 0  # by cuDNN, in the type of activations
    elementwise: int = 0  # by kernels of TensorFlow or XLA, in the type of activations
    float32: int = 0  # in float32 under every precision
    casts: int = 0  # in half precision: read in one type, and written in the other
    num_kernels: int = 0  # whatever the batch, products included

    def num_bytes(self, element_bytes: float) -> float:
        """Return the bytes of one example, where an activation has so many."""
        cast_bytes = element_bytes + _FLOAT32 if element_bytes < _FLOAT32 else 0.0
        in_own_type = element_bytes * (self.library + self.elementwise)
        return in_own_type + _FLOAT32 * self.float32 + cast_bytes * self.casts


OfLayer = Callable[[Tensor], MemoryBound]
OfSum = Callable[[Tensor, int], MemoryBound]

Passes: TypeAlias = Mapping[str, tuple[int, int]]
"""The passes of each activation through the output of a product, and its kernels."""


def of_product(layer: nn.Conv | nn.Dense, out: int, activations: Passes) -> MemoryBound:
    """Count bias and activation, three kernels of products, and what is around convolutions."""
    is_convolution = isinstance(layer, nn.Conv)
    is_biased = isinstance(layer, nn.Dense) or layer.bias
    passes, num_kernels = activations[layer.activation]
    return MemoryBound(
        elementwise=(passes + BIAS * is_biased) * out,
        num_kernels=3 + _AROUND_CONVOLUTION * is_convolution + num_kernels + 2 * is_biased,
    )


# Weights are cast and brought into the order that cuDNN wants, and their gradient back; the parts
# of that gradient, a sum over all positions, are added up, or its place is made ready. Of the 53
# convolutions of ResNet-50 in bf16 171 such kernels ran without XLA, and 155 with it (profiles of
# an H200).
_AROUND_CONVOLUTION = 3
BIAS = 3  # passes: the output read and written, and its gradient read


def total(logits: Tensor, of_layer: OfLayer, of_sum: OfSum, of_loss: MemoryBound) -> MemoryBound:
    """Add up layers, the loss, and sums of the gradients of what is used more than once."""
    parts = [of_layer(tensor) for tensor in network_of(logits)]
    parts += [of_sum(tensor, num) for tensor, num in _used_again(logits)]
    parts.append(of_loss)
    return MemoryBound(
        **{field.name: sum(getattr(one, field.name) for one in parts) for field in _FIELDS}
    )


def _used_again(logits: Tensor) -> Iterator[tuple[Tensor, int]]:
    """Yield the activations that several layers use, and how many do."""
    uses = Counter(one for tensor in network_of(logits) for one in tensor.inputs)
    for tensor, num in uses.items():
        is_input = tensor.layer in (Plain.IMAGES, Plain.TOKENS)
        if num > 1 and not is_input and not isinstance(tensor.layer, nn.Embed):
            yield tensor, num


_FIELDS = fields(MemoryBound)
