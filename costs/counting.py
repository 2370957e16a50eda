"""Counts a model layer by layer: work, gradient tensors, operations."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import assert_never

from scalemark import layers as nn
from scalemark.layers import Plain, Tensor, network_of

LOSS_OPERATIONS = 8  # softmax, cross entropy, their gradients, the mean
SHORTENED = ((3, 3), (5, 5))  # kernels of convolutions that Winograd's algorithm shortens


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Tells what one layer, or all layers together, take for one example."""

    flops: int = 0  # forward: 2 per multiply and add
    # gradients of the weights and of the inputs of each product; the images need none
    backward_flops: int = 0
    winograd_flops: int = 0  # part of them, in convolutions of 3x3 and 5x5 with stride 1
    product_flops: int = 0  # part of them, in products of matrices
    num_operations: int = 0  # forward and backward
    tensors: tuple[int, ...] = ()  # elements of each gradient tensor


def count(logits: Tensor) -> Counts:
    """Count a whole model with its loss, its gradient tensors in the order of the trainer's.

    Operations are as the layers have them: of a convolution and a dense layer one forward and two
    backward, of bias, norm, ReLU and pooling one each way, one per sum of two gradients.
    """
    layers: dict[Tensor, Counts] = {}
    trained: set[Tensor] = set()  # what has a gradient; the pictures have none
    num_uses = 0
    for tensor in network_of(logits):
        inputs = trained.intersection(tensor.inputs)
        num_uses += sum(one in trained for one in tensor.inputs)
        layers[tensor] = _count(tensor, has_gradient=bool(inputs))
        if inputs or layers[tensor].tensors:
            trained.add(tensor)
    # An output that is used more than once has the sum of as many gradients. Only the logits have
    # no use.
    num_sums = num_uses - (len(trained) - 1)
    counted = layers.values()
    return Counts(
        flops=sum(one.flops for one in counted),
        backward_flops=sum(one.backward_flops for one in counted),
        winograd_flops=sum(one.winograd_flops for one in counted),
        product_flops=sum(one.product_flops for one in counted),
        num_operations=sum(one.num_operations for one in counted) + num_sums + LOSS_OPERATIONS,
        tensors=tuple(size for tensor in in_keras_order(logits) for size in layers[tensor].tensors),
    )


