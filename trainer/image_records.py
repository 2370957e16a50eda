"""Reads and makes images in ImageNet's TFRecord schema.

One tf.data pipeline feeds all replicas: in turn, and ahead of time onto their devices.

```
  images ─► batches ─► K of a replica stacked ─┬─► buffer on CPU:0 ─► on replica 0 ─► next()[0]
           0 1 2 3 ..     (K > 1 only)         └─► buffer on CPU:0 ─► on replica 1 ─► next()[1]
```
"""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import filelock
import tensorflow as tf
from tensorflow.python.data.ops.multi_device_iterator_ops import OwnedMultiDeviceIterator

from scalemark.host import files
from scalemark.records.trial import TrialSpec
from trainer import BadDataError, UnsupportedTrialError
from trainer.devices import Devices, on_each
from trainer.model_tower import Batch


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
        # by a slice: TensorFlow's gather has no GPU kernel for uint8
        return on_each(self._replicas, lambda batch: (batch[0][index], batch[1][index]), batches)


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


def as_bytes(image: tf.Tensor) -> tf.Tensor:
    """Round an image from 0..255 float32 to uint8."""
    return tf.cast(tf.round(image), tf.uint8)


SHARDS_AT_ONCE = 8
SHUFFLE_BUFFER = 2048  # records: 230 MB of ImageNet, and more than a set of our own holds


class ImageRecords(ReplicaFeed):
    """The shards of one folder, as an input of the towers."""

    def __init__(self, folder: Path, spec: TrialSpec, devices: Devices) -> None:
        """Raise UnsupportedTrialError when a shard is missing or empty."""
        problem = files.problem(folder)
        if problem:
            raise UnsupportedTrialError(f"data.dir={folder}: {problem}")
        self._folder = folder
        paths = list(map(str, files.paths(folder)))
        with tf.device(devices.host):
            records = _records_in_order(paths, spec).enumerate()
            images = own_share(records, spec, devices).map(
                lambda position, record: image_and_label(record, position, spec),
                num_parallel_calls=tf.data.AUTOTUNE,
                deterministic=True,
            )
        super().__init__(images, spec, devices)

    def next(self) -> list[Batch]:
        """Raises BadDataError, with the folder and what TensorFlow says."""
        try:
            return super().next()
        except tf.errors.ResourceExhaustedError:
            raise
        except tf.errors.OpError as error:
            (line, *_) = error.message.splitlines() or [""]
            # without the names of nodes
            said = re.sub(r"\{\{.*?\}\}\s*|\s*\[Op:.*", "", line).strip() or type(error).__name__
            raise BadDataError(f"data.dir={self._folder}: {said}") from error


