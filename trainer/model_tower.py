"""One tower: the model forward and backward on one batch, to gradients that are ready to be summed.

```
  inputs, labels ──► passes, one per micro-batch ──► gradients ──► divided, unscaled, decay added
```
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from functools import partial

import keras
import tensorflow as tf

from scalemark.abilities import OPTIMIZERS
from scalemark.records.trial import TrialSpec
from trainer import micro_batches, small_tensors
from trainer.input import image_records
from trainer.template import Template


class ModelTower:
    """The tower of a trial's model, the same on every replica."""

    def __init__(self, spec: TrialSpec, template: Template, num_summed: int) -> None:
        """`num_summed` is how many replicas' gradients are summed into one."""
        self._template = template
        self._num_summed, self._num_passes = num_summed, spec.gradient_accumulation
        self._weight_decay = 0.0  # in the gradients
        if not OPTIMIZERS[spec.optimizer].decouples_decay:
            self._weight_decay = spec.weight_decay / num_summed

    def run(
        self,
        weights: list[tf.Tensor],
        state: list[tf.Tensor],
        inputs: tf.Tensor,
        labels: tf.Tensor,
        *scale: tf.Tensor,
    ) -> tuple[tf.Tensor, list[tf.Tensor], list[tf.Tensor]]:
        """Compute gradients that are ready to be summed: divided, decay included, not scaled.

        `scale` is the loss scale, float32 scalar, where there is one.
        """
        share = 1.0 / (self._num_summed * self._num_passes)
        loss, gradients, new_state = micro_batches.accumulated(
            partial(self._pass, scale[0] * share if scale else share),
            self._num_passes,
            weights,
            state,
            inputs,
            labels,
        )
        if scale or self._weight_decay:
            # one that is summed over replicas is sent as soon as it is there, and waits for none
            each = small_tensors.elementwise if self._num_summed == 1 else map
            gradients = list(each(partial(self._finished, scale), gradients, weights))
        return loss, gradients, new_state

    def _pass(
        self,
        share: tf.Tensor | float,
        weights: list[tf.Tensor],
        state: list[tf.Tensor],
        inputs: tf.Tensor,
        labels: tf.Tensor,
    ) -> micro_batches.Pass:
        """Take one batch forward and backward; its gradients are multiplied by `share`."""
        inputs = image_records.normalized(inputs, self._template.example.input_dtype)
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(weights)
            model = self._template.model
            outputs, new_state, added = model.stateless_call(
                weights, state, inputs, return_losses=True, **_training_argument(model)
            )
            loss = self._template.loss(labels, outputs)
            for regularization in added:
                loss += tf.cast(tf.reduce_sum(regularization), tf.float32)
        found = tape.gradient(
            loss,
            weights,
            output_gradients=share,
            unconnected_gradients=tf.UnconnectedGradients.ZERO,
        )
        return loss, [_dense(*pair) for pair in zip(found, weights, strict=True)], new_state

    def _finished(
        self, scale: Sequence[tf.Tensor], gradient: tf.Tensor, weight: tf.Tensor
    ) -> tf.Tensor:
        """Undo the loss scale, and add the gradient of the L2 loss, only now: else all products are
        made early and held.
        """
        if scale:
            gradient /= scale[0]
        if self._weight_decay:
            with tf.control_dependencies([gradient]):
                gradient += self._weight_decay * weight
        return gradient


def _training_argument(model: keras.Model) -> dict[str, bool]:
    """Return `training=True` where the model's call takes it."""
    parameters = inspect.signature(model.call).parameters.values()
    takes_any = any(each.kind is each.VAR_KEYWORD for each in parameters)
    return {"training": True} if takes_any or "training" in {p.name for p in parameters} else {}


def _dense(gradient: tf.Tensor | tf.IndexedSlices, weight: tf.Tensor) -> tf.Tensor:
    """Return the gradient of a lookup as a tensor of the shape of its table, ready to be summed."""
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    return tf.math.unsorted_segment_sum(gradient.values, gradient.indices, weight.shape[0])
