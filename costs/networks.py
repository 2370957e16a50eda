"""Counts of a network by its name: gradient tensors, work per example, activations."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from functools import cache

from costs.counting import Bias, biases, count, normalized
from costs.fused import fused
from costs.kept import Kept, kept, tied, working
from costs.memory_bound import MemoryBound
from costs.op_by_op import op_by_op
from scalemark import models
from scalemark.own_model import is_own
from scalemark.records.measurement import IMAGES, TOKENS


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
    op_by_op: MemoryBound  # beside products, by TensorFlow without XLA
    fused: MemoryBound  # the same with XLA
    kept: Kept  # for the backward pass
    kept_again: Kept  # the same where the backward pass computes again
    num_working: int  # of one example, at most in the backward pass of one layer
    # elements of one example, and channels, of each tensor that batch normalization reads
    normalized: tuple[tuple[int, int], ...]
    biases: tuple[Bias, ...]
    num_operations: int  # of the layers, forward and backward: fewer than kernels
    num_tied: int  # elements of tables that begin and end the model
    # of forward_flops, in convolutions of 3x3 and 5x5 with stride 1, which fast algorithms shorten
    winograd_share: float
    product_share: float  # of forward_flops, in products of matrices
    seq_len: int = 0  # tokens of an example; 0 of a model that sees images
    num_classes: int = 0  # of tokens the vocabulary

    @property
    def num_parameters(self) -> int:
        return sum(self.tensors)

    @property
    def num_normalized(self) -> int:
        """Return the elements of the largest tensor that batch normalization reads."""
        return max((elements for elements, _ in self.normalized), default=0)

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
    return {
        _spelled(alias): name
        for alias, name in (bare | aliases | {name: name for name in known}).items()
    }


def _spelled(model: str) -> str:
    return re.sub(r"[^a-z0-9]", "", model.lower())


@cache
def _counted(
    name: str, image_px: int | None, num_classes: int | None, seq_len: int | None
) -> Network:
    asked = {"image_px": image_px, "num_classes": num_classes, "seq_len": seq_len}
    sizes = dict(models.published_sizes(name))
    sizes |= {axis: size for axis, size in asked.items() if size and axis in sizes}
    logits = models.define(name, **sizes)
    counts = count(logits)
    return Network(
        name=name,
        image_px=sizes.get("image_px", 0),
        seq_len=sizes.get("seq_len", 0),
        num_classes=sizes.get("num_classes", 0),
        tensors=counts.tensors,
        forward_flops=float(counts.flops),
        backward_flops=float(counts.backward_flops),
        op_by_op=op_by_op(logits),
        fused=fused(logits),
        kept=kept(logits),
        kept_again=kept(logits, recompute=True),
        num_working=working(logits),
        normalized=normalized(logits),
        biases=biases(logits),
        num_operations=counts.num_operations,
        num_tied=tied(logits),
        winograd_share=counts.winograd_flops / counts.flops,
        product_share=counts.product_flops / counts.flops,
    )


def _unknown(model: str) -> str:
    if is_own(model):
        return f"model={model}: the cost model does not know the layers of a model of your own"
    near = difflib.get_close_matches(_spelled(model), _names(), n=1)
    meant = f"; did you mean {_names()[near[0]]}?" if near else ""
    return (
        f"model={model}: its layers are not known to the cost model; known are "
        f"{', '.join(models.definitions())}{meant}"
    )
