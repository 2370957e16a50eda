"""RMSProp (Hinton 2012): s = d s + (1 - d) g^2; a = m a + lr g / sqrt(s + e); v = v - a.

Decay 0.9 and epsilon 1.0 are tf_cnn_benchmarks' defaults, with which Inception was trained.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from scalemark.abilities import OptimizerAbilities

ABILITIES = OptimizerAbilities(has_momentum=True, num_slots=2, learning_rate=None)

import keras
import tensorflow as tf

from scalemark.records.trial import TrialSpec
from trainer.optimizers import LearningRate, RatedOptimizer

DECAY = 0.9
EPSILON = 1.0


def create(spec: TrialSpec) -> "RmsProp":
    return RmsProp(LearningRate(spec), spec.momentum)


def of_keras(spec: TrialSpec) -> keras.Optimizer:
    return FromOnes(spec.learning_rate, DECAY, spec.momentum, EPSILON)


@dataclass(frozen=True)
class RmsProp(RatedOptimizer):
    momentum: float

    UPDATE_OP = "ResourceApplyRMSProp"

    def create_slots(self, variable: tf.Variable) -> list[tf.Variable]:
        """Create the mean square, which begins at 1 as in TensorFlow 1, and the momentum."""
        return [tf.Variable(tf.ones(variable.shape)), tf.Variable(tf.zeros(variable.shape))]

    def apply(
        self, variable: tf.Variable, slots: Sequence[tf.Variable], gradient: tf.Tensor
    ) -> None:
        mean_square, momentum = slots
        tf.raw_ops.ResourceApplyRMSProp(
            var=variable.handle,
            ms=mean_square.handle,
            mom=momentum.handle,
            lr=self.learning_rate.on(variable.device),
            rho=DECAY,
            momentum=self.momentum,
            epsilon=EPSILON,
            grad=gradient,
        )


class FromOnes(keras.optimizers.RMSprop):
    """Keras' optimizer, which would begin its mean square at 0."""

    def build(self, variables: Sequence[keras.Variable]) -> None:
        super().build(variables)
        for velocity in self._velocities:
            velocity.assign(tf.ones(velocity.shape))
