"""Layers of image models, where Keras' own are slower.

Max pooling has a backward pass that XLA compiles to plain loops: XLA's own gathers the place of
each maximum as four numbers, and scatters, 2.3 of 36 ms of a step of ResNet-50 on an H200. Of the
first pooling of ResNet-50 it takes six times as long as this on CPU devices. TensorFlow without XLA
has kernels that are faster than both.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import keras
import tensorflow as tf


def channel_axis() -> int:
    """Return where Keras' data format has the channels of images: 1 or -1."""
    if keras.config.image_data_format() == "channels_first":
        return 1
    return -1


class FusedBatchNormalization(keras.layers.Layer):
    """Normalizes images in Keras' data format; Keras 3.15's own layer emits a dozen ops.

    Images (B, H, W, C) or (B, C, H, W) -> the same shape. Statistics, gamma and beta are float32
    under every precision.
    """

    def __init__(self, *, scale: bool, epsilon: float, decay: float) -> None:
        super().__init__()
        self.scale, self.epsilon, self.decay = scale, epsilon, decay
        self.axis = channel_axis()

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        shape = (input_shape[self.axis],)

        def weight(name: str, initializer: str, trainable: bool) -> keras.Variable:
            return self.add_weight(
                shape=shape,
                initializer=initializer,
                trainable=trainable,
                name=name,
                dtype="float32",
                autocast=False,
            )

        self.gamma = weight("gamma", "ones", True) if self.scale else None
        self.beta = weight("beta", "zeros", True)
        self.moving_mean = weight("moving_mean", "zeros", False)
        self.moving_variance = weight("moving_variance", "ones", False)

    def call(self, x: tf.Tensor, training: bool = False) -> tf.Tensor:
        channels = x.shape[self.axis]
        gamma = tf.convert_to_tensor(self.gamma) if self.scale else tf.ones([channels], tf.float32)
        y, mean, variance, *_ = tf.raw_ops.FusedBatchNormV3(
            x=x,
            scale=gamma,
            offset=tf.convert_to_tensor(self.beta),
            mean=tf.convert_to_tensor(self.moving_mean),
            variance=tf.convert_to_tensor(self.moving_variance),
            epsilon=self.epsilon,
            exponential_avg_factor=1 - self.decay if training else 1.0,
            data_format="NCHW" if self.axis == 1 else "NHWC",
            is_training=training,
        )
        if training:
            # The op averages a variance that divides by n - 1; Keras and the ancestor divide by n.
            n = _num_elements(x) / channels
            of_old = self.moving_variance * (self.decay / n)
            self.moving_mean.assign(mean)
            self.moving_variance.assign(variance * ((n - 1) / n) + of_old)
        return y

    def compute_output_shape(self, input_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        return input_shape


def _num_elements(x: tf.Tensor) -> int | tf.Tensor:
    """Return a number where the shape is known, so that no op has to compute it."""
    if x.shape.is_fully_defined():
        return int(x.shape.num_elements())
    return tf.cast(tf.size(x), tf.float32)


class MaxPooling(keras.layers.Layer):
    """Takes the largest of each window of images: (B, H, W, C), or (B, C, H, W) -> the same."""

    def __init__(self, size: int, stride: int, padding: str) -> None:
        super().__init__()
        self.size, self.stride, self.padding = size, stride, padding
        self.axes = (1, 2)
        if channel_axis() == 1:
            self.axes = (2, 3)

    def call(self, x: tf.Tensor) -> tf.Tensor:
        return _pooled(Windows.of(x, self.size, self.stride, self.padding, self.axes), x)

    def compute_output_spec(self, x: keras.KerasTensor) -> keras.KerasTensor:
        pooled: keras.KerasTensor = keras.ops.max_pool(x, self.size, self.stride, self.padding)
        return pooled


@dataclass(frozen=True, slots=True)
class Windows:
    """Square windows along two axes, so many along each."""

    size: int
    stride: int
    axes: tuple[int, int]
    counts: list[int]

    @classmethod
    def of(
        cls, x: tf.Tensor, size: int, stride: int, padding: str, axes: tuple[int, int]
    ) -> "Windows":
        lengths = [x.shape[axis] for axis in axes]
        if padding == "same":
            counts = [-(-length // stride) for length in lengths]
        else:
            counts = [(length - size) // stride + 1 for length in lengths]
        return cls(size, stride, axes, counts)

    def padded(self, x: tf.Tensor, lengths: list[tuple[int, int]], value: float = 0) -> tf.Tensor:
        """Add so much before and behind along both axes."""
        widths = [(0, 0)] * 4
        for axis, length in zip(self.axes, lengths, strict=True):
            widths[axis] = length
        return tf.pad(x, widths, constant_values=value)

    def margins(self, x: tf.Tensor) -> list[tuple[int, int]]:
        """Return what windows need before and behind, the more behind, as TensorFlow pads."""
        margins = []
        for axis, count in zip(self.axes, self.counts, strict=True):
            lacking = max((count - 1) * self.stride + self.size - x.shape[axis], 0)
            margins.append((lacking // 2, lacking - lacking // 2))
        return margins

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


def _pooled(windows: Windows, x: tf.Tensor) -> tf.Tensor:
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
