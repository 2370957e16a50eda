"""Layer normalization whose backward pass keeps one tensor, and is written out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import keras
import tensorflow as tf

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
