"""Slows a trial on purpose, to see whether what it suffers from is found: `TrialSpec.planted`. It
waits, and burns no core.

```
  images ─► batches ─► WAIT input_s ─► replicas      gradients ─► reduced ─► WAIT reduction_s ─► update
```
"""

from __future__ import annotations

from collections.abc import Sequence
from time import sleep

import numpy as np
import tensorflow as tf


def slow_batches(batches: tf.data.Dataset, seconds: float) -> tf.data.Dataset:
    """Each batch comes so much later after the one before: all replicas draw from the one
    pipeline.
    """

    def wait(images: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        with tf.control_dependencies([_wait(seconds)]):
            return tf.identity(images), tf.identity(labels)

    return batches.map(wait)


def slow_reduction(sums: Sequence[tf.Tensor], seconds: float, host: str) -> list[tf.Tensor]:
    """All of a step's reduced gradients, on their devices, and so much later than the last of them
    was there.

    In the name scope `reduce`, as what it slows.
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
