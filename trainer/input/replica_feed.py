"""Feeds all replicas from one tf.data pipeline: in turn, and ahead of time onto their devices.

```
  images ─► batches ─► K of a replica stacked ─┬─► buffer on CPU:0 ─► on replica 0 ─► next()[0]
           0 1 2 3 ..     (K > 1 only)         └─► buffer on CPU:0 ─► on replica 1 ─► next()[1]
```
"""

from __future__ import annotations

import math
from collections.abc import Callable

import tensorflow as tf

# as tf.distribute feeds GPUs
from tensorflow.python.data.ops.multi_device_iterator_ops import OwnedMultiDeviceIterator

from scalemark.records.trial import TrialSpec
from trainer import injected
from trainer.devices import Devices
from trainer.step import Batch


class ReplicaFeed:
    """Gives replica i of N the batches i, i + N, i + 2 N, ..., for any steps_per_execution.

    With prefetch=0 nothing waits on the devices; one batch per replica still waits on the host. In
    a distributed trial the pipeline runs on worker 0 alone: its cores and its link feed all hosts.
    """

    def __init__(
        self,
        examples: tf.data.Dataset,
        spec: TrialSpec,
        devices: Devices,
        batch_of: Callable[..., Batch] | None = None,
    ) -> None:
        """`examples` yields image (H, W, 3) uint8, label int64, without end.

        With `batch_of` it yields what that makes a whole batch of, which is cheaper where little
        is done for each example.
        """
        self._replicas, num_steps = devices.replicas, spec.steps_per_execution
        with tf.device(devices.host):
            calls = examples.batch(spec.examples_per_replica, drop_remainder=True)
            if batch_of:
                calls = calls.map(batch_of)
            if input_s := spec.injected_values.get("input_s"):
                calls = injected.slow_batches(calls, input_s)
            if num_steps > 1:
                calls = _stacked(calls, num_steps, len(devices.replicas))
            self.dataset = calls.with_options(_options(spec))
        self._iterator = OwnedMultiDeviceIterator(
            self.dataset,
            devices=list(devices.replicas),
            source_device=devices.host,
            prefetch_buffer_size=math.ceil(spec.prefetch / num_steps),
        )

    def next(self) -> list[Batch]:
        """Return the batches of one call. Raises what TensorFlow raises."""
        return self._iterator.get_next()

    def at(self, batches: list[Batch], index: tf.Tensor) -> list[Batch]:
        steps = []
        for device, (images, labels) in zip(self._replicas, batches, strict=True):
            with tf.device(device):
                # by a slice: TensorFlow's gather has no GPU kernel for uint8
                steps.append((images[index], labels[index]))
        return steps


def _stacked(batches: tf.data.Dataset, num_steps: int, num_replicas: int) -> tf.data.Dataset:
    """Join the batches that one replica takes in one call."""

    def stack(_: tf.Tensor, window: tf.data.Dataset) -> tf.data.Dataset:
        own = window.map(lambda _, batch: batch)
        return own.batch(num_steps, drop_remainder=True)

    return batches.enumerate().group_by_window(
        key_func=lambda number, _: number % num_replicas, reduce_func=stack, window_size=num_steps
    )


def _options(spec: TrialSpec) -> tf.data.Options:
    options = tf.data.Options()
    options.deterministic = True
    options.experimental_optimization.parallel_batch = True
    if spec.data_threads:
        options.threading.private_threadpool_size = spec.data_threads
    return options
