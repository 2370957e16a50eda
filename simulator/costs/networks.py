"""Counts of a network by its name: gradient tensors, FLOPs, operations, and what its layers keep
for the backward pass.

A tensor is kept once, however many layers need it, and by whichever: a convolution or product needs
its input for the gradient of its weights, batch normalization its input, ReLU its output, pooling
by maxima both. Sums, joins, reshapes and means need nothing. Some layers keep tensors of their own.
With `recompute` only the tensors marked KEPT stay, and of the parts between them one at a time.
Layer normalization and the loss compute in float32 under every precision, as in `trainer/`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from math import prod

from scalemark import layers as nn
from scalemark import models
from scalemark.layers import Plain, Tensor, network_of
from scalemark.own_model import is_own
from scalemark.records.measurement import IMAGES, TOKENS

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """The counts of a model at one size of image, made from its definition and not measured."""

    name: str
    image_px: int  # 0 of a model that reads tokens
    # elements of each gradient tensor, in the order in which the trainer has them
    tensors: tuple[int, ...]
    # of one example: 2 per multiply and add of convolutions, dense layers, and attention's two
    # products of tokens with tokens, the masked half of a causal model's included
    forward_flops: float
    # of one example: as many again for the gradients of the weights, and of the inputs that need
    # one
    backward_flops: float
    num_operations: int  # of the layers, forward and backward
    num_outputs: int  # elements that all layers write for one example, forward
    kept: Kept  # for the backward pass
    kept_again: Kept  # the same where the backward pass computes again
    num_working: int  # of one example, at most in the backward pass of one layer
    num_tied: int  # elements of tables that begin and end the model
    seq_len: int = 0  # tokens of an example; 0 of a model that sees images
    num_classes: int = 0  # of tokens the vocabulary

    @property
    def num_parameters(self) -> int:
        return sum(self.tensors)

    @property
    def examples(self) -> str:
        """What a batch counts."""
        return "sequences" if self.seq_len else IMAGES

    @property
    def item(self) -> str:
        """What its throughput counts."""
        return TOKENS if self.seq_len else IMAGES

    @property
    def training_flops(self) -> float:
        """Return those of one example forward and backward, as model FLOPs utilization counts them:
        what is computed again to save memory does not count.
        """
        return self.forward_flops + self.backward_flops


class UnknownNetworkError(ValueError):
    """Raised for a model that nothing defines; the message names those that are defined."""


def network(
    model: str,
    image_px: int | None = None,
    num_classes: int | None = None,
    seq_len: int | None = None,
) -> Network:
    """Return the counts of a model by its name, published spellings included, as `ResNet-50 v1.5`;
    None is the published size, as is one that the model does not have.

    Raises UnknownNetworkError, and ValueError for an image that is too small for the network.
    """
    name = _names().get(_spelled(model))
    if name is None:
        raise UnknownNetworkError(_unknown(model))
    return _counted(name, image_px, num_classes, seq_len)


_SPELLINGS = {
    "inception_v3": "inception3",
    "inception_v4": "inception4",
    "inception_v1": "googlenet",
    "resnet50_v1": "resnet50",
    "resnet101_v1": "resnet101",
    "resnet152_v1": "resnet152",
    "mobilenet": "mobilenet_v1",
    "lenet": "lenet5",
}


@cache
def _names() -> dict[str, str]:
    """Return names by their spelling without case and punctuation."""
    known = models.definitions()
    aliases = _SPELLINGS | {f"{name}10": name for name in known if name.endswith("_cifar")}
    bare = {name.removesuffix("_cifar"): name for name in known if name.endswith("_cifar")}
    spelled = bare | aliases | {name: name for name in known}
    return {_spelled(alias): name for alias, name in spelled.items()}


def _spelled(model: str) -> str:
    return re.sub(r"[^a-z0-9]", "", model.lower())


def _unknown(model: str) -> str:
    if is_own(model):
        return f"model={model}: the cost model does not know the layers of a model of your own"
    near = difflib.get_close_matches(_spelled(model), _names(), n=1)
    meant = f"; did you mean {_names()[near[0]]}?" if near else ""
    return (
        f"model={model}: its layers are not known to the cost model; known are "
        f"{', '.join(models.definitions())}{meant}"
    )


@cache
def _counted(
    name: str, image_px: int | None, num_classes: int | None, seq_len: int | None
) -> Network:
    asked = {"image_px": image_px, "num_classes": num_classes, "seq_len": seq_len}
    sizes = dict(models.published_sizes(name))
    sizes |= {axis: size for axis, size in asked.items() if size and axis in sizes}
    logits = models.define(name, **sizes)
    counts = count(logits)
    num_outputs = 0
    for tensor in network_of(logits):
        if tensor.layer not in _FREE:
            num_outputs += tensor.num_elements
    return Network(
        name=name,
        image_px=sizes.get("image_px", 0),
        seq_len=sizes.get("seq_len", 0),
        num_classes=sizes.get("num_classes", 0),
        tensors=counts.tensors,
        forward_flops=float(counts.flops),
        backward_flops=float(counts.backward_flops),
        num_operations=counts.num_operations,
        num_outputs=num_outputs,
        kept=kept(logits),
        kept_again=kept(logits, recompute=True),
        num_working=working(logits),
        num_tied=tied(logits),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkCounts:
    """What one layer, or all layers together, take for one example, forward and backward."""

    flops: int = 0  # forward: 2 per multiply and add
    # gradients of the weights and of the inputs of each product; the images need none
    backward_flops: int = 0
    num_operations: int = 0
    tensors: tuple[int, ...] = ()  # elements of each gradient tensor


_LOSS_OPERATIONS = 8  # softmax, cross entropy, their gradients, the mean
_FREE = (Plain.IMAGES, Plain.FLATTEN, Plain.TOKENS, Plain.KEPT, Plain.IN_A_ROW)


def count(logits: Tensor) -> NetworkCounts:
    """Count a whole model with its loss, its gradient tensors in the order of the trainer's.

    An output that is used more than once has the sum of as many gradients, an operation each.
    """
    layers: dict[Tensor, NetworkCounts] = {}
    trained: set[Tensor] = set()  # what has a gradient; the pictures have none
    flops = backward_flops = num_uses = 0
    num_operations = _LOSS_OPERATIONS
    for tensor in network_of(logits):
        inputs = trained.intersection(tensor.inputs)
        num_uses += sum(given in trained for given in tensor.inputs)
        counts = layers[tensor] = _count(tensor, has_gradient=bool(inputs))
        flops += counts.flops
        backward_flops += counts.backward_flops
        num_operations += counts.num_operations
        if inputs or counts.tensors:
            trained.add(tensor)
    num_sums = num_uses - (len(trained) - 1)  # only the logits have no use
    return NetworkCounts(
        flops=flops,
        backward_flops=backward_flops,
        num_operations=num_operations + num_sums,
        tensors=tuple(size for tensor in in_keras_order(logits) for size in layers[tensor].tensors),
    )


def in_keras_order(logits: Tensor) -> list[Tensor]:
    """Return the tensors of a model as Keras orders their layers.

    By decreasing length of the longest path to the end; layers equally far from it as a walk from
    the end, inputs in their order, first meets them (`keras.src.ops.function.map_graph`). Branches
    are therefore interleaved.
    """
    network = network_of(logits)
    distances = dict.fromkeys(network, 0)
    for tensor in reversed(network):
        for given in tensor.inputs:
            distances[given] = max(distances[given], distances[tensor] + 1)
    met: dict[Tensor, int] = {}
    to_visit = [logits]
    while to_visit:
        tensor = to_visit.pop()
        if tensor not in met:
            met[tensor] = len(met)
            to_visit.extend(reversed(tensor.inputs))
    return sorted(network, key=lambda tensor: (-distances[tensor], met[tensor]))


def _count(tensor: Tensor, *, has_gradient: bool) -> NetworkCounts:
    """Count one layer; `has_gradient` says that its input needs one."""
    layer = tensor.layer
    if isinstance(layer, nn.Conv | nn.Dense):
        return _count_product(tensor, layer, has_gradient=has_gradient)
    if isinstance(layer, nn.Attend):  # all scores count, even where a causal model masks half
        length, width = tensor.shape
        flops = 4 * length * length * width
        # split, scale, softmax, join, and two products: one each way, of products two back; mask
        num_operations = 14 + layer.is_causal + 4 * (layer.dropout_rate > 0)
        return NetworkCounts(flops=flops, backward_flops=2 * flops, num_operations=num_operations)
    if isinstance(layer, nn.TiedLogits):
        flops = 2 * tensor.num_elements * tensor.inputs[0].channels
        return NetworkCounts(flops=flops, backward_flops=2 * flops, num_operations=3)
    return NetworkCounts(num_operations=_operations(tensor), tensors=_trained(tensor))


def _operations(tensor: Tensor) -> int:
    """Return the operations, forward and backward, of a layer that has no product."""
    layer = tensor.layer
    if layer in _FREE:
        return 0
    if layer is Plain.ADD or isinstance(layer, nn.Masked):
        return 1
    if layer is Plain.CONCAT:  # backward, each branch gets its slice
        return 1 + len(tensor.inputs)
    if isinstance(layer, nn.Segments):
        return 3
    # draws, compares, multiplies; multiplies on the way back
    if isinstance(layer, nn.DropoutLayer):
        return 4
    return 2


def _trained(tensor: Tensor) -> tuple[int, ...]:
    """Return the elements of the gradient tensors of a layer beside products."""
    channels = tensor.channels
    match tensor.layer:
        case nn.BatchNorm() as layer:
            return (channels, channels) if layer.scale else (channels,)
        case nn.LayerNorm():
            return channels, channels
        case nn.Embed() as layer:
            return (layer.num_symbols * layer.width,)
        case nn.Positions() as layer:
            return (layer.num_positions * channels,)
        case nn.Segments() as layer:
            return (layer.num_segments * channels,)
        case Plain.CLASS_TOKEN | Plain.BIAS:
            return (channels,)
        case _:
            return ()


def _count_product(
    tensor: Tensor, layer: nn.Conv | nn.Dense, *, has_gradient: bool
) -> NetworkCounts:
    """Count the product, its gradients by weights and input, and bias and activation each way."""
    *positions, outputs = tensor.shape
    weights = tensor.inputs[0].channels * outputs
    has_bias = True
    if isinstance(layer, nn.Conv):
        weights = prod(layer.kernel) * (outputs if layer.depthwise else weights)
        has_bias = layer.bias
    flops = 2 * weights * prod(positions)
    is_activated = layer.activation != "linear"
    return NetworkCounts(
        flops=flops,
        backward_flops=flops * (1 + has_gradient),
        num_operations=2 + has_gradient + 2 * has_bias + 2 * is_activated,
        tensors=(weights, outputs) if has_bias else (weights,),
    )
