"""Reads images in ImageNet's TFRecord schema, and feeds them to all replicas.

Feeds all replicas from one tf.data pipeline: in turn, and ahead of time onto their devices.

```
  images ─► batches ─► K of a replica stacked ─┬─► buffer on CPU:0 ─► on replica 0 ─► next()[0]
           0 1 2 3 ..     (K > 1 only)         └─► buffer on CPU:0 ─► on replica 1 ─► next()[1]
```
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import tensorflow as tf
from tensorflow.python.data.ops.multi_device_iterator_ops import OwnedMultiDeviceIterator

from scalemark.host import shards
from scalemark.records.trial import TrialSpec
from trainer import injected, record_sets
from trainer.devices import Devices
from trainer.errors import BadDataError, UnsupportedTrialError
from trainer.step import Batch

# as tf.distribute feeds GPUs


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


_PER_BYTE = 1.0 / 127.5  # TensorFlow turns a division into this product anyway


def as_bytes(image: tf.Tensor) -> tf.Tensor:
    """Round an image from 0..255 float32 to uint8."""
    return tf.cast(tf.round(image), tf.uint8)


def normalized(inputs: tf.Tensor, wanted: str) -> tf.Tensor:
    """Turn 0..255 uint8 to -1..1 float32 where a model takes these; leave all else as it is."""
    if inputs.dtype != tf.uint8 or wanted != "float32":
        return inputs
    return tf.cast(inputs, tf.float32) * _PER_BYTE - 1.0


SHARDS_AT_ONCE = 8
CALLS_AHEAD = 2  # that the pipeline's own buffers hold at most
SHUFFLE_BUFFER = 2048  # records: 230 MB of ImageNet, and more than a set of our own holds


class ImageRecords:
    """The shards of one folder, as an input of the towers."""

    def __init__(self, folder: Path, spec: TrialSpec, devices: Devices) -> None:
        """Raise UnsupportedTrialError when a shard is missing, empty or cut off."""
        if problem := shards.problem(folder):
            raise UnsupportedTrialError(f"data.dir={folder}: {problem}")
        self._paths = [str(path) for path in shards.paths(folder)]
        self._spec, self._devices = spec, devices
        self._num_calls = 0
        with tf.device(devices.host):
            records = records_in_order(self._paths, spec, tf.data.TFRecordDataset).enumerate()
            images = own_share(records, spec, devices).map(
                lambda position, record: image_and_label(record, position, spec),
                num_parallel_calls=tf.data.AUTOTUNE,
                deterministic=True,
            )
        self._feed = ReplicaFeed(images, spec, devices)

    def next(self) -> list[Batch]:
        """Raises BadDataError, naming file and record."""
        try:
            batches = self._feed.next()
        except tf.errors.ResourceExhaustedError:
            raise
        except tf.errors.OpError as error:
            with tf.device(self._devices.host):
                raise self._explained(error) from error
        self._num_calls += 1
        return batches

    def at(self, batches: list[Batch], index: tf.Tensor) -> list[Batch]:
        return self._feed.at(batches, index)

    def _explained(self, error: tf.errors.OpError) -> BadDataError:
        """Find the records of the failed call again: their order is seeded."""
        spec = self._spec
        if not isinstance(error, tf.errors.InvalidArgumentError):
            return record_sets.unreadable(error, self._paths)
        # An error overtakes the batches that wait on the devices; the first bad record from here
        # on is the one.
        num_calls = 1 + CALLS_AHEAD + spec.prefetch
        per_step = len(self._devices.replicas) * spec.examples_per_replica
        per_call = spec.steps_per_execution * per_step
        located = records_in_order(self._paths, spec, record_sets.located)
        suspects = own_share(located.enumerate(), spec, self._devices)
        suspects = suspects.skip(self._num_calls * per_call).take(num_calls * per_call)
        return record_sets.unusable(
            error, suspects, lambda record, position: _problem(record, position, spec)
        )


def records_in_order(
    paths: Sequence[str], spec: TrialSpec, read: Callable[[tf.Tensor], tf.data.Dataset]
) -> tf.data.Dataset:
    """Repeat all that `read` finds in the shards; what it finds does not change the order."""
    records = tf.data.Dataset.from_tensor_slices(list(paths)).shuffle(len(paths), seed=spec.seed)
    records = records.interleave(
        read, cycle_length=SHARDS_AT_ONCE, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True
    )
    if spec.cache:
        records = records.cache()
    return records.shuffle(SHUFFLE_BUFFER, seed=spec.seed).repeat()


def own_share(positioned: tf.data.Dataset, spec: TrialSpec, devices: Devices) -> tf.data.Dataset:
    """Keep the records of this process's replicas; leave the others undecoded."""
    if not devices.num_elsewhere:
        return positioned
    own = range(devices.first, devices.first + len(devices.replicas))

    def is_own(position: tf.Tensor, _: tf.Tensor) -> tf.Tensor:
        replica = position // spec.examples_per_replica % devices.num_all
        return (replica >= own.start) & (replica < own.stop)

    return positioned.filter(is_own)


