"""Convolutions and dense layers of CPU devices, as products of matrices.

oneDNN rearranges the weights of a convolution whenever it uses them, three times a step; a product
takes them as they lie. A step of ResNet-50 (64 px, batch 4) takes 0.76 of the CPU time so.
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
"""Of more rows than this, a convolution is faster than a product by a transposed matrix."""
WIDE = 8
"""Where a matrix has so many times more columns than there are rows, the product is transposed."""


class Convolution(keras.layers.Conv2D):
    """Keras' own, of float32 images (B, H, W, C), with the same numbers but for rounding."""

    def call(self, x: tf.Tensor) -> tf.Tensor:
        windows = self._windows(x)
        if windows is None:
            return super().call(x)
        kernel = tf.reshape(tf.convert_to_tensor(self.kernel), [-1, self.filters])
        return _activated(self, windows, kernel, self.filters)

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


class Dense(keras.layers.Dense):
    """Keras' own, of float32 numbers (..., C), with the same numbers but for rounding."""

    def call(self, x: tf.Tensor) -> tf.Tensor:
        return _activated(self, x, tf.convert_to_tensor(self.kernel), self.units)


def _activated(
    layer: keras.layers.Conv2D | keras.layers.Dense, x: tf.Tensor, matrix: tf.Tensor, width: int
) -> tf.Tensor:
    """Multiply the last axis of x by a matrix, add the layer's bias, and call its activation."""
    outputs = product(tf.reshape(x, [-1, x.shape[-1]]), matrix)
    if layer.use_bias:
        outputs = tf.nn.bias_add(outputs, tf.convert_to_tensor(layer.bias))
    activated: tf.Tensor = layer.activation(tf.reshape(outputs, [-1, *x.shape[1:-1], width]))
    return activated


@tf.custom_gradient
def product(
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
