"""Optimizers, one file each, by TensorFlow's fused update ops, and the learning rate of an update.

Each declares ABILITIES (see `scalemark/abilities.py`), `create(spec) -> Optimizer`, and
`of_keras(spec)`, which returns Keras' own optimizer of the same update rule.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import tensorflow as tf

from scalemark.records.trial import TrialSpec


class LearningRate:
    """lr t / W at update t of a warm-up over W, then lr: as Goyal et al. 2017, but from 0.

    Without a warm-up it is a constant of the graph. With one, each device that updates counts
    updates up to W for itself: from the host a GPU would take the rate only once it has done all
    else. Steps that a loss scale skips are none.
    """

    def __init__(self, spec: TrialSpec) -> None:
        self._value, self._num_updates = spec.learning_rate, spec.learning_rate_warm_up
        self._counts: dict[str, tf.Variable] = {}
        self._rates: dict[str, tf.Tensor] = {}  # of this update

    def begin_step(self, devices: Iterable[str]) -> None:
        """Count an update, before these devices take its learning rate."""
        if not self._num_updates:
            return
        for device in devices:
            count = own_variable(self._counts, device, 0.0)  # int32 would be kept on the host
            with tf.device(device):
                counted = tf.minimum(count.read_value() + 1.0, float(self._num_updates))
                count.assign(counted)
                self._rates[device] = self._value * counted / self._num_updates

    def on(self, device: str) -> float | tf.Tensor:
        """Return it for the update ops of that device."""
        if self._num_updates:
            return self._rates[device]
        return self._value


@dataclass(frozen=True)
class RatedOptimizer:
    """An optimizer whose steps need nothing but a learning rate."""

    learning_rate: LearningRate

    def begin_step(self, devices: Iterable[str]) -> None:
        self.learning_rate.begin_step(devices)


def own_variable(of_devices: dict[str, tf.Variable], device: str, initial: float) -> tf.Variable:
    """Called in a training function: return the device's own variable, made at the first call."""
    if device not in of_devices:
        with tf.init_scope(), tf.device(device):
            of_devices[device] = tf.Variable(initial)
    return of_devices[device]
