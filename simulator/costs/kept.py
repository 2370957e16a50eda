"""Counts what a model keeps from its forward pass for the backward pass, layer by layer.

A tensor is kept once, however many layers need it, and by whichever: a convolution or product needs
its input for the gradient of its weights, batch normalization its input, ReLU its output, pooling
by maxima both. Sums, joins, reshapes and means need nothing. Some layers keep tensors of their own.
With `recompute` only the tensors marked KEPT stay, and of the parts between them one at a time.
Layer normalization and the loss compute in float32 under every precision, as in `trainer/`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from scalemark import layers as nn
from scalemark.layers import Plain, Tensor, network_of

_ALIASES = (Plain.FLATTEN, Plain.IN_A_ROW, Plain.KEPT)  # the same numbers in another shape
_NEEDS_INPUT = (nn.Conv, nn.Dense, nn.BatchNorm, nn.TiedLogits)
_BYTES = 4  # of an element
_OF_LOSS = 2  # logits, and their gradient


@dataclass(frozen=True, slots=True)
class Kept:
    """Elements that wait for the backward pass, of one example."""

    num: int
    num_float32: int  # of them, under every precision

    def num_bytes(self, element_bytes: float) -> float:
        """Return their bytes where an activation has so many."""
        return element_bytes * (self.num - self.num_float32) + 4.0 * self.num_float32


def kept(logits: Tensor, *, recompute: bool = False) -> Kept:
    """Return what is kept when the backward pass begins.

    With `recompute`, when that of the part which keeps most begins.
    """
    network = network_of(logits)
    marked = [tensor for tensor in network if tensor.layer is Plain.KEPT]
    of_loss = _OF_LOSS * logits.num_elements
    if not recompute or not marked:
        return Kept(_kept(network) + of_loss, _normalized(network) + of_loss)
    parts: list[list[Tensor]] = [[]]
    for tensor in network:
        parts[-1].append(tensor)
        if tensor.layer is Plain.KEPT:
            parts.append([])
    first, *inner, last = parts
    marks = sum(tensor.num_elements for tensor in marked)
    outside = _kept(first) + _kept(last) + of_loss
    largest = max(inner, key=_kept, default=[])
    num = marks + outside + _kept(largest)
    return Kept(num, _normalized([*first, *largest, *last]) + of_loss)


def working(logits: Tensor) -> int:
    """Return the most elements that the backward pass of one layer needs besides, of one example:
    the gradients of its output and of what it kept.
    """
    return max(_in_hand(tensor) for tensor in network_of(logits))


def tied(logits: Tensor) -> int:
    """Return the elements of the tables that begin and end the model."""
    num = 0
    for tensor in network_of(logits):
        if isinstance(tensor.layer, nn.TiedLogits):
            table = tensor.inputs[1].layer
            assert isinstance(table, nn.Embed)
            num += table.num_symbols * table.width
    return num


def _in_hand(tensor: Tensor) -> int:
    match tensor.layer:
        case nn.Attend() as layer:
            # with dropout also its mask in numbers, plain and scaled
            return _scores(tensor, layer) * (5 if layer.dropout_rate else 3)
        case nn.Dense(activation="gelu"):
            return 3 * tensor.num_elements
        case _:
            return 2 * tensor.num_elements


def _kept(part: list[Tensor]) -> int:
    needed = {_origin(part_of) for tensor in part for part_of in _needed(tensor)}
    return sum(part_of.num_elements for part_of in needed) + sum(map(_own, part))


def _normalized(part: list[Tensor]) -> int:
    """Return the elements that layer normalization keeps."""
    return sum(_own(tensor) for tensor in part if isinstance(tensor.layer, nn.LayerNorm))


def _scores(tensor: Tensor, layer: nn.Attend) -> int:
    return tensor.shape[0] ** 2 * layer.num_heads


def _needed(tensor: Tensor) -> Iterator[Tensor]:
    """Yield the tensors, its inputs or itself, that the layer's gradients are computed from."""
    layer = tensor.layer
    takes_maxima = isinstance(layer, nn.Pool) and layer.kind == "max"
    if isinstance(layer, _NEEDS_INPUT) or takes_maxima:
        yield tensor.inputs[0]
    is_relu = isinstance(layer, nn.Conv | nn.Dense) and layer.activation == "relu"
    if layer is Plain.RELU or is_relu or takes_maxima:
        yield tensor


def _own(tensor: Tensor) -> int:
    """Return the elements that a layer keeps besides: `trainer/layers/` has these layers."""
    layer, elements = tensor.layer, tensor.num_elements
    match layer:
        case nn.LayerNorm():  # normalized, before gamma and beta
            return elements
        case nn.DropoutLayer():  # a byte that says whether a number was kept
            return elements // _BYTES
        case nn.Dense(activation="gelu"):  # its argument, and the normal distribution's share
            return 2 * elements
        case nn.Attend():
            # queries, keys, values, and weights: before and after dropout, and a byte as above
            scores = _scores(tensor, layer)
            dropped = scores + scores // _BYTES if layer.dropout_rate else 0
            return 3 * elements + scores + dropped
        case _:
            return 0


def _origin(tensor: Tensor) -> Tensor:
    while tensor.layer in _ALIASES:
        (tensor,) = tensor.inputs
    return tensor
