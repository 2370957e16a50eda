"""Attention by scaled dot products, of which TensorFlow has no fused op."""

from __future__ import annotations

import math

import keras
import tensorflow as tf

from trainer.layers.dropout import Dropout

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
