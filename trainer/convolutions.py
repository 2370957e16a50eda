"""Layers that compute what Keras' own do, but for rounding, in less time.

On CPU devices convolutions are products of matrices: oneDNN rearranges the weights of a convolution
whenever it uses them, three times a step, and a product takes them as they lie. A step of ResNet-50
(64 px, batch 4) takes 0.76 of the CPU time so.
"""

import math
from collections.abc import Callable

import keras
import tensorflow as tf

from trainer.image_layers import Windows

FEW_WINDOWS = 32
MANY_WINDOWS = 256
"""Copying up to so many windows of a batch, those of several pixels and pixels that lie strides
apart, takes less time than rearranging kernels.
"""
MANY_ROWS = 1024
"""With more rows than this, convolving is faster than multiplying by a transposed matrix."""
WIDE = 8
"""Where a matrix has so many times more columns than there are rows, the product is transposed."""


class ConvolutionByProduct(keras.layers.Conv2D):
    """Keras' own, of float32 images (B, H, W, C)."""

    def call(self, x: tf.Tensor) -> tf.Tensor:
        windows = self._windows(x)
        if windows is None:
            return super().call(x)
        kernel = tf.reshape(tf.convert_to_tensor(self.kernel), [-1, self.filters])
        return _by_product(self, windows, kernel)

    def _windows(self, x: tf.Tensor) -> tf.Tensor | None:
        """Return all pixels of each window one behind the other; None where copying takes long."""
        (size, columns), (stride, _) = self.kernel_size, self.strides
        if size == columns == stride == 1:
            return x
        windows = Windows.of(x, size, stride, self.padding, (1, 2))
        most = MANY_WINDOWS if size == 1 else FEW_WINDOWS
        num = math.prod([x.shape[0] or most + 1, *windows.counts])
        if size != columns or num > most:
            return None
        return tf.concat([*windows.places(windows.padded(x, windows.margins(x)))], -1)


class DenseByProduct(keras.layers.Dense):
    """Keras' own, of float32 numbers (..., C)."""

    def call(self, x: tf.Tensor) -> tf.Tensor:
        return _by_product(self, x, tf.convert_to_tensor(self.kernel))


class SpaceToDepthConvolution(keras.layers.Conv2D):
    """Convolves few channels by a stride of s: (B, H, W, C) -> (B, H / s, W / s, filters).

    Squares of s x s pixels become s * s * C channels, and the kernel is rearranged likewise, so
    that numbers and gradients are those of Keras' own layer. Matrix units work on 8 or 16 channels
    at once, and images have three. With XLA a step of ResNet-50 in bf16 was 4.6 % faster for it on
    an H200.
    """

    def call(self, x: tf.Tensor) -> tf.Tensor:
        (stride, _), (size, _) = self.strides, self.kernel_size
        num_taps = -(-size // stride)  # along each side of the rearranged kernel
        windows = Windows.of(x, size, stride, self.padding, (1, 2))
        kept, widths = [], [(0, 0)]
        for length, count, (before, _) in zip(
            x.shape[1:3], windows.counts, windows.margins(x), strict=True
        ):
            whole = stride * (count + num_taps - 1)
            kept.append(min(length, whole - before))  # windows may leave out the last pixels
            widths.append((before, whole - before - kept[-1]))
        channels = stride * stride * x.shape[3]
        x = tf.pad(x[:, : kept[0], : kept[1]], [*widths, (0, 0)])
        x = tf.nn.space_to_depth(x, stride)
        kernel = tf.cast(tf.convert_to_tensor(self.kernel), x.dtype)
        missing = (0, num_taps * stride - size)
        kernel = tf.pad(kernel, [missing, missing, (0, 0), (0, 0)])
        kernel = tf.reshape(kernel, [num_taps, stride, num_taps, stride, -1, self.filters])
        kernel = tf.transpose(kernel, [0, 2, 1, 3, 4, 5])
        kernel = tf.reshape(kernel, [num_taps, num_taps, channels, self.filters])
        return _finished(self, tf.nn.conv2d(x, kernel, 1, "VALID"))


def _by_product(
    layer: keras.layers.Conv2D | keras.layers.Dense, x: tf.Tensor, matrix: tf.Tensor
) -> tf.Tensor:
    """Multiply the last axis of x by a matrix, add the layer's bias, and call its activation."""
    outputs = _finished(layer, _product(tf.reshape(x, [-1, x.shape[-1]]), matrix))
    return tf.reshape(outputs, [-1, *x.shape[1:-1], matrix.shape[1]])


def _finished(layer: keras.layers.Conv2D | keras.layers.Dense, outputs: tf.Tensor) -> tf.Tensor:
    if layer.use_bias:
        bias = tf.cast(tf.convert_to_tensor(layer.bias), outputs.dtype)
        outputs = tf.nn.bias_add(outputs, bias)
    activated: tf.Tensor = layer.activation(outputs)
    return activated


@tf.custom_gradient
def _product(
    rows: tf.Tensor, matrix: tf.Tensor
) -> tuple[tf.Tensor, Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor]]]:
    """Multiply (N, C) by (C, F)."""

    def gradients(upstream: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        of_matrix = tf.matmul(rows, upstream, transpose_a=True)
        return _times_transposed(upstream, matrix), of_matrix

    return tf.matmul(rows, matrix), gradients


def _times_transposed(rows: tf.Tensor, matrix: tf.Tensor) -> tf.Tensor:
    """Multiply (N, F) by (C, F), transposed."""
    num, width = rows.shape
    if num is not None and num * WIDE <= width:
        return tf.transpose(tf.matmul(matrix, rows, transpose_b=True))
    if num is not None and num <= MANY_ROWS:
        return tf.matmul(rows, matrix, transpose_b=True)
    channels = matrix.shape[0]
    convolved = tf.raw_ops.Conv2DBackpropInput(
        input_sizes=[1, tf.shape(rows)[0], 1, channels],
        filter=matrix[tf.newaxis, tf.newaxis],
        out_backprop=rows[tf.newaxis, :, tf.newaxis],
        strides=[1, 1, 1, 1],
        padding="VALID",
    )
    return tf.reshape(convolved, [-1, channels])
