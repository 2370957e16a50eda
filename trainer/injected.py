"""Injects faults into a trial, to see whether they are found: `TrialSpec.injected`.

They wait, and burn no core:

```
  images ─► batches ─► WAIT input_s ─► replicas   gradients ─► reduced ─► WAIT reduction_s ─► update
```
"""

from __future__ import annotations

from collections.abc import Sequence
from time import sleep

import numpy as np
import tensorflow as tf


def slow_batches(batches: tf.data.Dataset, seconds: float) -> tf.data.Dataset:
    """Delay each batch by so much; all replicas draw from this one pipeline."""

    def wait(images: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        with tf.control_dependencies([_wait(seconds)]):
            return tf.identity(images), tf.identity(labels)

    return batches.map(wait)


def slow_reduction(sums: Sequence[tf.Tensor], seconds: float, host: str) -> list[tf.Tensor]:
    """Return a step's reduced gradients, on their devices, so long after the last of them.

    The ops are in the name scope `reduce`, as what they slow.
    """
    with tf.name_scope("reduce"):
        with tf.device(host), tf.control_dependencies(list(sums)):
            waited = _wait(seconds)
        late = []
        for gradient in sums:
            with tf.device(gradient.device), tf.control_dependencies([waited]):
                late.append(tf.identity(gradient))
    return late


def _wait(seconds: float) -> tf.Tensor:
    def asleep() -> np.float32:
        sleep(seconds)
        return np.float32(seconds)

    return tf.numpy_function(asleep, [], tf.float32, stateful=True)
