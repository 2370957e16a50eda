"""The learning rate of each update: constant, or rising linearly to its value."""

from __future__ import annotations

from collections.abc import Iterable

import tensorflow as tf

from scalemark.records.trial import TrialSpec


class LearningRate:
    """lr t / W at update t of a warm-up over W, then lr: as Goyal et al. 2017, but from 0.

    Without a warm-up it is a constant of the graph. With one, a counter on the host counts
    updates up to W; steps that a loss scale skips are none.
    """

    def __init__(self, spec: TrialSpec) -> None:
        self._value, self._num_updates = spec.learning_rate, spec.learning_rate_warm_up
        self._copies: dict[str, tf.Tensor] = {}  # of this update's, on each device that updates
        if self._num_updates:
            with tf.device("CPU:0"):
                self._count = tf.Variable(0)

    def begin_step(self, devices: Iterable[str]) -> None:
        """Count an update, before these devices take its learning rate."""
        if not self._num_updates:
            return
        with tf.device(self._count.device):
            self._count.assign(tf.minimum(self._count + 1, self._num_updates))
            share = tf.cast(self._count, tf.float32) / self._num_updates
            rate = self._value * share
        for device in devices:
            with tf.device(device):
                self._copies[device] = tf.identity(rate)

    def on(self, device: str) -> float | tf.Tensor:
        """Return it for the update ops of that device."""
        return self._copies[device] if self._num_updates else self._value
