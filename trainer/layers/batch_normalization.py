"""Batch normalization of images by TensorFlow's one fused op."""

from __future__ import annotations

import keras
import tensorflow as tf


class FusedBatchNormalization(keras.layers.Layer):
    """Normalizes images in Keras' data format; Keras 3.15's own layer emits a dozen ops.

    Images (B, H, W, C) or (B, C, H, W) -> the same shape. Statistics, gamma and beta are float32
    under every precision.
    """

    def __init__(self, *, scale: bool, epsilon: float, decay: float) -> None:
        super().__init__()
        self.scale, self.epsilon, self.decay = scale, epsilon, decay
        self.axis = 1 if keras.config.image_data_format() == "channels_first" else -1

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
