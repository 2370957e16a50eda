"""Counts of a network by its name: gradient tensors, FLOPs, operations, and memory per example."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from functools import cache
from math import prod

from scalemark import layers as nn
from scalemark import models
from scalemark.layers import Plain, Tensor, network_of
from scalemark.own_model import is_own
from scalemark.records.measurement import IMAGES, TOKENS
from simulator.costs.kept import Kept, kept, tied, working


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
    product_share: float  # of forward_flops, in products of matrices
    winograd_share: float  # of forward_flops, in convolutions that fast algorithms shorten
    num_operations: int  # of the layers, forward and backward
    num_moved: int  # elements of one example that go through memory beside products, op by op
    num_moved_fused: int  # the same by XLA
    num_normalized: int  # elements of the largest tensor that batch normalization reads
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


_ALIASES = {
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
    aliases = _ALIASES | {f"{name}10": name for name in known if name.endswith("_cifar")}
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
    normalized = [
        tensor.num_elements
        for tensor in network_of(logits)
        if isinstance(tensor.layer, nn.BatchNorm)
    ]
    return Network(
        name=name,
        image_px=sizes.get("image_px", 0),
        seq_len=sizes.get("seq_len", 0),
        num_classes=sizes.get("num_classes", 0),
        tensors=counts.tensors,
        forward_flops=float(counts.flops),
        backward_flops=float(counts.backward_flops),
        product_share=counts.product_flops / counts.flops,
        winograd_share=counts.winograd_flops / counts.flops,
        num_operations=counts.num_operations,
        num_moved=counts.num_moved,
        num_moved_fused=counts.num_moved_fused,
        num_normalized=max(normalized, default=0),
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
    winograd_flops: int = 0  # part of flops, in convolutions of 3x3 and 5x5 with stride 1
    product_flops: int = 0  # part of flops, in products of matrices
    num_operations: int = 0
    num_moved: int = 0  # elements read and written beside products, a kernel per operation
    num_moved_fused: int = 0  # the same where XLA fuses what follows each other
    tensors: tuple[int, ...] = ()  # elements of each gradient tensor


_LOSS_OPERATIONS = 8  # softmax, cross entropy, their gradients, the mean
_SHORTENED = ((3, 3), (5, 5))  # kernels that Winograd's algorithm shortens


def count(logits: Tensor) -> NetworkCounts:
    """Count a whole model with its loss, its gradient tensors in the order of the trainer's.

    An output that is used more than once has the sum of as many gradients, an operation each.
    """
    layers: dict[Tensor, NetworkCounts] = {}
    trained: set[Tensor] = set()  # what has a gradient; the pictures have none
    num_uses = 0
    for tensor in network_of(logits):
        inputs = trained.intersection(tensor.inputs)
        num_uses += sum(given in trained for given in tensor.inputs)
        layers[tensor] = _count(tensor, has_gradient=bool(inputs))
        if inputs or layers[tensor].tensors:
            trained.add(tensor)
    num_sums = num_uses - (len(trained) - 1)  # only the logits have no use
    counted = layers.values()
    ordered = in_keras_order(logits)
    return NetworkCounts(
        flops=sum(counts.flops for counts in counted),
        backward_flops=sum(counts.backward_flops for counts in counted),
        winograd_flops=sum(counts.winograd_flops for counts in counted),
        product_flops=sum(counts.product_flops for counts in counted),
        num_operations=sum(counts.num_operations for counts in counted)
        + num_sums
        + _LOSS_OPERATIONS,
        num_moved=sum(counts.num_moved for counts in counted),
        num_moved_fused=sum(counts.num_moved_fused for counts in counted),
        tensors=tuple(size for tensor in ordered for size in layers[tensor].tensors),
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
    if isinstance(layer, nn.Attend):
        return _count_attention(tensor, layer)
    if isinstance(layer, nn.TiedLogits):
        flops = 2 * tensor.num_elements * tensor.inputs[0].channels
        return NetworkCounts(
            flops=flops, backward_flops=2 * flops, product_flops=flops, num_operations=3
        )
    num_operations, passes, passes_fused = _beside_products(tensor)
    return NetworkCounts(
        num_operations=num_operations,
        num_moved=passes * tensor.num_elements,
        num_moved_fused=passes_fused * tensor.num_elements,
        tensors=_trained(tensor),
    )


def _beside_products(tensor: Tensor) -> tuple[int, int, int]:
    """Return the operations of a layer, and how often its output goes through memory, op by op and
    fused: a kernel reads each input and writes its output once.
    """
    match tensor.layer:
        case Plain.IMAGES | Plain.FLATTEN | Plain.TOKENS | Plain.KEPT | Plain.IN_A_ROW:
            return 0, 0, 0
        case nn.BatchNorm():
            return 2, 8, 8
        case nn.LayerNorm():
            return 2, 37, 10
        case Plain.RELU:
            return 2, 5, 3
        case Plain.ADD:
            return 1, 3, 1
        case Plain.CONCAT:  # backward, each branch gets its slice
            return 1 + len(tensor.inputs), 4, 4
        case nn.DropoutLayer():  # draws, compares and multiplies; multiplies again on the way back
            return 4, 14, 4
        case nn.Pool():
            return 2, 9, 9
        case nn.Masked():
            return 1, 0, 0
        case nn.Segments():
            return 3, 4, 3
        case _:
            return 2, 4, 3


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


_ACTIVATION_PASSES = {"linear": (0, 0), "relu": (5, 2), "gelu": (28, 5)}  # op by op, fused
_BIAS_PASSES = 3  # the output read and written, and its gradient read


def _count_product(
    tensor: Tensor, layer: nn.Conv | nn.Dense, *, has_gradient: bool
) -> NetworkCounts:
    """Count the product, its gradients by weights and input, and bias and activation each way."""
    *positions, outputs = tensor.shape
    weights = tensor.inputs[0].channels * outputs
    bias, is_shortened = True, False
    if isinstance(layer, nn.Conv):
        weights = prod(layer.kernel) * (outputs if layer.depthwise else weights)
        bias = layer.bias
        is_shortened = layer.kernel in _SHORTENED and layer.strides == 1 and not layer.depthwise
    flops = 2 * weights * prod(positions)
    passes, passes_fused = _ACTIVATION_PASSES[layer.activation]
    is_activated = layer.activation != "linear"
    return NetworkCounts(
        flops=flops,
        backward_flops=flops * (1 + has_gradient),
        winograd_flops=flops if is_shortened else 0,
        product_flops=0 if isinstance(layer, nn.Conv) else flops,
        num_operations=2 + has_gradient + 2 * bias + 2 * is_activated,
        num_moved=(passes + _BIAS_PASSES * bias) * tensor.num_elements,
        num_moved_fused=(passes_fused + _BIAS_PASSES * bias) * tensor.num_elements,
        tensors=(weights, outputs) if bias else (weights,),
    )


def _count_attention(tensor: Tensor, layer: nn.Attend) -> NetworkCounts:
    """Count the two products of each head, all scores even where a causal model masks half."""
    length, width = tensor.shape
    flops = 4 * length * length * width
    scores = length * length * layer.num_heads
    has_dropout = layer.dropout_rate > 0
    passes = 13 + 2 * layer.is_causal + 14 * has_dropout
    return NetworkCounts(
        flops=flops,
        product_flops=flops,
        backward_flops=2 * flops,
        # split, scale, softmax, join, and two products: one each way, of products two back; mask
        num_operations=14 + layer.is_causal + 4 * has_dropout,
        num_moved=26 * tensor.num_elements + passes * scores,
        num_moved_fused=12 * tensor.num_elements + (5 + 4 * has_dropout) * scores,
    )
