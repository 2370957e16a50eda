"""Max pooling whose backward pass XLA compiles to plain loops.

XLA's own gathers the place of each maximum as four numbers, and scatters: 2.3 of 36 ms of a step of
ResNet-50 on an H200. Of the first pooling of ResNet-50 it takes six times as long as this on CPU
devices. TensorFlow without XLA has kernels that are faster than both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import keras
import tensorflow as tf


class MaxPooling(keras.layers.Layer):
    """Takes the largest of each window of images: (B, H, W, C), or (B, C, H, W) -> the same."""

    def __init__(self, size: int, stride: int, padding: str) -> None:
        super().__init__()
        self.size, self.stride, self.padding = size, stride, padding
        self.axes = (2, 3) if keras.config.image_data_format() == "channels_first" else (1, 2)

    def call(self, x: tf.Tensor) -> tf.Tensor:
        if self.padding == "same":
            counts = [-(-x.shape[axis] // self.stride) for axis in self.axes]
        else:
            counts = [(x.shape[axis] - self.size) // self.stride + 1 for axis in self.axes]
        return _pooled(_Windows(self.size, self.stride, self.axes, counts), x)

    def compute_output_spec(self, x: keras.KerasTensor) -> keras.KerasTensor:
        pooled: keras.KerasTensor = keras.ops.max_pool(x, self.size, self.stride, self.padding)
        return pooled


@dataclass(frozen=True, slots=True)
class _Windows:
    """Square windows along two axes, so many along each."""

    size: int
    stride: int
    axes: tuple[int, int]
    counts: list[int]

    def padded(self, x: tf.Tensor, lengths: list[tuple[int, int]], value: float = 0) -> tf.Tensor:
        """Add so much before and behind along both axes."""
        widths = [(0, 0)] * 4
        for axis, length in zip(self.axes, lengths, strict=True):
            widths[axis] = length
        return tf.pad(x, widths, constant_values=value)

    def margins(self, x: tf.Tensor) -> list[tuple[int, int]]:
        """Return what windows need before and behind, the more behind, as TensorFlow pads."""
        found = []
        for axis, count in zip(self.axes, self.counts, strict=True):
            lacking = max((count - 1) * self.stride + self.size - x.shape[axis], 0)
            found.append((lacking // 2, lacking - lacking // 2))
        return found

    def places(self, padded: tf.Tensor) -> Iterator[tf.Tensor]:
        """Yield for each place in a window what is there in all windows, row by row."""
        for row in range(self.size):
            for column in range(self.size):
                taken = [slice(None)] * 4
                for axis, count, first in zip(self.axes, self.counts, (row, column), strict=True):
                    last = first + self.stride * (count - 1)
                    taken[axis] = slice(first, last + 1, self.stride)
                yield padded[tuple(taken)]

    def spread(self, gradient: tf.Tensor, places: tf.Tensor) -> tf.Tensor:
        """Add each window's gradient where its maximum was; the result has margins.

        Pixels that lie a stride apart are in like places of their windows: they are summed
        together, and put between the others at the end.
        """
        # in strides: windows, and those that begin before the last ends
        lengths = [count + (self.size - 1) // self.stride for count in self.counts]
        rows = []
        for row in range(self.stride):
            columns = [
                self._sum_at(row, column, gradient, places, lengths)
                for column in range(self.stride)
            ]
            rows.append(tf.stack(columns, self.axes[1] + 1))
        shape = gradient.shape.as_list()
        for axis, length in zip(self.axes, lengths, strict=True):
            shape[axis] = length * self.stride
        return tf.reshape(tf.stack(rows, self.axes[0] + 1), [-1, *shape[1:]])

    def _sum_at(
        self, row: int, column: int, gradient: tf.Tensor, places: tf.Tensor, lengths: list[int]
    ) -> tf.Tensor:
        """Sum over the windows that a pixel lies in, of pixels of one remainder by the stride."""
        none = tf.zeros((), gradient.dtype)
        addends = []
        for down in range(row, self.size, self.stride):
            for right in range(column, self.size, self.stride):
                own = tf.where(places == down * self.size + right, gradient, none)
                moved = [
                    (begin // self.stride, length - count - begin // self.stride)
                    for begin, length, count in zip(
                        (down, right), lengths, self.counts, strict=True
                    )
                ]
                addends.append(self.padded(own, moved))
        if not addends:  # windows leave pixels out
            return self.padded(
                tf.zeros_like(gradient),
                [(0, length - count) for length, count in zip(lengths, self.counts, strict=True)],
            )
        return tf.add_n(addends)


def _pooled(windows: _Windows, x: tf.Tensor) -> tf.Tensor:
    @tf.custom_gradient
    def pooled(x: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        margins = windows.margins(x)
        best, *others = windows.places(windows.padded(x, margins, x.dtype.min))
        places = tf.zeros_like(best, tf.int8)
        for number, other in enumerate(others, 1):
            is_larger = other > best  # of equal ones the first counts, as in TensorFlow
            places = tf.where(is_larger, tf.constant(number, tf.int8), places)
            best = tf.where(is_larger, other, best)

        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            whole = windows.spread(upstream, places)
            taken = [slice(None)] * 4
            lacking = []
            for axis, (before, _) in zip(windows.axes, margins, strict=True):
                taken[axis] = slice(before, before + x.shape[axis])
                # pixels behind the last window have none
                lacking.append((0, max(before + x.shape[axis] - whole.shape[axis], 0)))
            return windows.padded(whole, lacking)[tuple(taken)]

        return best, gradient

    result: tf.Tensor = pooled(x)
    return result
