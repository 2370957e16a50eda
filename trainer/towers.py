"""Explicit towers: one model traced once, called once per replica, between reading variables and updating them.

```
          read(i)            tower on replica i             update(gradients)
  variables ──────► weights ─────────────────► gradients ─────────────────────► variables
  (placed by the variable update)    loss      (met by the all-reduce, applied by the optimizer)
```
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import keras
import numpy as np
import tensorflow as tf

from store.records import DeviceKind
from trainer.devices import Devices

Batch = tuple[tf.Tensor, tf.Tensor]  # images (B, H, W, 3) float32, labels (B,) int32


class VariableUpdate(Protocol):
    """A way of sharing the trainable variables among replicas."""

    update_devices: tuple[str, ...]  # where update ops must be found afterwards
    reduction_devices: tuple[str, ...]  # where gradients must be found summed; empty = nowhere
    reduction_op: str  # the type of op that must have summed them

    def read(self, replica: int) -> list[tf.Tensor]:
        """The weights on the device of that replica, one tensor per trainable variable."""

    def update(self, gradients: Sequence[Sequence[tf.Tensor]]) -> None:
        """Apply one step; gradients[replica][variable], each on its replica's device."""

    def weights(self, replica: int) -> list[np.ndarray]:
        """What that replica will read next, for comparison and checkpoints."""


class Optimizer(Protocol):
    """An update rule: the slots beside a variable, and the op that applies a gradient."""

    def create_slots(self, variable: tf.Variable) -> list[tf.Variable]: ...

    def apply(self, variable: tf.Variable, slots: list[tf.Variable], gradient: tf.Tensor) -> None: ...


class AllReduce(Protocol):
    """A way of averaging the replicas' copies of one gradient."""

    REDUCTION_OP: str  # the type of op that sums, in the name scope `reduce`

    def average(self, gradients: Sequence[tf.Tensor], index: int, devices: Devices) -> list[tf.Tensor]:
        """One tensor per replica in, their average on every replica out; index = position of the variable."""

    def reduction_devices(self, devices: Devices) -> tuple[str, ...]: ...


class Input(Protocol):
    """A source of batches.

    One call of the training function takes K = steps_per_execution batches per replica.
    """

    def next(self) -> list[Batch]:
        """What one call takes, per replica and on its device; blocks until it is there.

        With K > 1 both tensors have a leading dimension K, unless the source gives the same batch in every step.
        """

    def at(self, batches: list[Batch], index: tf.Tensor) -> list[Batch]:
        """Inside the training function: what step `index` (int32, 0..K-1) of a call takes. Used only with K > 1."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A variable with its optimizer slots, together on one device."""

    variable: tf.Variable
    slots: list[tf.Variable]

    @classmethod
    def create(cls, value: np.ndarray, device: str, optimizer: Optimizer) -> Placed:
        with tf.device(device):
            variable = tf.Variable(value, dtype=tf.float32)
            return cls(variable, optimizer.create_slots(variable))

    def apply(self, gradient: tf.Tensor, optimizer: Optimizer) -> None:
        """Update in place, on the variable's own device."""
        with tf.device(self.variable.device), tf.name_scope("update"):
            optimizer.apply(self.variable, self.slots, gradient)


class StepFunction(Protocol):
    """A tf.function: one training step of all replicas. Batches in, mean loss out, float32 scalar."""

    def __call__(self, batches: list[Batch], /) -> tf.Tensor: ...

    def get_concrete_function(self, batches: list[Batch], /) -> object:
        """Trace it without running it."""


class Towers:
    """The training step of a model over the devices of a trial."""

    def __init__(self, model: keras.Model, update: VariableUpdate, devices: Devices) -> None:
        self._model, self._update, self._devices = model, update, devices
        self._state = [self._copy_state(replica, device) for replica, device in enumerate(devices.replicas)]
        # Not inlined, the tower's graph is compiled once instead of once per replica: half the start-up time on CPU.
        # On GPUs it would hand over all gradients at once and forbid reducing them during the backward pass.
        inline = {} if devices.kind is DeviceKind.GPU else {"experimental_attributes": {"_noinline": True}}
        self._tower = tf.function(self._tower_body, **inline)
        self.step: StepFunction = tf.function(self._step_body)

    def state(self, replica: int) -> list[np.ndarray]:
        """Non-trainable values of a replica: batch statistics and dropout seeds."""
        return [variable.numpy() for variable in self._state[replica]]

    def _copy_state(self, replica: int, device: str) -> list[tf.Variable]:
        """Each replica has its own batch statistics, and its own dropout seed."""
        seeds = {id(generator.state) for generator in _seed_generators(self._model)}
        with tf.device(device):
            return [
                tf.Variable(np.asarray(variable) + (replica if id(variable) in seeds else 0), dtype=variable.dtype)
                for variable in self._model.non_trainable_variables
            ]

    def _tower_body(
        self, weights: list[tf.Tensor], state: list[tf.Tensor], images: tf.Tensor, labels: tf.Tensor
    ) -> tuple[tf.Tensor, list[tf.Tensor], list[tf.Tensor]]:
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(weights)
            logits, new_state = self._model.stateless_call(weights, state, images, training=True)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
        return loss, tape.gradient(loss, weights), new_state

    def _step_body(self, batches: list[Batch]) -> tf.Tensor:
        """Images (B, H, W, 3) float32 and labels (B,) int32 per replica -> mean loss, float32 scalar."""
        losses, gradients = [], []
        for replica, (device, (images, labels)) in enumerate(zip(self._devices.replicas, batches, strict=True)):
            weights = self._update.read(replica)
            with tf.device(device), tf.name_scope(f"tower_{replica}"):
                state = [variable.read_value() for variable in self._state[replica]]
                loss, tower_gradients, new_state = self._tower(weights, state, tf.identity(images), tf.identity(labels))
                for variable, value in zip(self._state[replica], new_state, strict=True):
                    variable.assign(value)
            losses.append(loss)
            gradients.append(tower_gradients)
        self._update.update(gradients)
        with tf.device(self._devices.host):
            return tf.add_n(losses) / len(losses)


def _seed_generators(model: keras.Model) -> list[keras.random.SeedGenerator]:
    return [layer.seed_generator for layer in model.layers if isinstance(layer, keras.layers.Dropout)]
