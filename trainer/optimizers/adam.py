"""Adam (Kingma and Ba 2015) with tf_cnn_benchmarks' defaults."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scalemark.abilities.optimizer import OptimizerAbilities

ABILITIES = OptimizerAbilities(has_momentum=False, num_slots=2, learning_rate=0.001)

import tensorflow as tf

from scalemark.records.trial import TrialSpec
from trainer.learning_rate import LearningRate

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8


def create(spec: TrialSpec) -> Adam:
    with tf.device("CPU:0"):
        return Adam(LearningRate(spec), [tf.Variable(1.0), tf.Variable(1.0)], {})


@dataclass(frozen=True)
class Adam:
    learning_rate: LearningRate
    powers: list[tf.Variable]  # BETA1^t and BETA2^t of the steps applied so far, on the host
    copies: dict[str, list[tf.Tensor]]  # of this step's powers, on each device that updates

    UPDATE_OP = "ResourceApplyAdam"

    def create_slots(self, variable: tf.Variable) -> list[tf.Variable]:
        """Create first and second moment."""
        return [tf.Variable(tf.zeros(variable.shape)), tf.Variable(tf.zeros(variable.shape))]

    def begin_step(self, devices: Iterable[str]) -> None:
        self.learning_rate.begin_step(devices)
        for power, beta in zip(self.powers, (BETA1, BETA2), strict=True):
            with tf.device(power.device):
                power.assign(power * beta)
        for device in devices:
            with tf.device(device):
                self.copies[device] = [tf.identity(power) for power in self.powers]

    def apply(
        self, variable: tf.Variable, slots: Sequence[tf.Variable], gradient: tf.Tensor
    ) -> None:
        first, second = slots
        beta1_power, beta2_power = self.copies[variable.device]
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=first.handle,
            v=second.handle,
            beta1_power=beta1_power,
            beta2_power=beta2_power,
            lr=self.learning_rate.on(variable.device),
            beta1=BETA1,
            beta2=BETA2,
            epsilon=EPSILON,
            grad=gradient,
        )
