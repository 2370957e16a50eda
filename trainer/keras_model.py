"""Makes a Keras model of a definition, and holds it with what training it needs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias, assert_never

import keras
import tensorflow as tf

from scalemark import layers as nn
from scalemark import models
from scalemark.records.machine import DeviceKind
from scalemark.records.measurement import IMAGES
from scalemark.records.trial import TrialSpec
from trainer import UnsupportedTrialError, convolutions, image_layers, sequence_layers
from trainer.recomputed import Recomputed
from trainer.sequence_layers import Attention, Dropout, LayerNormalization, gelu

WHOLE_NUMBERS = tf.int64
"""The type of labels and of our models' tokens: tensors of int32 live on a GPU's host, and are
copied back from real data in each step.
"""

Loss: TypeAlias = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]
"""(labels, outputs) of a batch -> mean loss, float32 scalar."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One example of a batch: what the model takes, and what its outputs are compared with."""

    input_shape: tuple[int, ...]
    input_dtype: str = "float32"
    num_symbols: int = 0  # inputs are the whole numbers below it; 0 = real numbers
    label_shape: tuple[int, ...] = ()
    num_classes: int = 0  # labels are the whole numbers below it; 0 = real numbers from 0 to 1

    @classmethod
    def of(cls, spec: TrialSpec) -> "Example":
        """Return that of the trial's model. Raises UnsupportedTrialError."""
        return cls.of_model(definition(spec), spec)

    @classmethod
    def of_model(cls, logits: nn.Tensor, spec: TrialSpec) -> "Example":
        """Return that of a model of ours: an image and its class, or tokens and those to guess."""
        if not models.takes_tokens(logits):
            return cls(input_shape=(spec.image_px, spec.image_px, 3), num_classes=spec.num_classes)
        *positions, num_symbols = logits.shape
        return cls(
            input_shape=(spec.seq_len,),
            input_dtype=WHOLE_NUMBERS.name,
            num_symbols=num_symbols,
            label_shape=tuple(positions),
            num_classes=num_symbols,
        )


def definition(spec: TrialSpec) -> nn.Tensor:
    """Return the logits of the trial's model, one of ours. Raises UnsupportedTrialError."""
    try:
        return models.define(
            spec.model, image_px=spec.image_px, seq_len=spec.seq_len, num_classes=spec.num_classes
        )
    except models.ModelError as error:
        raise UnsupportedTrialError(str(error)) from None


