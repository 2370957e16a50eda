"""Layers of models of tokens, where Keras' own are slower, keep more memory, or are missing."""

import math
from collections.abc import Callable
from typing import Any, TypeAlias

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
        if self.is_causal:
            # made here, because a constant would be part of the graph in every layer
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
    scaled = x * math.sqrt(0.5)
    share = 0.5 * tf.math.erf(scaled) + 0.5

    def gradient(upstream: tf.Tensor) -> tf.Tensor:
        density = tf.exp(-tf.square(scaled))  # a single pass on CPU devices
        return upstream * (share + scaled * density * (1 / math.sqrt(math.pi)))

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
