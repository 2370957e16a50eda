"""Layers around the blocks of a transformer: vectors of tokens, positions and segments, logits."""

from __future__ import annotations

from collections.abc import Callable

import keras
import tensorflow as tf


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

    def __init__(self, num_positions: int) -> None:
        super().__init__()
        self.num_positions = num_positions

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        self.vectors = _vectors(self, self.num_positions, input_shape[-1])

    def call(self, x: tf.Tensor) -> tf.Tensor:
        return x + tf.cast(tf.convert_to_tensor(self.vectors)[: x.shape[1]], x.dtype)


class AddSegments(keras.layers.Layer):
    """Adds to each position the trained vector of its equal part of the sequence."""

    def __init__(self, num_segments: int) -> None:
        super().__init__()
        self.num_segments = num_segments

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        self.vectors = _vectors(self, self.num_segments, input_shape[-1])

    def call(self, x: tf.Tensor) -> tf.Tensor:
        length = x.shape[1]
        segments = [position * self.num_segments // length for position in range(length)]
        added = _look_up(tf.convert_to_tensor(self.vectors), tf.constant(segments))
        return x + tf.cast(added, x.dtype)


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
