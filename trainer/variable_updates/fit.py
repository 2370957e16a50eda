"""Keras' own way: `Model.fit`, under MirroredStrategy where there are several replicas.

Its loop takes the steps, and a list of callbacks times them from outside: batches come from a
tf.data.Dataset, and Keras' optimizer updates. Weights, batches and loss are those of other modes.
"""

from scalemark.abilities import Sends, VariableUpdateAbilities

ABILITIES = VariableUpdateAbilities(
    local_parameter_devices=("gpu",),
    all_reduces=("collective",),
    why="Model.fit leaves that to tf.distribute.MirroredStrategy",
    sends=Sends.UNKNOWN,
    in_your_code={"": "model.fit(), the model made in tf.distribute.MirroredStrategy().scope()"},
    has_own_loop=True,
    only={
        "xla": "off",
        "loss_scale": "none",
        "gradient_accumulation": 1,
        "steps_per_execution": 1,  # Keras 3.15 fails with more of them under MirroredStrategy
        "learning_rate_warm_up": 0,
        "data": "synthetic",
        "profile": False,
        "replica_times": False,
    },
)

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from scalemark.abilities import OPTIMIZERS
from scalemark.records.machine import DeviceKind
from scalemark.records.trial import TrialSpec
from trainer.devices import Devices
from trainer.keras_model import WHOLE_NUMBERS, Template
from trainer.measured import StepClock
from trainer.model_tower import Batch, LossScale
from trainer.towers import Placed, load
from trainer.variable_updates import mirrored


def scope(devices: Devices) -> Any:
    """Return where the model is made."""
    # as users have it: the host computes what a GPU cannot
    tf.config.set_soft_device_placement(True)
    if len(devices.replicas) == 1:
        return tf.device(_place(devices))
    return mirrored.strategy(devices, None).scope()


def create(spec: TrialSpec, template: Template, devices: Devices) -> "Fit":
    """Compile the model, in the `scope` where it was made."""
    optimizer: keras.Optimizer = load("optimizers", spec.optimizer).of_keras(spec)
    if spec.weight_decay and not OPTIMIZERS[spec.optimizer].decouples_decay:
        _add_decay(optimizer, spec.weight_decay)
    optimizer.build(template.model.trainable_variables)
    template.model.compile(optimizer, _MeanLoss(template), jit_compile=False, auto_scale_loss=False)
    return Fit(template.model, devices)


class Fit:
    """A compiled model, and Keras' loop that trains it."""

    # Keras' own ops, which are not known by their names
    update_devices: tuple[str, ...] = ()
    reduction_devices: tuple[str, ...] = ()
    reduction_ops: tuple[str, ...] = ()

    def __init__(self, model: keras.Model, devices: Devices) -> None:
        self._model, self._devices = model, devices
        self.num_summed = len(devices.replicas)
        self.loss_scale = LossScale("none", devices.host)

    def step(self, batches: list[Batch]) -> float:
        """Take a step by a `fit` of its own; return its loss."""
        return float(self._fit(batches, steps_per_epoch=1).history["loss"][-1])

    def run_steps(self, batches: list[Batch], clock: StepClock) -> None:
        """Take all steps that the clock wants by one `fit`, always on these batches."""
        self._fit(batches, callbacks=_Timing(clock, self._model))

    def weights(self, replica: int) -> list[np.ndarray]:
        return [_copies(variable)[replica].numpy() for variable in self._model.trainable_variables]

    def placed(self) -> Iterator[Placed]:
        """Yield all copies of the weights; the first on each device has the slots of all."""
        for replica in range(self.num_summed):
            # behind the number of steps and the learning rate
            slots = [_copies(slot)[replica] for slot in self._model.optimizer.variables[2:]]
            for variable in self._model.trainable_variables:
                yield Placed(_copies(variable)[replica], slots)
                slots = []

    def _fit(self, batches: list[Batch], **options: Any) -> keras.callbacks.History:
        """Take steps on one whole batch, which the strategy splits into these again."""
        with tf.device(self._devices.host):
            whole = tuple(tf.concat(parts, 0) for parts in zip(*batches, strict=True))
            dataset = tf.data.Dataset.from_tensors(whole).repeat()
        with tf.device(_place(self._devices)):
            return self._model.fit(dataset, verbose=0, shuffle=False, **options)


class _Timing(keras.callbacks.CallbackList):
    """Tells a clock of each step, and ends `fit` when the clock wants no more.

    It is a list itself: Keras' own hands each loss to its callbacks as a number, and so would wait
    for the devices in each step.
    """

    def __init__(self, clock: StepClock, model: keras.Model) -> None:
        super().__init__(add_history=True, model=model)
        self._clock, self._phases = clock, clock.phases()
        self._phase = next(self._phases, None)  # None = it wants no more
        self._num_steps = 0
        self.total = 0.0  # of the losses that were read
        self._start = clock.now()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._num_steps += 1
        loss = _StepLoss(logs["loss"], self._num_steps, self)
        assert self._phase is not None  # else `fit` ended before
        self._clock.add(self._phase, self._start, self._start, loss)
        self._phase = next(self._phases, None)
        self.model.stop_training = self._phase is None
        self._start = self._clock.now()


@dataclass(frozen=True, slots=True)
class _StepLoss:
    """The loss of a step, by the mean of all steps until then: `fit` tells no other.

    Each is read once, in order. Rounding grows with their number: 1e-5 of the loss after 200.
    """

    mean: tf.Tensor
    num_steps: int
    timing: _Timing

    def __float__(self) -> float:
        before = self.timing.total
        self.timing.total = self.num_steps * float(self.mean)
        return self.timing.total - before


class _MeanLoss(keras.losses.Loss):
    """The trial's loss as `fit` wants it: the gradients of replicas are summed."""

    def __init__(self, template: Template) -> None:
        super().__init__()
        self._loss = template.loss
        self._labels = WHOLE_NUMBERS if template.example.num_classes else tf.float32

    def __call__(self, labels: tf.Tensor, outputs: tf.Tensor, sample_weight: Any = None) -> Any:
        loss = self._loss(tf.cast(labels, self._labels), outputs)
        return loss / tf.distribute.get_strategy().num_replicas_in_sync


def _place(devices: Devices) -> str | None:
    """Return a single CPU device; Keras finds a GPU, and a strategy knows its own."""
    is_found = devices.kind is DeviceKind.GPU or len(devices.replicas) > 1
    return None if is_found else devices.replicas[0]


def _add_decay(optimizer: keras.Optimizer, weight_decay: float) -> None:
    """Add the gradient of an L2 loss, which Keras' own `weight_decay` is not."""
    plain = optimizer.update_step
    optimizer.update_step = lambda gradient, variable, learning_rate: plain(
        gradient + weight_decay * variable.read_value(), variable, learning_rate
    )


def _copies(variable: keras.Variable) -> tuple[tf.Variable, ...]:
    """Return the copy of each replica."""
    copies: tuple[tf.Variable, ...] = getattr(variable.value, "values", (variable.value,))
    return copies
