"""The Gaussian error linear unit, x times the normal distribution's share below x."""

from __future__ import annotations

import math
from collections.abc import Callable

import tensorflow as tf


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
