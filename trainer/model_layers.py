"""Keras layers of ours, where Keras' own are slower, keep more memory, or are missing.

Max pooling has a backward pass that XLA compiles to plain loops: XLA's own gathers the place of
each maximum as four numbers, and scatters, 2.3 of 36 ms of a step of ResNet-50 on an H200. Of the
first pooling of ResNet-50 it takes six times as long as this on CPU devices. TensorFlow without XLA
has kernels that are faster than both.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

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
        if self.padding == "same":
            counts = [-(-x.shape[axis] // self.stride) for axis in self.axes]
        else:
            counts = [(x.shape[axis] - self.size) // self.stride + 1 for axis in self.axes]
        return _pooled(_Windows(self.size, self.stride, self.axes, counts), x)

    def compute_output_spec(self, x: keras.KerasTensor) -> keras.KerasTensor:
        pooled: keras.KerasTensor = keras.ops.max_pool(x, self.size, self.stride, self.padding)
        return pooled


@dataclass(frozen=True, slots=True)
class _Windows:
    """Square windows along two axes, so many along each."""

    size: int
    stride: int
    axes: tuple[int, int]
    counts: list[int]

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


def _pooled(windows: _Windows, x: tf.Tensor) -> tf.Tensor:
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
        kept, widths = [], [(0, 0)]
        for length in x.shape[1:3]:
            before, num_windows = self._windows(length)
            whole = stride * (num_windows + num_taps - 1)
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
        outputs = tf.nn.conv2d(x, kernel, 1, "VALID")
        if self.use_bias:
            bias = tf.cast(tf.convert_to_tensor(self.bias), x.dtype)
            outputs = tf.nn.bias_add(outputs, bias)
        activated: tf.Tensor = self.activation(outputs)
        return activated

    def _windows(self, length: int) -> tuple[int, int]:
        """Return how many pixels are added before a side of this length, and its windows."""
        (stride, _), (size, _) = self.strides, self.kernel_size
        if self.padding == "valid":
            return 0, (length - size) // stride + 1
        num = -(-length // stride)
        return max((num - 1) * stride + size - length, 0) // 2, num


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


# Added to the score of a position that must not be seen: its weight is 0, in float16, too.
_UNSEEN = -3e4


class Attention(keras.layers.Layer):
    """Queries, keys and values behind each other (B, S, 3 W) -> the heads' values (B, S, W).

    softmax(Q K^T / sqrt(W / heads)) V of each head (Vaswani et al. 2017). Its scores (B, heads, S,
    S) are tensors of their own: TensorFlow and Keras' TensorFlow backend have no flash attention,
    and XLA fuses scaling, masking and softmax, but not the two products.
    """

    def __init__(self, num_heads: int, *, is_causal: bool, dropout_rate: float) -> None:
        super().__init__()
        self.num_heads, self.is_causal = num_heads, is_causal
        self.dropout = Dropout(dropout_rate) if dropout_rate else None

    def call(self, x: tf.Tensor, training: bool = False) -> tf.Tensor:
        _, length, channels = x.shape
        width = channels // 3
        depth = width // self.num_heads
        # (B, S, 3 W) -> (3, B, heads, S, depth)
        parts = tf.transpose(tf.reshape(x, [-1, length, 3, self.num_heads, depth]), [2, 0, 3, 1, 4])
        queries, keys, values = tf.unstack(parts)
        queries *= tf.cast(1 / math.sqrt(depth), x.dtype)
        scores = tf.matmul(queries, keys, transpose_b=True)
        if (
            self.is_causal
        ):  # made here, because a constant would be part of the graph in every layer
            positions = tf.range(length)
            is_later = positions > positions[:, tf.newaxis]
            scores += tf.where(is_later, tf.constant(_UNSEEN, x.dtype), tf.constant(0, x.dtype))
        weights = tf.nn.softmax(scores)
        if self.dropout:
            weights = self.dropout(weights, training=training)
        heads = tf.transpose(tf.matmul(weights, values), [0, 2, 1, 3])
        return tf.reshape(heads, [-1, length, width])

    def compute_output_shape(self, input_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        *others, channels = input_shape
        assert channels is not None
        return (*others, channels // 3)


@tf.custom_gradient
def gelu(x: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
    """Return x * Phi(x), exact as in BERT (Hendrycks and Gimpel 2016).

    TensorFlow's own keeps more tensors for the backward pass, and takes more ops there.
    """
    share = 0.5 * tf.math.erf(x * math.sqrt(0.5)) + 0.5

    def gradient(upstream: tf.Tensor) -> tf.Tensor:
        density = tf.exp(-0.5 * tf.square(x)) * (1 / math.sqrt(2 * math.pi))
        return upstream * (share + x * density)

    return x * share, gradient


Gradients: TypeAlias = Callable[..., tuple[tf.Tensor, ...]]


class LayerNormalization(keras.layers.Layer):
    """Normalizes over the last axis, as Ba et al. 2016: (..., C) -> (..., C).

    Statistics, gamma and beta are float32 under every precision.
    """

    def __init__(self, epsilon: float) -> None:
        super().__init__()
        self.epsilon = epsilon

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        own: dict[str, Any] = {"shape": input_shape[-1:], "dtype": "float32", "autocast": False}
        self.gamma = self.add_weight(initializer="ones", name="gamma", **own)
        self.beta = self.add_weight(initializer="zeros", name="beta", **own)

    def call(self, x: tf.Tensor) -> tf.Tensor:
        gamma, beta = tf.convert_to_tensor(self.gamma), tf.convert_to_tensor(self.beta)
        normalized: tf.Tensor = _normalize(tf.cast(x, tf.float32), gamma, beta, self.epsilon)
        return tf.cast(normalized, x.dtype)


def _normalize(x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor, epsilon: float) -> tf.Tensor:
    @tf.custom_gradient
    def normalize(x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor) -> tuple[tf.Tensor, Gradients]:
        centered = x - tf.reduce_mean(x, -1, keepdims=True)
        variance = tf.reduce_mean(tf.square(centered), -1, keepdims=True)
        inverse = tf.math.rsqrt(variance + epsilon)
        unit = centered * inverse

        def gradients(upstream: tf.Tensor) -> tuple[tf.Tensor, ...]:
            positions = list(range(upstream.shape.rank - 1))
            of_gamma = tf.reduce_sum(upstream * unit, positions)
            of_beta = tf.reduce_sum(upstream, positions)
            of_unit = upstream * gamma
            mean = tf.reduce_mean(of_unit, -1, keepdims=True)
            mean_by_unit = tf.reduce_mean(of_unit * unit, -1, keepdims=True)
            of_x = (of_unit - mean - unit * mean_by_unit) * inverse
            return of_x, of_gamma, of_beta

        return unit * gamma + beta, gradients

    return normalize(x, gamma, beta)


class Embedding(keras.layers.Layer):
    """Looks up the vectors of tokens (B, S) int64 -> (B, S, W); `reverse` makes logits of them.

    The gradient of the lookup is a tensor of the table's shape: as indexed slices it would be put
    behind that of the logits, row by row, before both are summed. It is summed in float32 under
    every precision, for a frequent token has thousands of addends.
    """

    def __init__(self, num_symbols: int, width: int) -> None:
        super().__init__()
        self.num_symbols, self.width = num_symbols, width

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        self.table = _vectors(self, self.num_symbols, self.width)

    def call(self, x: tf.Tensor, reverse: bool = False) -> tf.Tensor:
        table = tf.convert_to_tensor(self.table)
        if not reverse:
            return tf.cast(_look_up(table, x), self.compute_dtype)
        table = tf.cast(table, self.compute_dtype)
        logits = tf.matmul(tf.reshape(x, [-1, self.width]), table, transpose_b=True)
        return tf.reshape(logits, [-1, x.shape[1], self.num_symbols])

    def compute_output_spec(self, x: keras.KerasTensor, reverse: bool = False) -> keras.KerasTensor:
        shape = (*x.shape[:-1], self.num_symbols) if reverse else (*x.shape, self.width)
        return keras.KerasTensor(shape, dtype=self.compute_dtype)


class AddPositions(keras.layers.Layer):
    """Adds a trained vector to each position: (B, S, W) -> (B, S, W)."""

    def __init__(self, num_vectors: int) -> None:
        super().__init__()
        self.num_vectors = num_vectors

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        self.vectors = _vectors(self, self.num_vectors, input_shape[-1])

    def call(self, x: tf.Tensor) -> tf.Tensor:
        return x + tf.cast(self.added(x.shape[1]), x.dtype)

    def added(self, length: int) -> tf.Tensor:
        return tf.convert_to_tensor(self.vectors)[:length]


class AddSegments(AddPositions):
    """Adds to each position the trained vector of its equal part of the sequence."""

    def added(self, length: int) -> tf.Tensor:
        segments = [position * self.num_vectors // length for position in range(length)]
        return _look_up(tf.convert_to_tensor(self.vectors), tf.constant(segments))


class ClassToken(keras.layers.Layer):
    """Puts a trained vector ahead of a sequence: (B, S, W) -> (B, S + 1, W)."""

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        self.vector = _vectors(self, 1, input_shape[-1])

    def call(self, x: tf.Tensor) -> tf.Tensor:
        vector = tf.cast(tf.convert_to_tensor(self.vector), x.dtype)
        return tf.concat([tf.broadcast_to(vector, [tf.shape(x)[0], *vector.shape]), x], 1)


class AddBias(keras.layers.Layer):
    """Adds a trained number to each channel."""

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        self.bias = self.add_weight(shape=input_shape[-1:], initializer="zeros", name="bias")

    def call(self, x: tf.Tensor) -> tf.Tensor:
        return tf.nn.bias_add(x, tf.convert_to_tensor(self.bias))


class Mask(keras.layers.Layer):
    """Replaces every so many tokens, from the first, by token 0: (B, S) -> (B, S)."""

    def __init__(self, every: int) -> None:
        super().__init__(dtype="int64")
        self.every = every

    def call(self, x: tf.Tensor) -> tf.Tensor:
        kept = [int(index % self.every > 0) for index in range(x.shape[1])]
        return x * tf.constant(kept, x.dtype)


def _vectors(layer: keras.layers.Layer, num: int, width: int | None) -> keras.Variable:
    """Make a table that is float32 under every precision."""
    return layer.add_weight(
        shape=(num, width),
        initializer=keras.initializers.RandomNormal(stddev=0.02),
        name="vectors",
        autocast=False,
    )


@tf.custom_gradient
def _look_up(
    table: tf.Tensor, indices: tf.Tensor
) -> tuple[tf.Tensor, Callable[[tf.Tensor], tuple[tf.Tensor, None]]]:
    def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, None]:
        return tf.math.unsorted_segment_sum(upstream, indices, table.shape[0]), None

    return tf.gather(table, indices), gradient


class Recomputed(keras.layers.Layer):
    """Calls a model, of which it keeps the input alone (Chen et al. 2016).

    Seeds are read before, so that dropout draws the same numbers both times.
    """

    def __init__(self, part: keras.Model) -> None:
        super().__init__()
        self.part = part

    def call(self, x: tf.Tensor) -> tf.Tensor:
        trained = list(map(tf.convert_to_tensor, self.part.trainable_variables))
        state = list(map(tf.convert_to_tensor, self.part.non_trainable_variables))
        new_states: list[Sequence[tf.Tensor]] = []

        def forward(x: tf.Tensor, trained: Sequence[tf.Tensor]) -> tf.Tensor:
            outputs, new_state = self.part.stateless_call(trained, state, x, training=True)
            new_states.append(new_state)
            return outputs

        outputs = _computed_again(forward, x, trained)
        for variable, value in zip(self.part.non_trainable_variables, new_states[0], strict=True):
            variable.assign(value)
        return outputs

    def compute_output_spec(self, x: keras.KerasTensor) -> keras.KerasTensor:
        return self.part.compute_output_spec(x)


def _computed_again(
    forward: Callable[[tf.Tensor, Sequence[tf.Tensor]], tf.Tensor],
    x: tf.Tensor,
    trained: Sequence[tf.Tensor],
) -> tf.Tensor:
    @tf.custom_gradient
    def call(
        x: tf.Tensor, *trained: tf.Tensor
    ) -> tuple[tf.Tensor, Callable[[tf.Tensor], Sequence[tf.Tensor]]]:
        def gradients(upstream: tf.Tensor) -> Sequence[tf.Tensor]:
            # The second pass has to wait for the gradient: started earlier, it would keep what it
            # is to save, and as the same ops on the same input it would be merged with the first.
            # XLA knows data alone to wait for.
            value = tf.reshape(upstream, [-1])[0]
            zero = tf.where(tf.math.is_nan(value), value, tf.zeros_like(value))
            later = x + tf.cast(zero, x.dtype)
            with tf.GradientTape() as tape:
                tape.watch([later, *trained])
                outputs = forward(later, trained)
            return tape.gradient(outputs, [later, *trained], upstream)

        return forward(x, trained), gradients

    return call(x, *trained)
