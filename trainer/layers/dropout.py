"""Dropout whose random numbers are cheap: 16 bits of Philox each."""

from __future__ import annotations

from collections.abc import Callable

import keras
import tensorflow as tf

_LEVELS = 2**16


class Dropout(keras.layers.Layer):
    """Replaces a share `rate` of the numbers by 0 while training, and enlarges the others.

    The rate is a multiple of 2^-16, and the seed is Keras' state, which each replica has of its
    own. Keras draws 32 bits by ThreeFry for each number.
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        self._level = round(rate * _LEVELS)
        self.seed_generator = keras.random.SeedGenerator()

    def call(self, x: tf.Tensor, training: bool = False) -> tf.Tensor:
        if not training:
            return x
        return _scaled_where(self._kept(x), x, _LEVELS / (_LEVELS - self._level))

    def _kept(self, x: tf.Tensor) -> tf.Tensor:
        """Draw a bool of the shape of x."""
        shape = tf.shape(x)
        num_pairs = (tf.reduce_prod(shape) + 1) // 2
        with tf.control_dependencies([x]):  # else those of all layers are drawn at once, and held
            seed = tf.cast(self.seed_generator.next(), tf.int32)
        bits = tf.random.stateless_uniform(
            [num_pairs], seed, None, None, tf.uint32, alg=tf.random.Algorithm.PHILOX
        )
        levels = tf.reshape(tf.bitcast(bits, tf.int16), [-1])[: tf.reduce_prod(shape)]
        return tf.reshape(levels >= self._level - _LEVELS // 2, shape)


def _scaled_where(kept: tf.Tensor, x: tf.Tensor, scale: float) -> tf.Tensor:
    """Return x * scale where `kept`, else 0; the backward pass keeps a byte of each number."""

    @tf.custom_gradient
    def dropped(x: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        def scaled(values: tf.Tensor) -> tf.Tensor:
            return values * (tf.cast(kept, values.dtype) * tf.cast(scale, values.dtype))

        return scaled(x), scaled

    return dropped(x)