def cross_entropy(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """Labels (B, ...) int64 and logits (B, ..., num_classes) float32 -> mean loss."""
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """A model that is traced once and called once per replica, on values of its variables."""

    model: keras.Model
    example: Example
    loss: Loss = cross_entropy
    item: str = IMAGES  # what throughput counts
    items_per_example: int = 1


Built: TypeAlias = keras.KerasTensor


class Kernels(Enum):
    """Whose kernels run a model: it takes layers that it is faster with."""

    ANY = "any"
    XLA = "XLA's"
    CPU = "those of CPU devices, in float32"

    @classmethod
    def of(cls, spec: TrialSpec) -> "Kernels":
        """Return those of a trial, once its precision is set."""
        if spec.xla == "on":
            return cls.XLA
        is_plain = keras.config.dtype_policy().name == "float32" and spec.xla == "off"
        if is_plain and spec.device_kind == DeviceKind.CPU_DEVICE and spec.data_format == "NHWC":
            return cls.CPU
        return cls.ANY


def build(
    logits: nn.Tensor, *, recompute: bool = False, kernels: Kernels = Kernels.ANY
) -> keras.Model:
    """Build a model: images (B, image_px, image_px, 3) or tokens (B, seq_len) -> logits float32.

    Layers are made in the order of the description, so that equal seeds give equal weights, in
    Keras' current data format and precision. With `recompute` what lies between two `kept` is
    computed again in the backward pass.
    """
    network = nn.network_of(logits)
    dtype = WHOLE_NUMBERS.name if models.takes_tokens(logits) else None
    inputs = keras.Input(network[0].shape, dtype=dtype)
    built: dict[nn.Tensor, Built] = {}
    tables: dict[nn.Tensor, sequence_layers.Embedding] = {}
    for part in _parts(network) if recompute else [network]:
        if part[0].layer is nn.Plain.KEPT and part[-1] is not logits:
            begin = built[part[0].inputs[0]]
            inner = keras.Input(begin.shape[1:], dtype=begin.dtype)
            ours = {part[0]: inner}
            _build(part[1:], ours, tables, inner, kernels)
            built[part[-1]] = Recomputed(keras.Model(inner, ours[part[-1]]))(begin)
        else:
            _build(part, built, tables, inputs, kernels)
    return keras.Model(inputs, keras.layers.Activation("linear", dtype="float32")(built[logits]))


def _parts(network: Sequence[nn.Tensor]) -> list[list[nn.Tensor]]:
    """Cut before each `kept`."""
    parts: list[list[nn.Tensor]] = [[]]
    for tensor in network:
        if tensor.layer is nn.Plain.KEPT:
            parts.append([])
        parts[-1].append(tensor)
    return parts


def _build(
    network: Sequence[nn.Tensor],
    built: dict[nn.Tensor, Built],
    tables: dict[nn.Tensor, sequence_layers.Embedding],
    inputs: Built,
    kernels: Kernels,
) -> None:
    """Add the outputs of layers to `built`, and embeddings to `tables`; the first has `inputs`."""
    for tensor in network:
        match tensor.layer:
            case nn.Embed() as layer:
                tables[tensor] = sequence_layers.Embedding(layer.num_symbols, layer.width)
                built[tensor] = tables[tensor](built[tensor.inputs[0]])
            case nn.TiedLogits():
                x, table = tensor.inputs
                built[tensor] = tables[table](built[x], reverse=True)
            case nn.Pool(kind="max") as layer if kernels is Kernels.XLA:
                pooling = image_layers.MaxPooling(layer.size, layer.strides, layer.padding)
                built[tensor] = pooling(built[tensor.inputs[0]])
            case nn.Conv() as layer if kernels is Kernels.XLA and _takes_strided_images(tensor):
                convolution = _convolution(layer, convolutions.SpaceToDepthConvolution)
                built[tensor] = convolution(built[tensor.inputs[0]])
            case nn.Conv(depthwise=False) as layer if kernels is Kernels.CPU:
                built[tensor] = _convolution(layer, convolutions.ConvolutionByProduct)(
                    built[tensor.inputs[0]]
                )
            case nn.Dense() as layer if kernels is Kernels.CPU:
                built[tensor] = _dense(layer, convolutions.DenseByProduct)(built[tensor.inputs[0]])
            case _:
                given = [built[each] for each in tensor.inputs] or [inputs]
                built[tensor] = _apply(tensor.layer, given)


def _apply(layer: nn.Layer, inputs: list[Built]) -> Built:
    x = inputs[0]
    match layer:
        case nn.Plain():
            return _apply_plain(layer, inputs)
        case nn.Conv():
            return _convolution(layer)(x)
        case nn.BatchNorm():
            return image_layers.FusedBatchNormalization(
                scale=layer.scale, epsilon=layer.epsilon, decay=layer.decay
            )(x)
        case nn.Pool(kind="max"):
            return keras.layers.MaxPooling2D(layer.size, layer.strides, layer.padding)(x)
        case nn.Pool():
            return keras.layers.AveragePooling2D(layer.size, layer.strides, layer.padding)(x)
        case nn.PadChannels():
            axis = image_layers.channel_axis()
            widths = [(0, 0)] * 4
            widths[axis] = (0, layer.channels - x.shape[axis])
            return keras.ops.pad(x, widths)
        case nn.Dense():
            return _dense(layer)(x)
        case nn.DropoutLayer():
            return Dropout(layer.rate)(x)
        case nn.Masked():
            return sequence_layers.Mask(layer.every)(x)
        case nn.Every():
            return x[:, :: layer.every]
        case nn.Positions():
            return sequence_layers.AddPositions(layer.num_positions)(x)
        case nn.Segments():
            return sequence_layers.AddSegments(layer.num_segments)(x)
        case nn.LayerNorm():
            return LayerNormalization(layer.epsilon)(x)
        case nn.Attend():
            return Attention(
                layer.num_heads, is_causal=layer.is_causal, dropout_rate=layer.dropout_rate
            )(x)
        case nn.Embed() | nn.TiedLogits():
            raise AssertionError("they share a table, and are built together")
        case unknown:
            assert_never(unknown)


def _apply_plain(layer: nn.Plain, inputs: list[Built]) -> Built:
    x = inputs[0]
    match layer:
        case nn.Plain.IMAGES:
            # as in tf_cnn_benchmarks, channels-last images are transposed on the device
            if image_layers.channel_axis() == 1:
                x = keras.layers.Permute((3, 1, 2))(x)
            return x
        case nn.Plain.RELU:
            return keras.layers.ReLU()(x)
        case nn.Plain.GLOBAL_MEAN:
            return keras.layers.GlobalAveragePooling2D()(x)
        case nn.Plain.ADD:
            return keras.layers.add(inputs)
        case nn.Plain.CONCAT:
            return keras.layers.concatenate(inputs, axis=image_layers.channel_axis())
        case nn.Plain.FLATTEN:
            return keras.layers.Flatten()(x)
        case nn.Plain.TOKENS | nn.Plain.KEPT:
            return x
        case nn.Plain.IN_A_ROW:
            if image_layers.channel_axis() == 1:
                x = keras.layers.Permute((2, 3, 1))(x)
            return keras.layers.Reshape((-1, x.shape[-1]))(x)
        case nn.Plain.CLASS_TOKEN:
            return sequence_layers.ClassToken()(x)
        case nn.Plain.FIRST:
            return x[:, 0]
        case nn.Plain.BIAS:
            return sequence_layers.AddBias()(x)
        case unknown:
            assert_never(unknown)


def _takes_strided_images(tensor: nn.Tensor) -> bool:
    """Return whether it convolves images (B, H, W, 3) by strides, with windows of 7 x 7 or more
    that overlap.
    """
    layer = tensor.layer
    assert isinstance(layer, nn.Conv)
    has_images = tensor.inputs[0].layer is nn.Plain.IMAGES and image_layers.channel_axis() == -1
    rows, columns = layer.kernel
    return has_images and rows == columns >= 7 and 1 < layer.strides < rows


def _convolution(
    layer: nn.Conv, kind: type[keras.layers.Conv2D] = keras.layers.Conv2D
) -> keras.Layer:
    windows = layer.kernel, layer.strides, layer.padding
    after = {"activation": layer.activation, "use_bias": layer.bias}
    if layer.depthwise:
        initial = {"depthwise_initializer": "he_normal"}
        return keras.layers.DepthwiseConv2D(*windows, **after, **initial)
    return kind(layer.filters, *windows, **after, kernel_initializer="he_normal")


def _dense(layer: nn.Dense, kind: type[keras.layers.Dense] = keras.layers.Dense) -> keras.Layer:
    initial = layer.initial
    if not isinstance(initial, str):
        initial = keras.initializers.RandomNormal(stddev=initial)
    activation = gelu if layer.activation == "gelu" else layer.activation
    return kind(layer.units, activation=activation, kernel_initializer=initial)
