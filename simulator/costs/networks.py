"""Counts a network by its name: gradient tensors, FLOPs, operations, and what its layers keep for
the backward pass.

A product keeps its input for the gradient of its weights, batch normalization its input, ReLU and
pooling by maxima their output: so nearly each output is kept once, but those of normalization, sums
and means. Counted so it is 1 % more than what each layer needs by itself, at most 6 %. With
`recompute` only the tensors marked KEPT stay, and of the parts between them one at a time. Layer
normalization and the loss compute in float32 under every precision, as in `trainer/`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from math import prod
from types import MappingProxyType

from scalemark import layers as nn
from scalemark import models
from scalemark.own_model import is_own
from scalemark.records.measurement import IMAGES, TOKENS
from scalemark.text.wording import did_you_mean

_FREE = (nn.Plain.IMAGES, nn.Plain.TOKENS, nn.Plain.FLATTEN, nn.Plain.IN_A_ROW, nn.Plain.KEPT)
_OF_LOSS = 2  # logits, and their gradient
_LOSS_OPERATIONS = 8  # softmax, cross entropy, their gradients, the mean


@dataclass(frozen=True, slots=True)
class Kept:
    """Elements that wait for the backward pass, of one example."""

    num: int
    num_float32: int  # of them, under every precision

    def __add__(self, other: "Kept") -> "Kept":
        return Kept(self.num + other.num, self.num_float32 + other.num_float32)

    def num_bytes(self, element_bytes: float) -> float:
        """Return their bytes where an activation has so many."""
        return element_bytes * (self.num - self.num_float32) + 4.0 * self.num_float32


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """The counts of a model at one size of image, made from its definition and not measured."""

    name: str = ""
    image_px: int = 0  # 0 of a model that reads tokens
    seq_len: int = 0  # tokens of an example; 0 of a model that sees images
    num_classes: int = 0  # of tokens the vocabulary
    # elements of each gradient tensor; Keras orders those of branches otherwise
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

    @property
    def num_parameters(self) -> int:
        return sum(self.tensors)

    @property
    def item(self) -> str:
        """Return what its throughput counts."""
        return TOKENS if self.seq_len else IMAGES

    @property
    def training_flops(self) -> float:
        """Return the FLOPs of one example forward and backward, as model FLOPs utilization counts
        them: what is computed again to save memory does not count.
        """
        return self.forward_flops + self.backward_flops


class UnknownNetworkError(ValueError):
    """Raised for a model that nothing defines; the message names those that are defined."""


@cache
def network(
    model: str,
    image_px: int | None = None,
    num_classes: int | None = None,
    seq_len: int | None = None,
) -> Network:
    """Return the counts of a model; None is the published size, as is one that it does not have.

    Raises UnknownNetworkError, and ValueError for an image that is too small for the network.
    """
    known = models.definitions()
    if is_own(model):
        raise UnknownNetworkError(
            f"model={model}: the cost model does not know the layers of a model of your own"
        )
    if model not in known:
        hint = did_you_mean(model, known, f"known are {', '.join(known)}")
        raise UnknownNetworkError(
            f"model={model}: its layers are not known to the cost model; {hint}"
        )
    sizes = dict(models.published_sizes(model))
    asked = {"image_px": image_px, "num_classes": num_classes, "seq_len": seq_len}
    for axis, size in asked.items():
        if size and axis in sizes:
            sizes[axis] = size
    return count(models.define(model, **sizes), model, sizes)


def count(
    logits: nn.Tensor, name: str = "", sizes: Mapping[str, int] = MappingProxyType({})
) -> Network:
    """Count a model with its loss.

    An output that is used more than once has the sum of as many gradients, an operation each.
    """
    layers = nn.network_of(logits)
    counts: dict[nn.Tensor, _LayerCounts] = {}
    trained: set[nn.Tensor] = set()  # what has a gradient; the pictures have none
    num_uses = num_outputs = num_tied = num_working = num_marked = 0
    parts = [Kept(0, 0)]  # between marks
    for tensor in layers:
        inputs = trained.intersection(tensor.inputs)
        num_uses += sum(given in trained for given in tensor.inputs)
        layer = counts[tensor] = _count_layer(tensor, has_gradient=bool(inputs))
        if inputs or layer.tensors:
            trained.add(tensor)
        if tensor.layer not in _FREE:
            num_outputs += tensor.num_elements
        if isinstance(tensor.layer, nn.TiedLogits):
            num_tied += sum(counts[tensor.inputs[1]].tensors)
        num_working = max(num_working, layer.num_working or 2 * tensor.num_elements)
        num_float32 = 0
        if isinstance(tensor.layer, nn.LayerNorm):
            num_float32 = tensor.num_elements
        parts[-1] += Kept(layer.num_kept, num_float32)
        if tensor.layer is nn.Plain.KEPT:
            num_marked += tensor.num_elements
            parts.append(Kept(0, 0))
    num_sums = num_uses - (len(trained) - 1)  # only the logits have no use
    num_operations = sum(layer.num_operations for layer in counts.values())
    tensors = [size for layer in counts.values() for size in layer.tensors]
    of_loss = Kept(_OF_LOSS * logits.num_elements, _OF_LOSS * logits.num_elements)
    kept_again = parts[0] + of_loss + Kept(num_marked, 0)
    if len(parts) > 1:
        kept_again += parts[-1]
        kept_again += max(parts[1:-1], key=lambda part: part.num, default=Kept(0, 0))
    return Network(
        name=name,
        **sizes,
        tensors=tuple(tensors),
        forward_flops=float(sum(layer.flops for layer in counts.values())),
        backward_flops=float(sum(layer.backward_flops for layer in counts.values())),
        num_operations=num_operations + num_sums + _LOSS_OPERATIONS,
        num_outputs=num_outputs,
        kept=sum(parts, of_loss),
        kept_again=kept_again,
        num_working=num_working,
        num_tied=num_tied,
    )


@dataclass(frozen=True, slots=True)
class _LayerCounts:
    """What one layer takes for one example, forward and backward."""

    num_operations: int = 2
    flops: int = 0  # forward: 2 per multiply and add
    backward_flops: int = 0  # gradients of the weights, and of the input where it needs one
    tensors: tuple[int, ...] = ()  # elements of each gradient tensor
    num_kept: int = 0  # elements, for the backward pass
    # elements that its backward pass needs besides; 0 = the gradients of its output and of as much
    num_working: int = 0


def _count_layer(tensor: nn.Tensor, *, has_gradient: bool) -> _LayerCounts:
    """Count one layer; `has_gradient` says that its input needs one."""
    channels, elements = tensor.channels, tensor.num_elements
    match tensor.layer:
        case nn.Conv() | nn.Dense() as layer:
            return _count_product(tensor, layer, has_gradient=has_gradient)
        case nn.Attend() as layer:  # all scores count, even where a causal model masks half
            flops = 4 * tensor.shape[0] ** 2 * channels
            drops = layer.dropout_rate > 0
            scores = tensor.shape[0] ** 2 * layer.num_heads
            return _LayerCounts(
                # split, scale, softmax, join, and two products: one each way, of products two back
                num_operations=14 + layer.is_causal + 4 * drops,
                flops=flops,
                backward_flops=2 * flops,
                # queries, keys, values, output, and weights: with dropout before and after, and a
                # byte that says whether a number was kept
                num_kept=4 * elements + (scores * 9 // 4 if drops else scores),
                # with dropout also its mask in numbers, plain and scaled
                num_working=scores * (5 if drops else 3),
            )
        case nn.TiedLogits():
            flops = 2 * elements * tensor.inputs[0].channels
            return _LayerCounts(3, flops, 2 * flops)
        case nn.BatchNorm(scale=False) | nn.Plain.CLASS_TOKEN | nn.Plain.BIAS:
            return _LayerCounts(tensors=(channels,))
        case nn.BatchNorm():
            return _LayerCounts(tensors=(channels, channels))
        case nn.LayerNorm():  # normalized, before gamma and beta, and its output
            return _LayerCounts(tensors=(channels, channels), num_kept=2 * elements)
        case nn.Embed() as layer:
            return _LayerCounts(tensors=(layer.num_symbols * layer.width,))
        case nn.Positions() as layer:
            return _LayerCounts(tensors=(layer.num_positions * channels,))
        case nn.Segments() as layer:
            return _LayerCounts(3, tensors=(layer.num_segments * channels,))
        case nn.Plain.ADD | nn.Masked():
            return _LayerCounts(1)
        case nn.Plain.CONCAT:  # backward, each branch gets its slice
            return _LayerCounts(1 + len(tensor.inputs), num_kept=elements)
        case nn.DropoutLayer():  # draws, compares, multiplies; multiplies on the way back
            return _LayerCounts(4, num_kept=elements // 4)
        case nn.Plain.IMAGES:
            return _LayerCounts(0, num_kept=elements)
        case nn.Plain.RELU | nn.Pool() | nn.PadChannels():
            return _LayerCounts(num_kept=elements)
        case layer:
            return _LayerCounts(0 if layer in _FREE else 2)


def _count_product(
    tensor: nn.Tensor, layer: nn.Conv | nn.Dense, *, has_gradient: bool
) -> _LayerCounts:
    """Count the product, its gradients by weights and input, and bias and activation each way."""
    *positions, outputs = tensor.shape
    weights = tensor.inputs[0].channels * outputs
    has_bias = True
    if isinstance(layer, nn.Conv):
        weights = prod(layer.kernel) * (outputs if layer.depthwise else weights)
        has_bias = layer.bias
    flops = 2 * weights * prod(positions)
    num_operations = 2 + has_gradient + 2 * has_bias + 2 * (layer.activation != "linear")
    num_kept = num_working = 0
    if layer.activation == "relu" or isinstance(layer, nn.Conv):
        num_kept = tensor.num_elements
    if layer.activation == "gelu":  # also its argument, and the normal distribution's share
        num_kept = num_working = 3 * tensor.num_elements
    return _LayerCounts(
        num_operations=num_operations,
        flops=flops,
        backward_flops=flops * (1 + has_gradient),
        tensors=(weights, outputs) if has_bias else (weights,),
        num_kept=num_kept,
        num_working=num_working,
    )
