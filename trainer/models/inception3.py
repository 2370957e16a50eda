"""Inception version 3 (Szegedy et al. 2015) without the auxiliary head: 23,819,401 parameters at
1001 classes.

Batch normalization has no gamma, as in tf_cnn_benchmarks; 190 gradient tensors.
"""

from functools import partial

import keras

from trainer import layers

_conv = partial(layers.conv_norm, scale=False, epsilon=1e-3, decay=0.9)


def build(image_px: int, num_classes: int) -> keras.Model:
    """Images (B, image_px, image_px, 3) -> logits (B, num_classes). Needs image_px >= 75."""
    images, x = layers.image_input(image_px)
    x = _conv(x, 32, 3, strides=2, padding="valid")
    x = _conv(x, 32, 3, padding="valid")
    x = _conv(x, 64, 3)
    x = keras.layers.MaxPooling2D(3, 2)(x)
    x = _conv(x, 80, 1, padding="valid")
    x = _conv(x, 192, 3, padding="valid")
    x = keras.layers.MaxPooling2D(3, 2)(x)
    for pool_filters in (32, 64, 64):
        x = _block_35(x, pool_filters)
    x = _reduce_to_17(x)
    for filters in (128, 160, 160, 192):
        x = _block_17(x, filters)
    x = _reduce_to_8(x)
    for _ in range(2):
        x = _block_8(x)
    x = keras.layers.GlobalAveragePooling2D()(x)
    return keras.Model(images, layers.logits(x, num_classes))


def _pooled(x: layers.Tensor, filters: int) -> layers.Tensor:
    return _conv(keras.layers.AveragePooling2D(3, 1, "same")(x), filters, 1)


def _join(*branches: layers.Tensor) -> layers.Tensor:
    return keras.layers.concatenate(list(branches), axis=layers.channel_axis())


def _block_35(x: layers.Tensor, pool_filters: int) -> layers.Tensor:
    five = _conv(_conv(x, 48, 1), 64, 5)
    double = _conv(_conv(_conv(x, 64, 1), 96, 3), 96, 3)
    return _join(_conv(x, 64, 1), five, double, _pooled(x, pool_filters))


def _reduce_to_17(x: layers.Tensor) -> layers.Tensor:
    single = _conv(x, 384, 3, strides=2, padding="valid")
    double = _conv(_conv(_conv(x, 64, 1), 96, 3), 96, 3, strides=2, padding="valid")
    return _join(single, double, keras.layers.MaxPooling2D(3, 2)(x))


def _block_17(x: layers.Tensor, filters: int) -> layers.Tensor:
    seven = _conv(_conv(_conv(x, filters, 1), filters, (1, 7)), 192, (7, 1))
    double = _conv(x, filters, 1)
    for kernel in ((7, 1), (1, 7), (7, 1)):
        double = _conv(double, filters, kernel)
    double = _conv(double, 192, (1, 7))
    return _join(_conv(x, 192, 1), seven, double, _pooled(x, 192))


def _reduce_to_8(x: layers.Tensor) -> layers.Tensor:
    three = _conv(_conv(x, 192, 1), 320, 3, strides=2, padding="valid")
    seven = _conv(_conv(_conv(x, 192, 1), 192, (1, 7)), 192, (7, 1))
    seven = _conv(seven, 192, 3, strides=2, padding="valid")
    return _join(three, seven, keras.layers.MaxPooling2D(3, 2)(x))


def _block_8(x: layers.Tensor) -> layers.Tensor:
    three = _conv(x, 384, 1)
    three = _join(_conv(three, 384, (1, 3)), _conv(three, 384, (3, 1)))
    double = _conv(_conv(x, 448, 1), 384, 3)
    double = _join(_conv(double, 384, (1, 3)), _conv(double, 384, (3, 1)))
    return _join(_conv(x, 320, 1), three, double, _pooled(x, 192))
