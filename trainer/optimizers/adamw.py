"""AdamW (Loshchilov and Hutter 2019): Adam with a weight decay that passes Adam by.

w -= lr (adam step) + lr weight_decay w, where the gradients that Adam sees have no decay in them.
TensorFlow 2.21 has no op that fuses both. So weights are scaled by 1 - lr weight_decay before
Adam's fused op, as PyTorch does: one pass over them, where w - lr weight_decay w takes two.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from scalemark.abilities import OptimizerAbilities

ABILITIES = OptimizerAbilities(
    has_momentum=False,
    num_slots=2,
    learning_rate=0.001,
    weight_decay=0.01,
    decouples_decay=True,
)

import keras
import tensorflow as tf

from scalemark.records.trial import TrialSpec
from trainer.optimizers import LearningRate
from trainer.optimizers.adam import BETA1, BETA2, EPSILON, Adam


def create(spec: TrialSpec) -> "AdamW":
    return AdamW(LearningRate(spec), weight_decay=spec.weight_decay)


def of_keras(spec: TrialSpec) -> keras.Optimizer:
    return keras.optimizers.AdamW(spec.learning_rate, spec.weight_decay, BETA1, BETA2, EPSILON)


@dataclass(frozen=True, kw_only=True)
class AdamW(Adam):
    weight_decay: float

    def apply(
        self, variable: tf.Variable, slots: Sequence[tf.Variable], gradient: tf.Tensor
    ) -> None:
        kept = 1.0 - self.learning_rate.on(variable.device) * self.weight_decay
        # Only once the gradient is there: else all products are made early and held.
        with tf.control_dependencies([gradient]):
            scaled = variable.read_value() * kept
        # takes the product's buffer, without a copy
        tf.raw_ops.AssignVariableOp(resource=variable.handle, value=scaled)
        super().apply(variable, slots, gradient)
