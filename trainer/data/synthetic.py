"""One random batch per replica, kept on its device: training without any input cost."""

import tensorflow as tf

from scalemark.records.trial import TrialSpec
from trainer.devices import Devices
from trainer.keras_model import WHOLE_NUMBERS, Example
from trainer.model_tower import Batch


def open_input(spec: TrialSpec, devices: Devices) -> "Synthetic":
    return Synthetic(spec, devices, Example.of(spec))


class Synthetic:
    """Pixels have mean 0 and deviation 0.47, the ancestor's (127, 60 of 255) on the scale -1..1.

    Other real inputs have the same; whole numbers are drawn evenly. Pixels are float32, where
    photographs are sent as bytes: nothing travels here.
    """

    def __init__(self, spec: TrialSpec, devices: Devices, example: Example) -> None:
        self._batches: list[Batch] = []
        for replica, device in enumerate(devices.replicas, devices.first):
            with tf.device(device):
                inputs = _inputs(example, spec.examples_per_replica, (spec.seed, replica))
                # by another seed: tokens would be their own labels
                labels = _labels(example, spec.examples_per_replica, (spec.seed, -1 - replica))
                self._batches.append((inputs, labels))

    def next(self) -> list[Batch]:
        return self._batches

    def at(self, batches: list[Batch], index: tf.Tensor) -> list[Batch]:
        return batches


def _inputs(example: Example, batch_size: int, seed: tuple[int, int]) -> tf.Tensor:
    shape = (batch_size, *example.input_shape)
    if example.num_symbols:
        values = tf.random.stateless_uniform(shape, seed, 0, example.num_symbols, tf.int32)
    else:
        values = tf.random.stateless_truncated_normal(shape, seed, stddev=0.47)
    return tf.cast(values, example.input_dtype)


def _labels(example: Example, batch_size: int, seed: tuple[int, int]) -> tf.Tensor:
    shape = (batch_size, *example.label_shape)
    if example.num_classes:
        values = tf.random.stateless_uniform(shape, seed, 0, example.num_classes, tf.int32)
        return tf.cast(values, WHOLE_NUMBERS)
    return tf.random.stateless_uniform(shape, seed)
