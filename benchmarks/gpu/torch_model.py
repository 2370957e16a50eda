"""Makes a PyTorch module of a definition in the language of `scalemark.layers`.

Images are channels first in shape, and channels last in memory. A convolution with padding "same"
pads alike on both sides, as PyTorch's users do: TensorFlow pads more at the end, with as many
windows.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import nn
from torch.nn import functional

from scalemark import layers
from scalemark.layers import Plain, Tensor, network_of


class UnknownLayerError(Exception):
    """Raised for a layer that the PyTorch peer does not have."""


class Network(nn.Module):
    """Calls the layers in the order of their description."""

    def __init__(self, logits: Tensor) -> None:
        super().__init__()
        network = network_of(logits)
        self.inputs = [tuple(network.index(one) for one in tensor.inputs) for tensor in network]
        self.parts = nn.ModuleList()
        for tensor, inputs in zip(network, self.inputs, strict=True):
            if isinstance(tensor.layer, layers.TiedLogits):
                self.parts.append(_TiedLogits(self.parts[inputs[1]]))
            else:
                self.parts.append(_module(tensor))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: list[torch.Tensor] = []
        for part, inputs in zip(self.parts, self.inputs, strict=True):
            given = [found[index] for index in inputs] if inputs else [x]
            found.append(part(*given))
        return found[-1]


class _Call(nn.Module):
    """A function without parameters."""

    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.function(*inputs)


class _TiedLogits(nn.Module):
    """Logits by the table of an embedding, which is shared."""

    def __init__(self, table: nn.Module) -> None:
        super().__init__()
        self.table = table

    def forward(self, x: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
        return functional.linear(x, self.table.weight)


class _Positions(nn.Module):
    """Adds a trained vector to each position."""

    def __init__(self, num_positions: int, width: int) -> None:
        super().__init__()
        self.table = nn.Parameter(0.02 * torch.randn(num_positions, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.table[: x.shape[1]]


class _Segments(nn.Module):
    """Adds to each position the trained vector of its equal part of the sequence."""

    def __init__(self, num_segments: int, width: int) -> None:
        super().__init__()
        self.num_segments = num_segments
        self.table = nn.Parameter(0.02 * torch.randn(num_segments, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        length = x.shape[1]
        positions = torch.arange(length, device=x.device)
        return x + self.table[positions * self.num_segments // length]


class _Bias(nn.Module):
    """Adds a trained number to each channel."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.bias


class _Attention(nn.Module):
    """Queries, keys and values behind each other (B, S, 3 W) -> (B, S, W), by fused attention."""

    def __init__(self, layer: layers.Attend) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch_size, length, channels = x.shape
        heads = x.view(batch_size, length, 3, self.layer.num_heads, -1).permute(2, 0, 3, 1, 4)
        queries, keys, values = heads.unbind(0)
        rate = self.layer.dropout_rate if self.training else 0.0
        attended = functional.scaled_dot_product_attention(
            queries, keys, values, dropout_p=rate, is_causal=self.layer.is_causal
        )
        return attended.transpose(1, 2).reshape(batch_size, length, channels // 3)


def _module(tensor: Tensor) -> nn.Module:
    layer = tensor.layer
    match layer:
        case layers.Conv(depthwise=False):
            return _convolution(layer, tensor.inputs[0].channels)
        case layers.BatchNorm(scale=True):
            return nn.BatchNorm2d(tensor.channels, eps=layer.epsilon, momentum=1 - layer.decay)
        case layers.Pool():
            padding = layer.size // 2 if layer.padding == "same" else 0
            if layer.kind == "max":
                return nn.MaxPool2d(layer.size, layer.strides, padding)
            return nn.AvgPool2d(layer.size, layer.strides, padding, count_include_pad=False)
        case layers.Dense():
            linear = nn.Linear(tensor.inputs[0].channels, layer.units)
            return nn.Sequential(linear, _activation(layer.activation))
        case layers.DropoutLayer():
            return nn.Dropout(layer.rate)
        case layers.Embed():
            table = nn.Embedding(layer.num_symbols, layer.width)
            nn.init.normal_(table.weight, std=0.02)
            return table
        case layers.Positions():
            return _Positions(layer.num_positions, tensor.channels)
        case layers.Segments():
            return _Segments(layer.num_segments, tensor.channels)
        case layers.Masked():
            return _Call(partial(_masked, every=layer.every))
        case layers.Every():
            return _Call(partial(_every, every=layer.every))
        case Plain.BIAS:
            return _Bias(tensor.channels)
        case layers.LayerNorm():
            return nn.LayerNorm(tensor.channels, eps=layer.epsilon)
        case layers.Attend():
            return _Attention(layer)
    if layer in _CALLS:
        return _Call(_CALLS[layer])
    raise UnknownLayerError(f"{layer}: the PyTorch peer has no such layer")


def _unchanged(x: torch.Tensor) -> torch.Tensor:
    return x


def _masked(x: torch.Tensor, every: int) -> torch.Tensor:
    """Replace every so many tokens, from the first, by token 0."""
    return x * (torch.arange(x.shape[1], device=x.device) % every > 0)


def _every(x: torch.Tensor, every: int) -> torch.Tensor:
    return x[:, ::every]


_CALLS: dict[layers.Layer, Callable[..., torch.Tensor]] = {
    Plain.IMAGES: _unchanged,
    Plain.TOKENS: _unchanged,
    Plain.KEPT: _unchanged,
    Plain.RELU: functional.relu,
    Plain.GLOBAL_MEAN: lambda x: x.mean((2, 3)),
    Plain.ADD: torch.add,
    Plain.CONCAT: lambda *branches: torch.cat(branches, 1),
    Plain.FLATTEN: lambda x: torch.flatten(x, 1),
}


def _convolution(layer: layers.Conv, channels: int) -> nn.Module:
    padding = (0, 0)
    if layer.padding == "same":
        if any(size % 2 == 0 for size in layer.kernel):
            raise UnknownLayerError(f"{layer}: wanted a kernel of odd size for padding=same")
        padding = (layer.kernel[0] // 2, layer.kernel[1] // 2)
    convolution = nn.Conv2d(
        channels, layer.filters, layer.kernel, layer.strides, padding, bias=layer.bias
    )
    return nn.Sequential(convolution, _activation(layer.activation))


def _activation(name: layers.Activation) -> nn.Module:
    activations = {"relu": nn.ReLU, "gelu": nn.GELU, "linear": nn.Identity}
    return activations[name]()
