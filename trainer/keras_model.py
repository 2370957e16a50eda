"""Makes a Keras model of a definition in the language of `scalemark.layers`."""

from __future__ import annotations

from typing import TypeAlias, assert_never

import keras

from scalemark import layers as nn
from scalemark.layers import Plain, Tensor, network_of
from trainer.fused_batch_normalization import FusedBatchNormalization

Built: TypeAlias = keras.KerasTensor


def build(logits: Tensor) -> keras.Model:
    """Build a model: images (B, image_px, image_px, 3) -> logits (B, num_classes) float32.

    Layers are made in the order of the description, so that equal seeds give equal weights, in
    Keras' current data format and precision.
    """
    network = network_of(logits)
    images = keras.Input(network[0].shape)
    built: dict[Tensor, Built] = {}
    for tensor in network:
        built[tensor] = _apply(tensor.layer, [built[one] for one in tensor.inputs] or [images])
    return keras.Model(images, keras.layers.Activation("linear", dtype="float32")(built[logits]))


def _apply(layer: nn.Layer, inputs: list[Built]) -> Built:
    x = inputs[0]
    match layer:
        case Plain.IMAGES:
            return _in_data_format(x)
        case nn.Conv():
            return _convolution(layer)(x)
        case nn.BatchNorm():
            return FusedBatchNormalization(
                scale=layer.scale, epsilon=layer.epsilon, decay=layer.decay
            )(x)
        case Plain.RELU:
            return keras.layers.ReLU()(x)
        case nn.Pool(kind="max"):
            return keras.layers.MaxPooling2D(layer.size, layer.strides, layer.padding)(x)
        case nn.Pool():
            return keras.layers.AveragePooling2D(layer.size, layer.strides, layer.padding)(x)
        case Plain.GLOBAL_MEAN:
            return keras.layers.GlobalAveragePooling2D()(x)
        case Plain.ADD:
            return keras.layers.add(inputs)
        case Plain.CONCAT:
            return keras.layers.concatenate(inputs, axis=_channel_axis())
        case nn.PadChannels():
            return _padded(x, layer.channels)
        case Plain.FLATTEN:
            return keras.layers.Flatten()(x)
        case nn.Dense():
            return _dense(layer)(x)
        case nn.Dropout():
            return keras.layers.Dropout(layer.rate)(x)
        case unknown:
            assert_never(unknown)


def _convolution(layer: nn.Conv) -> keras.Layer:
    if layer.depthwise:
        return keras.layers.DepthwiseConv2D(
            layer.kernel,
            layer.strides,
            layer.padding,
            activation=layer.activation,
            use_bias=layer.bias,
            depthwise_initializer="he_normal",
        )
    return keras.layers.Conv2D(
        layer.filters,
        layer.kernel,
        layer.strides,
        layer.padding,
        activation=layer.activation,
        use_bias=layer.bias,
        kernel_initializer="he_normal",
    )


def _dense(layer: nn.Dense) -> keras.Layer:
    initial = layer.initial
    if not isinstance(initial, str):
        initial = keras.initializers.RandomNormal(stddev=initial)
    return keras.layers.Dense(layer.units, activation=layer.activation, kernel_initializer=initial)


def _padded(x: Built, channels: int) -> Built:
    axis = _channel_axis()
    widths = [(0, 0)] * 4
    widths[axis] = (0, channels - x.shape[axis])
    return keras.ops.pad(x, widths)


def _in_data_format(images: Built) -> Built:
    """Transpose channels-last images on the device where wanted, as in tf_cnn_benchmarks."""
    if _channel_axis() == 1:
        return keras.layers.Permute((3, 1, 2))(images)
    return images


def _channel_axis() -> int:
    return 1 if keras.config.image_data_format() == "channels_first" else -1
