"""Building blocks the models share: convolution with batch normalization, classifier head."""

from __future__ import annotations

from typing import TypeAlias

import keras
import tensorflow as tf

Tensor: TypeAlias = keras.KerasTensor
Padding = str  # "same" or "valid"


def conv(x: Tensor, filters: int, kernel: int | tuple[int, int], *, strides: int = 1, padding: Padding = "same") -> Tensor:
    """Convolution with bias and ReLU, without normalization (AlexNet, VGG)."""
    return keras.layers.Conv2D(filters, kernel, strides, padding, activation="relu", kernel_initializer="he_normal")(x)


def conv_norm(
    x: Tensor,
    filters: int,
    kernel: int | tuple[int, int],
    *,
    strides: int = 1,
    padding: Padding = "same",
    relu: bool = True,
    scale: bool = True,
    epsilon: float = 1e-5,
    decay: float = 0.9,
) -> Tensor:
    """Convolution without bias, batch normalization, and ReLU if asked (ResNet, Inception)."""
    x = keras.layers.Conv2D(filters, kernel, strides, padding, use_bias=False, kernel_initializer="he_normal")(x)
    x = FusedBatchNormalization(scale=scale, epsilon=epsilon, decay=decay)(x)
    return keras.layers.ReLU()(x) if relu else x


def dense_relu_dropout(x: Tensor, units: int, *, dropout: float = 0.5) -> Tensor:
    """Affine layer, ReLU, dropout: the two wide layers of AlexNet and VGG."""
    x = keras.layers.Dense(units, activation="relu", kernel_initializer="he_normal")(x)
    return keras.layers.Dropout(dropout)(x)


def logits(x: Tensor, num_classes: int) -> Tensor:
    """Final affine layer; its output is float32 under every precision: (B, num_classes)."""
    x = keras.layers.Dense(num_classes, kernel_initializer=keras.initializers.RandomNormal(stddev=0.01))(x)
    return keras.layers.Activation("linear", dtype="float32")(x)


class FusedBatchNormalization(keras.layers.Layer):
    """Batch normalization over channels-last images by TensorFlow's one fused op.

    Keras 3.15's own layer emits a dozen small ops instead. Statistics, gamma and beta are float32 under every precision.
    Images (B, H, W, C) -> (B, H, W, C).
    """

    def __init__(self, *, scale: bool, epsilon: float, decay: float) -> None:
        super().__init__()
        self.scale, self.epsilon, self.decay = scale, epsilon, decay

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        shape = (input_shape[-1],)

        def weight(name: str, initializer: str, trainable: bool) -> keras.Variable:
            return self.add_weight(
                shape=shape, initializer=initializer, trainable=trainable, name=name, dtype="float32", autocast=False
            )

        self.gamma = weight("gamma", "ones", True) if self.scale else None
        self.beta = weight("beta", "zeros", True)
        self.moving_mean = weight("moving_mean", "zeros", False)
        self.moving_variance = weight("moving_variance", "ones", False)

    def call(self, x: tf.Tensor, training: bool = False) -> tf.Tensor:
        gamma = tf.convert_to_tensor(self.gamma) if self.scale else tf.ones(x.shape[-1:], tf.float32)
        empty = tf.constant([], tf.float32)
        y, mean, variance, *_ = tf.raw_ops.FusedBatchNormV3(
            x=x,
            scale=gamma,
            offset=tf.convert_to_tensor(self.beta),
            mean=empty if training else tf.convert_to_tensor(self.moving_mean),
            variance=empty if training else tf.convert_to_tensor(self.moving_variance),
            epsilon=self.epsilon,
            is_training=training,
        )
        if training:
            # The op's variance divides by n - 1; Keras and the ancestor keep the one divided by n.
            n = tf.cast(tf.size(x) // x.shape[-1], tf.float32)
            self.moving_mean.assign(self.moving_mean * self.decay + mean * (1 - self.decay))
            self.moving_variance.assign(self.moving_variance * self.decay + variance * ((n - 1) / n) * (1 - self.decay))
        return y

    def compute_output_shape(self, input_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        return input_shape
