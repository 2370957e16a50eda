"""Stochastic gradient descent: v = v - lr g."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scalemark.abilities import OptimizerAbilities

ABILITIES = OptimizerAbilities(has_momentum=False, num_slots=0, learning_rate=None)

import tensorflow as tf

from scalemark.records.trial import TrialSpec
from trainer.optimizers import LearningRate


def create(spec: TrialSpec) -> Sgd:
    return Sgd(LearningRate(spec))


@dataclass(frozen=True)
class Sgd:
    learning_rate: LearningRate

    UPDATE_OP = "ResourceApplyGradientDescent"

    def create_slots(self, variable: tf.Variable) -> list[tf.Variable]:
        return []

    def begin_step(self, devices: Iterable[str]) -> None:
        self.learning_rate.begin_step(devices)

    def apply(
        self, variable: tf.Variable, slots: Sequence[tf.Variable], gradient: tf.Tensor
    ) -> None:
        tf.raw_ops.ResourceApplyGradientDescent(
            var=variable.handle, alpha=self.learning_rate.on(variable.device), delta=gradient
        )