def _records_in_order(paths: Sequence[str], spec: TrialSpec) -> tf.data.Dataset:
    """Repeat all records of the shards."""
    records = tf.data.Dataset.from_tensor_slices(list(paths)).shuffle(len(paths), seed=spec.seed)
    records = records.interleave(
        tf.data.TFRecordDataset,
        cycle_length=SHARDS_AT_ONCE,
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=True,
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
    is_class = (label >= 0) & (label < spec.num_classes)
    tf.debugging.Assert(is_class, [f"wanted a label below num_classes={spec.num_classes}", label])
    size = (spec.image_px, spec.image_px)
    if spec.distortions:
        seeds = tf.random.split(tf.stack([tf.cast(spec.seed, tf.int64), position]), 2)
        image = tf.image.resize(_random_crop(encoded, boxes, seeds[0]), size) / 255.0
        image = 255.0 * tf.clip_by_value(_flipped_and_colored(image, seeds[1]), 0.0, 1.0)
    else:
        whole = tf.io.extract_jpeg_shape(encoded)[:2]
        side = tf.reduce_min(whole)  # of the largest central square
        square = _decoded(encoded, (whole - side) // 2, tf.stack([side, side]))
        image = tf.image.resize(square, size)
    return tf.ensure_shape(as_bytes(image), (*size, 3)), label


def _parsed(record: tf.Tensor, *, with_boxes: bool) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Return encoded image, label, and boxes (1, N, 4) as ymin, xmin, ymax, xmax, if wanted."""
    wanted = {
        "image/encoded": tf.io.FixedLenFeature([], tf.string),
        "image/class/label": tf.io.FixedLenFeature([], tf.int64),
    }
    if with_boxes:
        edge = tf.io.FixedLenSequenceFeature([], tf.float32, allow_missing=True)
        wanted |= dict.fromkeys(_BOX_SIDES, edge)
    features = tf.io.parse_single_example(record, wanted)
    boxes = tf.zeros((1, 0, 4))
    if with_boxes:
        boxes = tf.stack([features[side] for side in _BOX_SIDES], axis=-1)[tf.newaxis]
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


NUM_SHARDS = 8
_BOX_SIDES = tuple(f"image/object/bbox/{side}" for side in ("ymin", "xmin", "ymax", "xmax"))
ORIGINALS = Path(__file__).resolve().parent / "data" / "originals"


def default_folder(name: str) -> Path:
    """Return `photos-v1` in SCALEMARK_CACHE, else in the user's cache folder."""
    return files.cache_folder() / f"{name}-v1"


def open_made(
    name: str,
    examples: Callable[[], Iterable[tf.train.Example]],
    spec: TrialSpec,
    devices: Devices,
) -> ImageRecords:
    """Open the set of this name, which is made where it is not there yet."""
    folder = Path(spec.data_dir) if spec.data_dir else default_folder(name)
    return ImageRecords(prepare_folder(folder, name, examples), spec, devices)


def prepare_folder(
    folder: Path, name: str, examples: Callable[[], Iterable[tf.train.Example]]
) -> Path:
    """Make the set in `folder` unless it is there; safe in several processes at once.

    Raises UnsupportedTrialError when the folder holds shards that are not known to be of this set.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with filelock.FileLock(folder / ".lock"):
        problem = files.other_set(folder, name)
        if problem:
            raise UnsupportedTrialError(f"data.dir={folder}: {problem}")
        is_known = folder == default_folder(name) or (folder / files.INDEX).exists()
        if files.paths(folder) and not is_known:
            raise UnsupportedTrialError(
                f"data.dir={folder}: holds shards that data={name} did not make; choose "
                "another folder"
            )
        if files.damage(folder):
            every, paths = list(examples()), []
            for shard in range(NUM_SHARDS):
                paths.append(folder / f"train-{shard:05d}-of-{NUM_SHARDS:05d}")
                with tf.io.TFRecordWriter(str(paths[-1])) as writer:
                    for example in every[shard::NUM_SHARDS]:
                        writer.write(example.SerializeToString())
            files.write_index(folder, name, paths)
    return folder


def example(image: tf.Tensor, filename: str, *, label: int, text: str) -> tf.train.Example:
    """Encode an image (H, W, 3) uint8 with ImageNet's fields; its one box is the whole image."""
    values: dict[str, int | float | bytes] = {
        "image/height": image.shape[0],
        "image/width": image.shape[1],
        "image/colorspace": b"RGB",
        "image/channels": 3,
        "image/class/label": label,
        "image/class/synset": text.encode(),
        "image/class/text": text.encode(),
        "image/object/bbox/label": label,
        "image/format": b"JPEG",
        "image/filename": filename.encode(),
        "image/encoded": tf.io.encode_jpeg(image, quality=90).numpy(),
        **dict.fromkeys(_BOX_SIDES[:2], 0.0),
        **dict.fromkeys(_BOX_SIDES[2:], 1.0),
    }
    feature = {name: _feature(value) for name, value in values.items()}
    return tf.train.Example(features=tf.train.Features(feature=feature))


def _feature(value: int | float | bytes) -> tf.train.Feature:
    if isinstance(value, bytes):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))
    if isinstance(value, float):
        return tf.train.Feature(float_list=tf.train.FloatList(value=[value]))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))
