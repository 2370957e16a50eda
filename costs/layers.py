"""The language that networks are described in, layer by layer; it counts tensors, operations and
outputs on the way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Padding = Literal["same", "valid"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """Of one layer, for one image."""

    layer: int  # which one, in the order of their description
    height: int
    width: int
    channels: int

    @property
    def num_elements(self) -> int:
        return self.height * self.width * self.channels


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """How to count a network."""

    image_px: int  # the usual one
    # the usual number; ImageNet's with the background, as tf_cnn_benchmarks counts
    num_classes: int = 1001
    describe: Callable[[Layers, Output, int], Output]  # (layers, images, num_classes) -> logits


class Layers:
    """Sums of what was described so far. A layer is what Keras makes a layer of, so that both order
    them alike.
    """

    def __init__(self) -> None:
        self.forward_flops = 0  # of one image: 2 per multiply and add
        self.winograd_flops = 0  # part of them, in convolutions of 3x3 and 5x5 with stride 1
        # elements that one image leaves behind in convolutions, norms, ReLUs, pools, sums and joins
        self.num_outputs = 0
        self.num_kernels = 0  # forward and backward
        self._inputs: list[tuple[int, ...]] = []
        self._tensors: list[tuple[int, ...]] = []

    def images(self, image_px: int) -> Output:
        """With which every description begins."""
        return self._layer((), image_px, image_px, 3)

    def conv(
        self,
        x: Output,
        filters: int,
        kernel: int | tuple[int, int],
        *,
        strides: int = 1,
        padding: Padding = "same",
        bias: bool = True,
        relu: bool = True,
        groups: int = 1,
    ) -> Output:
        """Convolution, with bias and ReLU inside as AlexNet and VGG have them."""
        high, wide = (kernel, kernel) if isinstance(kernel, int) else kernel
        height, width = (
            _span(x.height, high, strides, padding),
            _span(x.width, wide, strides, padding),
        )
        weights = high * wide * x.channels // groups * filters
        y = self._layer((x,), height, width, filters, (weights, filters) if bias else (weights,))
        flops = 2 * weights * height * width
        self.forward_flops += flops
        self.winograd_flops += (
            flops if (high, wide) in _SHORTENED and strides == 1 and groups == 1 else 0
        )
        self.num_outputs += y.num_elements * (2 if relu else 1)
        # nobody asks for the gradient of the pictures
        gradients = 2 if self._inputs[x.layer] else 1
        self.num_kernels += 1 + gradients + 2 * bias + 2 * relu
        return y

    def norm(self, x: Output, *, scale: bool = True) -> Output:
        """Batch normalization, by one fused operation."""
        self.num_outputs += x.num_elements
        self.num_kernels += 2
        return self._layer(
            (x,),
            x.height,
            x.width,
            x.channels,
            (x.channels, x.channels) if scale else (x.channels,),
        )

    def relu(self, x: Output) -> Output:
        self.num_outputs += x.num_elements
        self.num_kernels += 2
        return self._layer((x,), x.height, x.width, x.channels)

    def conv_norm(
        self,
        x: Output,
        filters: int,
        kernel: int | tuple[int, int],
        *,
        strides: int = 1,
        padding: Padding = "same",
        relu: bool = True,
        scale: bool = True,
        groups: int = 1,
    ) -> Output:
        """Convolution without bias, batch normalization, and ReLU if asked."""
        x = self.conv(
            x,
            filters,
            kernel,
            strides=strides,
            padding=padding,
            bias=False,
            relu=False,
            groups=groups,
        )
        x = self.norm(x, scale=scale)
        return self.relu(x) if relu else x

    def pool(self, x: Output, size: int, strides: int, padding: Padding = "valid") -> Output:
        """Largest or mean of each window."""
        height, width = (
            _span(x.height, size, strides, padding),
            _span(x.width, size, strides, padding),
        )
        y = self._layer((x,), height, width, x.channels)
        self.num_outputs += y.num_elements
        self.num_kernels += 2
        return y

    def mean(self, x: Output) -> Output:
        """Of each channel over the whole image."""
        self.num_kernels += 2
        return self._layer((x,), 1, 1, x.channels)

    def add(self, x: Output, y: Output) -> Output:
        self.num_outputs += x.num_elements
        self.num_kernels += 1
        return self._layer((x, y), x.height, x.width, x.channels)

    def join(self, *branches: Output) -> Output:
        """Channels behind each other. Backward, each branch gets its slice."""
        y = self._layer(
            branches, branches[0].height, branches[0].width, sum(one.channels for one in branches)
        )
        self.num_outputs += y.num_elements
        self.num_kernels += 1 + len(branches)
        return y

    def pad_channels(self, x: Output, channels: int) -> Output:
        """With zeros."""
        self.num_kernels += 2
        return self._layer((x,), x.height, x.width, channels)

    def flatten(self, x: Output) -> Output:
        return self._layer((x,), 1, 1, x.num_elements)

    def dense(self, x: Output, units: int, *, relu: bool = True) -> Output:
        """Affine layer with bias, of a flat input."""
        first = not any(self._tensors)
        self.forward_flops += 2 * x.num_elements * units
        self.num_kernels += (4 if first else 5) + 2 * relu
        return self._layer((x,), 1, 1, units, (x.num_elements * units, units))

    def dropout(self, x: Output) -> Output:
        """Draws, compares and multiplies; multiplies again on the way back."""
        self.num_kernels += 4
        return self._layer((x,), x.height, x.width, x.channels)

    def in_order(self, last: Output) -> tuple[int, ...]:
        """Elements of all gradient tensors as Keras orders the layers of a model that ends in
        `last`.

        By decreasing length of the longest path to the end; layers equally far from it as a walk
        from the end, inputs in their order, first meets them (`keras.src.ops.function.map_graph`).
        Branches are therefore interleaved.
        """
        far = [0] * len(self._inputs)
        for layer in reversed(range(len(self._inputs))):
            for before in self._inputs[layer]:
                far[before] = max(far[before], far[layer] + 1)
        met: dict[int, int] = {}
        to_visit = [last.layer]
        while to_visit:
            if (layer := to_visit.pop()) not in met:
                met[layer] = len(met)
                to_visit.extend(reversed(self._inputs[layer]))
        return tuple(
            size
            for layer in sorted(met, key=lambda one: (-far[one], met[one]))
            for size in self._tensors[layer]
        )

    @property
    def num_forks(self) -> int:
        """Uses of outputs beyond the first: for each, two gradients are added up."""
        uses = [before for inputs in self._inputs for before in inputs if self._inputs[before]]
        return len(uses) - len(set(uses))

    def _layer(
        self,
        inputs: tuple[Output, ...],
        height: int,
        width: int,
        channels: int,
        tensors: tuple[int, ...] = (),
    ) -> Output:
        if min(height, width) < 1:
            raise ValueError("the image is too small: nothing is left of it after some layers")
        self._inputs.append(tuple(one.layer for one in inputs))
        self._tensors.append(tensors)
        return Output(layer=len(self._inputs) - 1, height=height, width=width, channels=channels)


_SHORTENED = ((3, 3), (5, 5))


def _span(px: int, kernel: int, strides: int, padding: Padding) -> int:
    return -(-px // strides) if padding == "same" else (px - kernel) // strides + 1
