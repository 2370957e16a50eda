"""Injects faults into a trial, to see whether they are found: `TrialSpec.injected`.

They wait, and burn no core:

```
  images ─► batches ─► WAIT input_s ─► replicas   gradients ─► reduced ─► WAIT reduction_s ─► update
                   replica slow_replica ─► gradients ─► WAIT slow_replica_by x its time ─┘
```
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import monotonic, sleep

import numpy as np
import tensorflow as tf

from scalemark.records.trial import TrialSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """The faults of one process's step; 0 where there is none."""

    reduction_s: float
    slow_replica: int  # by its place in this process; others have it where that is out of range
    slow_by: float  # share of its time

    @classmethod
    def of(cls, spec: TrialSpec, num_summed: int, first_replica: int) -> Faults:
        """`num_summed` is how many replicas' gradients are summed: one's own are not reduced."""
        values = spec.injected_values
        return cls(
            reduction_s=values.get("reduction_s", 0.0) if num_summed > 1 else 0.0,
            slow_replica=int(values.get("slow_replica", 0.0)) - first_replica,
            slow_by=values.get("slow_replica_by", 0.0),
        )


def slow_batches(batches: tf.data.Dataset, seconds: float) -> tf.data.Dataset:
    """Delay each batch by so much; all replicas draw from this one pipeline."""

    def wait(images: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        with tf.control_dependencies([_wait(seconds)]):
            return tf.identity(images), tf.identity(labels)

    return batches.map(wait)


def moment(after: Sequence[tf.Tensor], host: str) -> tf.Tensor:
    """Return the seconds of the monotonic clock once these are there."""
    with tf.device(host), tf.control_dependencies(list(after)):
        return tf.numpy_function(lambda: np.float64(monotonic()), [], tf.float64, stateful=True)


def slow_replica(
    gradients: Sequence[tf.Tensor], begin: tf.Tensor, share: float, host: str
) -> list[tf.Tensor]:
    """Return a replica's gradients later, by this share of the time since it began."""
    ends = []
    for gradient in gradients:
        with tf.device(gradient.device):
            ends.append(tf.reshape(gradient, [-1])[0])  # a value waits for a GPU's work

    def asleep(begin_s: np.float64, _ends: np.ndarray) -> np.float32:
        sleep(share * (monotonic() - begin_s))
        return np.float32(share)

    with tf.device(host):
        waited = tf.numpy_function(asleep, [begin, tf.stack(ends)], tf.float32, stateful=True)
    return _after(waited, gradients)


def slow_reduction(sums: Sequence[tf.Tensor], seconds: float, host: str) -> list[tf.Tensor]:
    """Return a step's reduced gradients, on their devices, so long after the last of them.

    The ops are in the name scope `reduce`, as what they slow.
    """
    with tf.name_scope("reduce"):
        with tf.device(host), tf.control_dependencies(list(sums)):
            waited = _wait(seconds)
        return _after(waited, sums)


def _after(waited: tf.Tensor, gradients: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    late = []
    for gradient in gradients:
        with tf.device(gradient.device), tf.control_dependencies([waited]):
            late.append(tf.identity(gradient))
    return late


def _wait(seconds: float) -> tf.Tensor:
    def asleep() -> np.float32:
        sleep(seconds)
        return np.float32(seconds)

    return tf.numpy_function(asleep, [], tf.float32, stateful=True)
