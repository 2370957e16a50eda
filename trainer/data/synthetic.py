"""One random batch per replica, kept on its device: training without any input cost."""

from __future__ import annotations

import tensorflow as tf

from scalemark.records.trial import TrialSpec
from trainer.devices import Devices
from trainer.towers import Batch


def open_input(spec: TrialSpec, devices: Devices) -> Synthetic:
    return Synthetic(spec, devices)


class Synthetic:
    """Pixels have mean 0 and deviation 0.47, the ancestor's (127, 60 of 255) on the scale -1..1."""

    def __init__(self, spec: TrialSpec, devices: Devices) -> None:
        self._batches: list[Batch] = []
        for replica, device in enumerate(devices.replicas, devices.first):
            with tf.device(device):
                seed = (spec.seed, replica)
                shape = (spec.batch_size, spec.image_px, spec.image_px, 3)
                images = tf.random.stateless_truncated_normal(shape, seed, stddev=0.47)
                labels = tf.random.stateless_uniform(
                    (spec.batch_size,), seed, 0, spec.num_classes, tf.int32
                )
            self._batches.append((images, labels))

    def next(self) -> list[Batch]:
        return self._batches

    def at(self, batches: list[Batch], index: tf.Tensor) -> list[Batch]:
        return batches
