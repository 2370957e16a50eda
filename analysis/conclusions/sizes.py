"""Classes models by bytes of gradients per operation, which is what communication depends on."""

from __future__ import annotations

from analysis.conclusions.cases import model
from analysis.results import Result
from simulator.costs.networks import Network, network

# MB per GFLOP of one image, forward and backward: between ResNet-152 (3.6) and the next of the
# article's models, VGG-16.
_FEW = 5.0

FEW = f"few parameters for their work (less than {_FEW:g} MB per GFLOP: {{}})"
MANY = f"many parameters for their work ({_FEW:g} MB or more per GFLOP: {{}})"
UNKNOWN = "layers that the cost model does not know ({})"


def mb_per_gflop(net: Network) -> float:
    """Return the gradients shared per operation of one example; an update has a share of it, one
    over the examples of each GPU.
    """
    megabytes = net.num_parameters * 4 / 1e6
    return megabytes / (3 * net.forward_flops / 1e9)


def size_class(result: Result) -> str:
    net = network_of(result)
    if net is None:
        return UNKNOWN
    return FEW if mb_per_gflop(net) < _FEW else MANY


def network_of(result: Result) -> Network | None:
    """Return None for an unknown model, or an image too small for its layers."""
    try:
        return network(
            model(result),
            result.axes.get("image_px"),
            result.axes.get("num_classes"),
            result.axes.get("seq_len"),
        )
    except ValueError:
        return None
