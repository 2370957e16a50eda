"""Adam (Kingma and Ba 2015) with tf_cnn_benchmarks' defaults."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from scalemark.abilities import OptimizerAbilities

ABILITIES = OptimizerAbilities(has_momentum=False, num_slots=2, learning_rate=0.001)

import keras
import tensorflow as tf

from scalemark.records.trial import TrialSpec
from trainer.optimizers import LearningRate, own_variable

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8


def create(spec: TrialSpec) -> "Adam":
    return Adam(LearningRate(spec))


def of_keras(spec: TrialSpec) -> keras.Optimizer:
    return keras.optimizers.Adam(spec.learning_rate, BETA1, BETA2, EPSILON)


@dataclass(frozen=True)
class Adam:
    learning_rate: LearningRate
    # BETA1^t and BETA2^t of the steps applied so far, by device: from the host a GPU would take
    # them only once it has done all else
    powers: dict[float, dict[str, tf.Variable]] = field(
        default_factory=lambda: {BETA1: {}, BETA2: {}}
    )
    of_step: dict[str, list[tf.Tensor]] = field(default_factory=dict)  # this step's powers

    UPDATE_OP = "ResourceApplyAdam"

    def create_slots(self, variable: tf.Variable) -> list[tf.Variable]:
        """Create first and second moment."""
        return [tf.Variable(tf.zeros(variable.shape)), tf.Variable(tf.zeros(variable.shape))]

    def begin_step(self, devices: Iterable[str]) -> None:
        self.learning_rate.begin_step(devices)
        for device in devices:
            self.of_step[device] = []
            for beta, powers in self.powers.items():
                variable = own_variable(powers, device, 1.0)
                with tf.device(device):
                    power = variable.read_value() * beta
                    variable.assign(power)
                self.of_step[device].append(power)

    def apply(
        self, variable: tf.Variable, slots: Sequence[tf.Variable], gradient: tf.Tensor
    ) -> None:
        first, second = slots
        beta1_power, beta2_power = self.of_step[variable.device]
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