def image_and_label(
    record: tf.Tensor, position: tf.Tensor, spec: TrialSpec
) -> tuple[tf.Tensor, tf.Tensor]:
    """Decode an Example to an image (image_px, image_px, 3) uint8 and an int64 label.

    Distortions depend on the seed and on `position` alone (int64, in the order of all records).
    """
    encoded, label, boxes = _parsed(record, with_boxes=spec.distortions)
    tf.debugging.Assert((label >= 0) & (label < spec.num_classes), [label])
    size = (spec.image_px, spec.image_px)
    if spec.distortions:
        seeds = tf.random.split(tf.stack([tf.cast(spec.seed, tf.int64), position]), 2)
        image = tf.image.resize(_random_crop(encoded, boxes, seeds[0]), size) / 255.0
        image = 255.0 * tf.clip_by_value(_flipped_and_colored(image, seeds[1]), 0.0, 1.0)
    else:
        image = tf.image.resize(_central_square(encoded), size)
    return tf.ensure_shape(as_bytes(image), (*size, 3)), label


def _parsed(record: tf.Tensor, *, with_boxes: bool) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Return encoded image, label, and boxes (1, N, 4) as ymin, xmin, ymax, xmax, if wanted."""
    wanted = {
        "image/encoded": tf.io.FixedLenFeature([], tf.string),
        "image/class/label": tf.io.FixedLenFeature([], tf.int64),
    }
    sides = [f"image/object/bbox/{side}" for side in ("ymin", "xmin", "ymax", "xmax")]
    if with_boxes:
        edge = tf.io.FixedLenSequenceFeature([], tf.float32, allow_missing=True)
        wanted |= dict.fromkeys(sides, edge)
    features = tf.io.parse_single_example(record, wanted)
    boxes = tf.zeros((1, 0, 4))
    if with_boxes:
        boxes = tf.stack([features[side] for side in sides], axis=-1)[tf.newaxis]
    return features["image/encoded"], features["image/class/label"], boxes


def _random_crop(encoded: tf.Tensor, boxes: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """Cut a part that covers some of a bounding box, as tf_cnn_benchmarks' train_image does."""
    begin, size, _ = tf.image.stateless_sample_distorted_bounding_box(
        tf.io.extract_jpeg_shape(encoded),
        boxes,
        seed,
        min_object_covered=0.1,
        aspect_ratio_range=(0.75, 1.33),
        area_range=(0.05, 1.0),
        max_attempts=100,
        use_image_if_no_bounding_boxes=True,
    )
    return _decoded(encoded, begin[:2], size[:2])


def _central_square(encoded: tf.Tensor) -> tf.Tensor:
    """Decode the largest central square."""
    size = tf.io.extract_jpeg_shape(encoded)[:2]
    side = tf.reduce_min(size)
    return _decoded(encoded, (size - side) // 2, tf.stack([side, side]))


def _decoded(encoded: tf.Tensor, begin: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    """Decode only that window of a JPEG, to uint8 (height, width, 3)."""
    return tf.io.decode_and_crop_jpeg(encoded, tf.concat([begin, size], axis=0), channels=3)


def _flipped_and_colored(image: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """Mirror half of the images and change colors as much as tf_cnn_benchmarks does.

    It swapped the last three changes for every other image; here their order is fixed.
    """
    flip, brightness, saturation, hue, contrast = tf.unstack(
        tf.random.stateless_uniform((5,), seed)
    )
    image = tf.cond(flip < 0.5, lambda: tf.reverse(image, axis=[1]), lambda: image)
    image = tf.image.adjust_brightness(image, (2.0 * brightness - 1.0) * 32.0 / 255.0)
    image = tf.image.adjust_saturation(image, 0.5 + saturation)
    image = tf.image.adjust_hue(image, (2.0 * hue - 1.0) * 0.2)
    return tf.image.adjust_contrast(image, 0.5 + contrast)


def _problem(record: tf.Tensor, position: tf.Tensor, spec: TrialSpec) -> str | None:
    """Return why a record cannot be used, as the end of a sentence; None when it can."""
    try:
        _, label, _ = _parsed(record, with_boxes=spec.distortions)
    except tf.errors.InvalidArgumentError as error:
        return f"does not have ImageNet's schema: {record_sets.reported(error)}"
    if not 0 <= label < spec.num_classes:
        return (
            f"has label {int(label)}, and num_classes={spec.num_classes} allows 0 to "
            f"{spec.num_classes - 1}"
        )
    try:
        image_and_label(record, position, spec)
    except tf.errors.InvalidArgumentError as error:
        return f"has an image that does not decode as JPEG: {record_sets.reported(error)}"
    return None
