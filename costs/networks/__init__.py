"""What the cost model must know of a network: its gradient tensors, its work per image, its
activations.

Each file of this folder describes a family: its `NETWORKS` are `name -> costs.layers.Definition`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from costs.layers import Definition, Layers


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """At one size of image. Counted layer by layer from its definition, not measured."""

    name: str
    image_px: int
    # elements of each gradient tensor, in the order in which the trainer has them
    tensors: tuple[int, ...]
    forward_flops: float  # of one image: 2 per multiply and add of convolutions and dense layers
    # of one image in fp32: outputs of convolutions, norms, ReLUs, pools, sums, joins
    activation_bytes: float
    num_kernels: int  # launched per step and GPU, forward and backward: an estimate, see `network`
    # of forward_flops, in convolutions of 3x3 and 5x5 with stride 1, which fast algorithms shorten
    winograd_share: float

    @property
    def num_parameters(self) -> int:
        return sum(self.tensors)


class UnknownNetworkError(ValueError):
    """Nothing is known of the layers of this model; the message names those that are known."""


def network(model: str, image_px: int | None = None, num_classes: int | None = None) -> Network:
    """Of a model's name, published spellings included, as `ResNet-50 v1.5`; None is what is usual
    for it.

    num_kernels counts one kernel per operation: of a convolution and a dense layer one forward and
    two backward, of bias, norm, ReLU and pooling one each way, one per sum of two gradients, and
    those of the loss. The update of the variables and the layout changes and second passes of cuDNN
    are not among them, so that a GPU launches rather more.

    Raises UnknownNetworkError, and ValueError for an image that is too small for the network.
    """
    name = _names().get(_spelled(model))
    if name is None:
        raise UnknownNetworkError(_unknown(model))
    return _counted(name, image_px, num_classes)


def known() -> Mapping[str, Definition]:
    """All networks by name, sorted. Other spellings of a name are found, too."""
    return _known()


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
_LOSS_KERNELS = 8  # softmax, cross entropy, their gradients, the mean


@cache
def _known() -> dict[str, Definition]:
    families = (import_module(f"costs.networks.{found.name}") for found in iter_modules(__path__))
    return dict(
        sorted(
            (name, definition)
            for family in families
            for name, definition in family.NETWORKS.items()
        )
    )


@cache
def _names() -> dict[str, str]:
    """By spelling without case and punctuation."""
    aliases = _ALIASES | {f"{name}10": name for name in _known() if name.endswith("_cifar")}
    bare = {name.removesuffix("_cifar"): name for name in _known() if name.endswith("_cifar")}
    return {
        _spelled(alias): name
        for alias, name in (bare | aliases | {name: name for name in _known()}).items()
    }


def _spelled(model: str) -> str:
    return re.sub(r"[^a-z0-9]", "", model.lower())


@cache
def _counted(name: str, image_px: int | None, num_classes: int | None) -> Network:
    definition = _known()[name]
    px = image_px or definition.image_px
    layers = Layers()
    try:
        logits = definition.describe(
            layers, layers.images(px), num_classes or definition.num_classes
        )
    except ValueError as error:
        raise ValueError(
            f"model={name} image_px={px}: {error}; its usual image_px is {definition.image_px}"
        ) from None
    return Network(
        name=name,
        image_px=px,
        tensors=layers.in_order(logits),
        forward_flops=float(layers.forward_flops),
        activation_bytes=4.0 * layers.num_outputs,
        num_kernels=layers.num_kernels + layers.num_forks + _LOSS_KERNELS,
        winograd_share=layers.winograd_flops / layers.forward_flops,
    )


def _unknown(model: str) -> str:
    near = difflib.get_close_matches(_spelled(model), _names(), n=1)
    meant = f"; did you mean {_names()[near[0]]}?" if near else ""
    return (
        f"model={model}: its layers are not known to the cost model; known are "
        f"{', '.join(_known())}{meant}"
    )
