"""Models with few and with many parameters for their work: by bytes per operation, which is what
communication feels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from analysis.conclusions.cases import model
from analysis.results import Result
from costs.networks import Network, network

_DENSE = 5.0  # MB per GFLOP of one image, forward and backward


def parameter_mb(net: Network) -> float:
    return net.num_parameters * 4 / 1e6


def mb_per_gflop(net: Network) -> float:
    """Bytes of gradients to be shared per operation of one image; divided by the batch, what a step
    has of it.
    """
    return parameter_mb(net) / (3 * net.forward_flops / 1e9)


def few_per_gflop(net: Network) -> bool:
    """As Inception and the ResNets of ImageNet have; AlexNet and VGG have more."""
    return mb_per_gflop(net) < _DENSE


CLASSES: Mapping[str, Callable[[Network], bool]] = {
    f"few parameters for their work (less than {_DENSE:g} MB per GFLOP: {{}})": few_per_gflop,
    f"many parameters for their work ({_DENSE:g} MB or more per GFLOP: {{}})": lambda net: (
        not few_per_gflop(net)
    ),
}
"""What they have, with room for their names. The article's small models are the first, ResNet-152
with its 241 MB among them.
"""


def network_of(result: Result) -> Network | None:
    """None where nothing is known of the model's layers, or the image is too small for them."""
    try:
        return network(model(result), result.axes.get("image_px"), result.axes.get("num_classes"))
    except ValueError:
        return None


def of_class(results: Sequence[Result], holds: Callable[[Network], bool]) -> list[Result]:
    return [result for result in results if (net := network_of(result)) is not None and holds(net)]
