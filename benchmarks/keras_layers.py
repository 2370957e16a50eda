"""The layers that a user of Keras 3 would write models of scalemark/models/ with.

`use()` puts them in the place of the trainer's own, for the rest of the process.
"""

from __future__ import annotations

from types import ModuleType

import keras
from keras import ops

from trainer import image_layers, keras_model, sequence_layers


class Attention(keras.layers.Layer):
    """(B, S, 3 W) -> (B, S, W), as nanoGPT writes it, in Keras' ops."""

    def __init__(self, num_heads: int, *, is_causal: bool, dropout_rate: float) -> None:
        super().__init__()
        self.num_heads, self.is_causal = num_heads, is_causal
        self.dropout = keras.layers.Dropout(dropout_rate)

    def call(self, x: keras.KerasTensor, training: bool = False) -> keras.KerasTensor:
        _, length, channels = x.shape
        depth = channels // 3 // self.num_heads
        heads = [
            ops.transpose(ops.reshape(part, (-1, length, self.num_heads, depth)), (0, 2, 1, 3))
            for part in ops.split(x, 3, axis=-1)
        ]
        queries, keys, values = heads
        scores = ops.matmul(queries, ops.transpose(keys, (0, 1, 3, 2))) / depth**0.5
        if self.is_causal:
            scores = ops.where(ops.tril(ops.ones((length, length), "bool")), scores, -1e9)
        weights = self.dropout(ops.softmax(scores), training=training)
        joined = ops.transpose(ops.matmul(weights, values), (0, 2, 1, 3))
        return ops.reshape(joined, (-1, length, channels // 3))


class Embedding(keras.layers.Embedding):
    """Keras' own, whose table makes logits, too."""

    def __init__(self, num_symbols: int, width: int) -> None:
        super().__init__(
            num_symbols, width, embeddings_initializer=keras.initializers.RandomNormal(stddev=0.02)
        )

    def call(self, x: keras.KerasTensor, reverse: bool = False) -> keras.KerasTensor:
        if reverse:
            return ops.matmul(x, ops.transpose(self.embeddings))
        return super().call(x)

    def compute_output_spec(self, x: keras.KerasTensor, reverse: bool = False) -> keras.KerasTensor:
        shape = (*x.shape[:-1], self.input_dim) if reverse else (*x.shape, self.output_dim)
        return keras.KerasTensor(shape, dtype=self.compute_dtype)


def use() -> None:
    """Build models of these from now on, in this process."""
    _replace(image_layers, "FusedBatchNormalization", _batch_normalization)
    _replace(sequence_layers, "Embedding", Embedding)
    _replace(keras_model, "LayerNormalization", _layer_normalization)
    _replace(keras_model, "Dropout", keras.layers.Dropout)
    _replace(keras_model, "Attention", Attention)
    _replace(keras_model, "gelu", "gelu")


def _replace(module: ModuleType, name: str, by: object) -> None:
    """Raises AttributeError where the trainer has no such name any more."""
    getattr(module, name)
    setattr(module, name, by)


def _batch_normalization(*, scale: bool, epsilon: float, decay: float) -> keras.layers.Layer:
    return keras.layers.BatchNormalization(scale=scale, epsilon=epsilon, momentum=decay)


def _layer_normalization(epsilon: float) -> keras.layers.Layer:
    return keras.layers.LayerNormalization(epsilon=epsilon)
