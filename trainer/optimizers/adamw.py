"""AdamW (Loshchilov and Hutter 2019): Adam with a weight decay that passes Adam by.

w -= lr (adam step) + lr weight_decay w, where the gradients that Adam sees have no decay in them.
TensorFlow 2.21 has no op that fuses both. So weights are scaled by 1 - lr weight_decay before
Adam's fused op, as PyTorch does: one pass over them, where w - lr weight_decay w takes two.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scalemark.abilities import OptimizerAbilities

ABILITIES = OptimizerAbilities(
    has_momentum=False,
    num_slots=2,
    learning_rate=0.001,
    weight_decay=0.01,
    decouples_decay=True,
    without_decay="adam",
)

import tensorflow as tf

from scalemark.records.trial import TrialSpec
from trainer.optimizers.adam import Adam
from trainer.optimizers.adam import create as create_adam


def create(spec: TrialSpec) -> "AdamW":
    return AdamW(create_adam(spec), spec.weight_decay)


@dataclass(frozen=True)
class AdamW:
    adam: Adam
    weight_decay: float

    UPDATE_OP = Adam.UPDATE_OP

    def create_slots(self, variable: tf.Variable) -> list[tf.Variable]:
        return self.adam.create_slots(variable)

    def begin_step(self, devices: Iterable[str]) -> None:
        self.adam.begin_step(devices)

    def apply(
        self, variable: tf.Variable, slots: Sequence[tf.Variable], gradient: tf.Tensor
    ) -> None:
        kept = 1.0 - self.adam.learning_rate.on(variable.device) * self.weight_decay
        # Only once the gradient is there: else all products are made early and held.
        with tf.control_dependencies([gradient]):
            scaled = variable.read_value() * kept
        # takes the product's buffer, without a copy
        tf.raw_ops.AssignVariableOp(resource=variable.handle, value=scaled)
        self.adam.apply(variable, slots, gradient)
