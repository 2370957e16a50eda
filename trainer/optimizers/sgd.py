"""Stochastic gradient descent: v = v - lr g."""

from collections.abc import Sequence
from dataclasses import dataclass

from scalemark.abilities import OptimizerAbilities

ABILITIES = OptimizerAbilities(has_momentum=False, num_slots=0, learning_rate=None)

import keras
import tensorflow as tf

from scalemark.records.trial import TrialSpec
from trainer.optimizers import LearningRate, RatedOptimizer


def create(spec: TrialSpec) -> "Sgd":
    return Sgd(LearningRate(spec))


def of_keras(spec: TrialSpec) -> keras.Optimizer:
    return keras.optimizers.SGD(spec.learning_rate)


@dataclass(frozen=True)
class Sgd(RatedOptimizer):
    UPDATE_OP = "ResourceApplyGradientDescent"

    def create_slots(self, variable: tf.Variable) -> list[tf.Variable]:
        return []

    def apply(
        self, variable: tf.Variable, slots: Sequence[tf.Variable], gradient: tf.Tensor
    ) -> None:
        tf.raw_ops.ResourceApplyGradientDescent(
            var=variable.handle, alpha=self.learning_rate.on(variable.device), delta=gradient
        )
