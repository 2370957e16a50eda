"""Holds a Keras model with what training it needs: its loss, its examples, and what is counted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import keras
import tensorflow as tf

from scalemark.records.measurement import IMAGES
from scalemark.records.trial import TrialSpec

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
    def of(cls, spec: TrialSpec) -> Example:
        """Return that of our models: an image, and its class."""
        return cls(
            input_shape=(spec.image_px, spec.image_px, 3),
            num_classes=spec.num_classes,
        )


def cross_entropy(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """Labels (B,) int32 and logits (B, num_classes) float32 -> mean loss."""
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """A model that is traced once and called once per replica, on values of its variables."""

    model: keras.Model
    example: Example
    loss: Loss = cross_entropy
    item: str = IMAGES  # what throughput counts
    items_per_example: int = 1
