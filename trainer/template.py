"""Holds a Keras model with what training it needs: its loss, its examples, and what is counted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import keras
import tensorflow as tf

from scalemark import models
from scalemark.layers import Tensor
from scalemark.records.measurement import IMAGES
from scalemark.records.trial import TrialSpec
from trainer.errors import UnsupportedTrialError

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
    def of(cls, spec: TrialSpec) -> Example:
        """Return that of the trial's model. Raises UnsupportedTrialError."""
        return cls.of_model(definition(spec), spec)

    @classmethod
    def of_model(cls, logits: Tensor, spec: TrialSpec) -> Example:
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


def definition(spec: TrialSpec) -> Tensor:
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