def normalized(logits: Tensor) -> tuple[tuple[int, int], ...]:
    """Return the elements and channels of each tensor that batch normalization reads, of one
    example.
    """
    return tuple(
        (one.num_elements, one.channels)
        for one in network_of(logits)
        if isinstance(one.layer, nn.BatchNorm)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Bias:
    """A bias, whose gradient sums a tensor over all but its channels."""

    num_elements: int  # of that tensor, of one example
    is_of_convolution: bool  # its channels come where the data format says; else last


def biases(logits: Tensor) -> tuple[Bias, ...]:
    """Return the biases of a model."""
    found = []
    for tensor in network_of(logits):
        layer = tensor.layer
        is_of_convolution = isinstance(layer, nn.Conv) and layer.bias
        if is_of_convolution or isinstance(layer, nn.Dense) or layer is Plain.BIAS:
            bias = Bias(num_elements=tensor.num_elements, is_of_convolution=is_of_convolution)
            found.append(bias)
    return tuple(found)


def in_keras_order(logits: Tensor) -> list[Tensor]:
    """Return the tensors of a model as Keras orders their layers.

    By decreasing length of the longest path to the end; layers equally far from it as a walk from
    the end, inputs in their order, first meets them (`keras.src.ops.function.map_graph`). Branches
    are therefore interleaved.
    """
    network = network_of(logits)
    distances = dict.fromkeys(network, 0)
    for tensor in reversed(network):
        for one in tensor.inputs:
            distances[one] = max(distances[one], distances[tensor] + 1)
    met: dict[Tensor, int] = {}
    to_visit = [logits]
    while to_visit:
        tensor = to_visit.pop()
        if tensor not in met:
            met[tensor] = len(met)
            to_visit.extend(reversed(tensor.inputs))
    return sorted(network, key=lambda tensor: (-distances[tensor], met[tensor]))


def _count(tensor: Tensor, *, has_gradient: bool) -> Counts:
    """Count one layer; `has_gradient` says that its input needs one."""
    elements = tensor.num_elements
    layer = tensor.layer
    match layer:
        case nn.Conv() | nn.Dense():
            return _count_product(tensor, layer, has_gradient=has_gradient)
        case nn.BatchNorm():
            channels = tensor.channels
            tensors = (channels, channels) if layer.scale else (channels,)
            return Counts(num_operations=2, tensors=tensors)
        case Plain.RELU | nn.Pool():
            return Counts(num_operations=2)
        case Plain.ADD:
            return Counts(num_operations=1)
        case Plain.CONCAT:  # backward, each branch gets its slice
            return Counts(num_operations=1 + len(tensor.inputs))
        case Plain.GLOBAL_MEAN | nn.PadChannels():
            return Counts(num_operations=2)
        case nn.Dropout():  # draws, compares and multiplies; multiplies again on the way back
            return Counts(num_operations=4)
        case Plain.IMAGES | Plain.FLATTEN | Plain.TOKENS | Plain.KEPT | Plain.IN_A_ROW:
            return Counts()
        case nn.Masked():
            return Counts(num_operations=1)
        case nn.Every() | Plain.FIRST:
            return Counts(num_operations=2)
        case nn.Embed():
            return Counts(num_operations=2, tensors=(layer.num_symbols * layer.width,))
        case nn.Positions():
            return Counts(num_operations=2, tensors=(layer.num_positions * tensor.channels,))
        case nn.Segments():
            return Counts(num_operations=3, tensors=(layer.num_segments * tensor.channels,))
        case Plain.CLASS_TOKEN:
            return Counts(num_operations=2, tensors=(tensor.channels,))
        case Plain.BIAS:
            return Counts(num_operations=2, tensors=(tensor.channels,))
        case nn.LayerNorm():
            return Counts(num_operations=2, tensors=(tensor.channels, tensor.channels))
        case nn.Attend():
            return _count_attention(tensor, layer)
        case nn.TiedLogits():
            width = tensor.inputs[0].channels
            flops = 2 * elements * width
            return Counts(
                flops=flops,
                backward_flops=2 * flops,
                product_flops=flops,
                num_operations=3,
            )
        case unknown:
            assert_never(unknown)


def _count_product(tensor: Tensor, layer: nn.Conv | nn.Dense, *, has_gradient: bool) -> Counts:
    """Count the product, its gradients by weights and input, and bias and activation each way."""
    *positions, outputs = tensor.shape
    weights = tensor.inputs[0].channels * outputs
    bias, is_shortened = True, False
    is_activated = layer.activation != "linear"
    if isinstance(layer, nn.Conv):
        weights = prod(layer.kernel) * (outputs if layer.depthwise else weights)
        bias = layer.bias
        is_shortened = layer.kernel in SHORTENED and layer.strides == 1 and not layer.depthwise
    flops = 2 * weights * prod(positions)
    return Counts(
        flops=flops,
        backward_flops=flops * (1 + has_gradient),
        winograd_flops=flops if is_shortened else 0,
        product_flops=0 if isinstance(layer, nn.Conv) else flops,
        num_operations=2 + has_gradient + 2 * bias + 2 * is_activated,
        tensors=(weights, outputs) if bias else (weights,),
    )


def _count_attention(tensor: Tensor, layer: nn.Attend) -> Counts:
    """Count the two products of each head, all scores even where a causal model masks half."""
    length, width = tensor.shape
    flops = 4 * length * length * width
    return Counts(
        flops=flops,
        product_flops=flops,
        backward_flops=2 * flops,
        # split, scale, softmax, join, and two products: one each way, of products two back; mask
        num_operations=14 + layer.is_causal + 4 * (layer.dropout_rate > 0),
    )
