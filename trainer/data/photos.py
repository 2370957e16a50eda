"""Real JPEG photographs, cut into a small sharded TFRecord set in ImageNet's schema and read like ImageNet.

Two photographs that scikit-learn bundles (a Chinese temple, a flower) are cut into overlapping squares. The label of a
square is the photograph and the quarter of it that it was cut from: 1 to 8.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import filelock
import tensorflow as tf

from store import shards
from store.records import TrialSpec
from trainer.devices import Devices
from trainer.errors import UnsupportedTrialError
from trainer.towers import Batch

PHOTOGRAPHS = ("china.jpg", "flower.jpg")
SQUARE_PX = 160
STRIDE_PX = 32
NUM_SHARDS = 8
NUM_LABELS = 4 * len(PHOTOGRAPHS) + 1  # 0 is ImageNet's background class
SHUFFLE_BUFFER = 512  # more than there are squares: a full shuffle


def open_input(spec: TrialSpec, devices: Devices) -> Photos:
    if spec.num_classes < NUM_LABELS:
        raise UnsupportedTrialError(f"num_classes={spec.num_classes}: data=photos has labels up to {NUM_LABELS - 1}")
    folder = prepare_folder(Path(spec.data_dir) if spec.data_dir else default_folder())
    return Photos(spec, devices, sorted(map(str, folder.glob("train-*-of-*"))))


def default_folder() -> Path:
    """`photos-v1` in SCALEMARK_CACHE, else in the user's cache folder."""
    cache = os.environ.get("SCALEMARK_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "scalemark"
    return Path(cache) / "photos-v1"


def prepare_folder(folder: Path) -> Path:
    """Build the set in `folder` unless it is there; safe when several processes do it at once."""
    folder.mkdir(parents=True, exist_ok=True)
    with filelock.FileLock(folder / ".lock"):
        if shards.damage(folder):
            _build(folder)
    return folder


class Photos:
    """One tf.data pipeline that feeds all replicas in turn."""

    def __init__(self, spec: TrialSpec, devices: Devices, paths: list[str]) -> None:
        def decode(record: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            return _decode(record, spec.image_px, distort=spec.distortions)

        dataset = tf.data.Dataset.from_tensor_slices(paths).interleave(tf.data.TFRecordDataset, cycle_length=NUM_SHARDS)
        dataset = dataset.cache().shuffle(SHUFFLE_BUFFER, seed=spec.seed).repeat()
        dataset = dataset.map(decode, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
        dataset = dataset.batch(spec.batch_size, drop_remainder=True).prefetch(2 * len(devices.replicas))
        self._num_replicas = len(devices.replicas)
        with tf.device(devices.host):
            self._batches = iter(dataset)

    def next(self) -> list[Batch]:
        return [next(self._batches) for _ in range(self._num_replicas)]


def _decode(record: tf.Tensor, image_px: int, *, distort: bool) -> tuple[tf.Tensor, tf.Tensor]:
    """Serialized Example -> image (image_px, image_px, 3) float32 in -1..1, label int32."""
    example = tf.io.parse_single_example(
        record,
        {
            "image/encoded": tf.io.FixedLenFeature([], tf.string),
            "image/class/label": tf.io.FixedLenFeature([], tf.int64),
        },
    )
    if distort:
        begin, size, _ = tf.image.sample_distorted_bounding_box(
            tf.io.extract_jpeg_shape(example["image/encoded"]),
            tf.zeros([1, 0, 4]),
            area_range=(0.3, 1.0),
            use_image_if_no_bounding_boxes=True,
        )
        window = tf.stack([begin[0], begin[1], size[0], size[1]])
        image = tf.io.decode_and_crop_jpeg(example["image/encoded"], window, channels=3)
        image = tf.image.random_flip_left_right(tf.image.resize(image, (image_px, image_px)))
        image = tf.image.random_brightness(image, 32.0)
    else:
        image = tf.image.resize(tf.io.decode_jpeg(example["image/encoded"], channels=3), (image_px, image_px))
    image = tf.clip_by_value(image / 127.5 - 1.0, -1.0, 1.0)
    return image, tf.cast(example["image/class/label"], tf.int32)


def _build(folder: Path) -> None:
    examples = list(_examples())
    paths = [folder / f"train-{shard:05d}-of-{NUM_SHARDS:05d}" for shard in range(NUM_SHARDS)]
    for shard, path in enumerate(paths):
        with tf.io.TFRecordWriter(str(path)) as writer:
            for example in examples[shard::NUM_SHARDS]:
                writer.write(example.SerializeToString())
    shards.write_index(folder, paths)


def _examples() -> Iterator[tf.train.Example]:
    with tf.device("CPU:0"):
        for number, name in enumerate(PHOTOGRAPHS):
            photograph = tf.io.decode_jpeg(files("sklearn.datasets.images").joinpath(name).read_bytes())
            height, width, _ = photograph.shape
            for top in range(0, height - SQUARE_PX + 1, STRIDE_PX):
                for left in range(0, width - SQUARE_PX + 1, STRIDE_PX):
                    quarter = 2 * (top + SQUARE_PX // 2 >= height // 2) + (left + SQUARE_PX // 2 >= width // 2)
                    square = photograph[top : top + SQUARE_PX, left : left + SQUARE_PX]
                    encoded = tf.io.encode_jpeg(square, quality=90).numpy()
                    yield _example(
                        encoded, f"{name}:{top}:{left}", label=1 + 4 * number + quarter, text=f"{name} quarter {quarter}"
                    )


def _example(encoded: bytes, filename: str, *, label: int, text: str) -> tf.train.Example:
    """The fields that ImageNet's TFRecords have; the one bounding box is the whole image."""

    def ints(*values: int) -> tf.train.Feature:
        return tf.train.Feature(int64_list=tf.train.Int64List(value=values))

    def floats(*values: float) -> tf.train.Feature:
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))

    def texts(*values: bytes) -> tf.train.Feature:
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))

    feature = {
        "image/height": ints(SQUARE_PX),
        "image/width": ints(SQUARE_PX),
        "image/colorspace": texts(b"RGB"),
        "image/channels": ints(3),
        "image/class/label": ints(label),
        "image/class/synset": texts(text.encode()),
        "image/class/text": texts(text.encode()),
        "image/object/bbox/xmin": floats(0.0),
        "image/object/bbox/ymin": floats(0.0),
        "image/object/bbox/xmax": floats(1.0),
        "image/object/bbox/ymax": floats(1.0),
        "image/object/bbox/label": ints(label),
        "image/format": texts(b"JPEG"),
        "image/filename": texts(filename.encode()),
        "image/encoded": texts(encoded),
    }
    return tf.train.Example(features=tf.train.Features(feature=feature))
