"""Counts of a network by its name: gradient tensors, work per image, activations."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from functools import cache

from costs.counting import count
from scalemark import models
from scalemark.own_model import is_own


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """The counts of a model at one size of image, made from its definition and not measured."""

    name: str
    image_px: int
    # elements of each gradient tensor, in the order in which the trainer has them
    tensors: tuple[int, ...]
    forward_flops: float  # of one image: 2 per multiply and add of convolutions and dense layers
    # of one image: as many again for the gradients of the weights, and of the inputs that need one
    backward_flops: float
    # of one image in fp32: outputs of convolutions, norms, ReLUs, pools, sums, joins
    activation_bytes: float
    num_kernels: int  # launched per step and GPU, forward and backward: an estimate, see `network`
    # of forward_flops, in convolutions of 3x3 and 5x5 with stride 1, which fast algorithms shorten
    winograd_share: float

    @property
    def num_parameters(self) -> int:
        return sum(self.tensors)

    @property
    def training_flops(self) -> float:
        """Return those of one image forward and backward, as model FLOPs utilization counts them:
        what is computed again to save memory does not count.
        """
        return self.forward_flops + self.backward_flops


class UnknownNetworkError(ValueError):
    """Raised for a model that nothing defines; the message names those that are defined."""


def network(model: str, image_px: int | None = None, num_classes: int | None = None) -> Network:
    """Return the counts of a model by its name, published spellings included, as `ResNet-50 v1.5`;
    None is the published size.

    num_kernels leaves out the update of the variables, and the layout changes and second passes of
    cuDNN, so that a GPU launches rather more.

    Raises UnknownNetworkError, and ValueError for an image that is too small for the network.
    """
    name = _names().get(_spelled(model))
    if name is None:
        raise UnknownNetworkError(_unknown(model))
    return _counted(name, image_px, num_classes)


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
def _counted(name: str, image_px: int | None, num_classes: int | None) -> Network:
    asked = {"image_px": image_px, "num_classes": num_classes}
    sizes = {**models.published_sizes(name), **{axis: size for axis, size in asked.items() if size}}
    counts = count(models.define(name, **sizes))
    return Network(
        name=name,
        image_px=sizes["image_px"],
        tensors=counts.tensors,
        forward_flops=float(counts.flops),
        backward_flops=float(counts.backward_flops),
        activation_bytes=4.0 * counts.num_outputs,
        num_kernels=counts.num_kernels,
        winograd_share=counts.winograd_flops / counts.flops,
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
