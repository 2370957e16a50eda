"""Weights that wait for a step on each replica, so that fetching hides behind computing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from trainer.devices import Devices


class Staging:
    """Holds what each replica fetched in the step before; at first the initial weights."""

    def __init__(self, initial: Sequence[np.ndarray], devices: Devices) -> None:
        self._staged = [_variables(initial, device) for device in devices.replicas]

    def exchange(self, replica: int, fetched: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Return this step's weights, and keep those fetched now for the next."""
        before = [variable.read_value() for variable in self._staged[replica]]
        for variable, value in zip(self._staged[replica], fetched, strict=True):
            variable.assign(value, read_value=False)
        return before


def _variables(values: Sequence[np.ndarray], device: str) -> list[tf.Variable]:
    with tf.device(device):
        return [tf.Variable(value, dtype=tf.float32, trainable=False) for value in values]
