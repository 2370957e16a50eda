"""Stochastic gradient descent with momentum, by TensorFlow's fused op: a = m a + g; v = v - lr a."""

from __future__ import annotations

import tensorflow as tf

from store.records import TrialSpec


def create(spec: TrialSpec) -> Momentum:
    return Momentum(spec.learning_rate, spec.momentum, spec.weight_decay)


class Momentum:
    def __init__(self, learning_rate: float, momentum: float, weight_decay: float) -> None:
        self._learning_rate, self._momentum, self._weight_decay = learning_rate, momentum, weight_decay

    def create_slots(self, variable: tf.Variable) -> list[tf.Variable]:
        return [tf.Variable(tf.zeros_like(variable))]

    def apply(self, variable: tf.Variable, slots: list[tf.Variable], gradient: tf.Tensor) -> None:
        """The gradient of the L2 loss, weight_decay * variable, is added here: once, not once per tower."""
        if self._weight_decay:
            with tf.control_dependencies([gradient]):  # else all these products are made early and held: 1.2 GB for 8 VGG16s
                gradient = gradient + self._weight_decay * variable.read_value()
        tf.raw_ops.ResourceApplyMomentum(
            var=variable.handle, accum=slots[0].handle, lr=self._learning_rate, grad=gradient, momentum=self._momentum
        )
