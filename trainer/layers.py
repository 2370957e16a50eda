"""Building blocks the models share: convolution with batch normalization, classifier head."""

from __future__ import annotations

from typing import TypeAlias

import keras
import tensorflow as tf

Tensor: TypeAlias = keras.KerasTensor
Padding = str  # "same" or "valid"


def image_input(image_px: int) -> tuple[Tensor, Tensor]:
    """The model's input (B, image_px, image_px, 3), and the same as its first layer takes it.

    Pictures come channels-last; with channels first they are transposed on the device, as in
    tf_cnn_benchmarks.
    """
    images = keras.Input((image_px, image_px, 3))
    return images, keras.layers.Permute((3, 1, 2))(
        images
    ) if keras.config.image_data_format() == "channels_first" else images


def channel_axis() -> int:
    """Of a batch of images in the data format that the model is built in."""
    return 1 if keras.config.image_data_format() == "channels_first" else -1


def conv(
    x: Tensor,
    filters: int,
    kernel: int | tuple[int, int],
    *,
    strides: int = 1,
    padding: Padding = "same",
) -> Tensor:
    """Convolution with bias and ReLU, without normalization (AlexNet, VGG)."""
    return keras.layers.Conv2D(
        filters, kernel, strides, padding, activation="relu", kernel_initializer="he_normal"
    )(x)


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
    x = keras.layers.Conv2D(
        filters, kernel, strides, padding, use_bias=False, kernel_initializer="he_normal"
    )(x)
    x = FusedBatchNormalization(scale=scale, epsilon=epsilon, decay=decay)(x)
    return keras.layers.ReLU()(x) if relu else x


def dense_relu_dropout(x: Tensor, units: int, *, dropout: float = 0.5) -> Tensor:
    """Affine layer, ReLU, dropout: the two wide layers of AlexNet and VGG."""
    x = keras.layers.Dense(units, activation="relu", kernel_initializer="he_normal")(x)
    return keras.layers.Dropout(dropout)(x)


def logits(x: Tensor, num_classes: int) -> Tensor:
    """Final affine layer; its output is float32 under every precision: (B, num_classes)."""
    x = keras.layers.Dense(
        num_classes, kernel_initializer=keras.initializers.RandomNormal(stddev=0.01)
    )(x)
    return keras.layers.Activation("linear", dtype="float32")(x)


class FusedBatchNormalization(keras.layers.Layer):
    """Batch normalization of images by TensorFlow's one fused op, in Keras' current image data
    format.

    Keras 3.15's own layer emits a dozen small ops instead. Statistics, gamma and beta are float32
    under every precision. Images (B, H, W, C) or (B, C, H, W) -> the same shape.
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
        empty = tf.constant([], tf.float32)
        y, mean, variance, *_ = tf.raw_ops.FusedBatchNormV3(
            x=x,
            scale=gamma,
            offset=tf.convert_to_tensor(self.beta),
            mean=empty if training else tf.convert_to_tensor(self.moving_mean),
            variance=empty if training else tf.convert_to_tensor(self.moving_variance),
            epsilon=self.epsilon,
            data_format="NCHW" if self.axis == 1 else "NHWC",
            is_training=training,
        )
        if training:
            # The op's variance divides by n - 1; Keras and the ancestor keep the one divided by n.
            n = tf.cast(tf.size(x) // channels, tf.float32)
            share = (1 - self.decay) * (n - 1) / n
            self.moving_mean.assign(self.moving_mean * self.decay + mean * (1 - self.decay))
            self.moving_variance.assign(self.moving_variance * self.decay + variance * share)
        return y

    def compute_output_shape(self, input_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        return input_shape
