"""Stochastic gradient descent with momentum: a = m a + g; v = v - lr a."""

from collections.abc import Sequence
from dataclasses import dataclass

from scalemark.abilities import OptimizerAbilities

ABILITIES = OptimizerAbilities(has_momentum=True, num_slots=1, learning_rate=None)

import keras
import tensorflow as tf

from scalemark.records.trial import TrialSpec
from trainer.optimizers import LearningRate, RatedOptimizer


def create(spec: TrialSpec) -> "Momentum":
    return Momentum(LearningRate(spec), spec.momentum)


def of_keras(spec: TrialSpec) -> keras.Optimizer:
    return keras.optimizers.SGD(spec.learning_rate, momentum=spec.momentum)


@dataclass(frozen=True)
class Momentum(RatedOptimizer):
    momentum: float

    UPDATE_OP = "ResourceApplyMomentum"

    def create_slots(self, variable: tf.Variable) -> list[tf.Variable]:
        return [tf.Variable(tf.zeros(variable.shape))]

    def apply(
        self, variable: tf.Variable, slots: Sequence[tf.Variable], gradient: tf.Tensor
    ) -> None:
        tf.raw_ops.ResourceApplyMomentum(
            var=variable.handle,
            accum=slots[0].handle,
            lr=self.learning_rate.on(variable.device),
            grad=gradient,
            momentum=self.momentum,
        )
