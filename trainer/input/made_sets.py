"""Makes data sets once: small sharded TFRecord sets in ImageNet's schema."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import filelock
import tensorflow as tf

from scalemark.host import shards
from scalemark.host.files import cache_folder
from trainer.errors import UnsupportedTrialError

NUM_SHARDS = 8
ORIGINALS = Path(__file__).resolve().parent.parent / "data" / "originals"


def default_folder(name: str) -> Path:
    """Return `photos-v1` in SCALEMARK_CACHE, else in the user's cache folder."""
    return cache_folder() / f"{name}-v1"


def prepare_folder(
    folder: Path, name: str, examples: Callable[[], Iterable[tf.train.Example]]
) -> Path:
    """Make the set in `folder` unless it is there; safe in several processes at once.

    Raises UnsupportedTrialError when the folder holds shards that are not known to be of this set.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with filelock.FileLock(folder / ".lock"):
        if problem := shards.other_set(folder, name):
            raise UnsupportedTrialError(f"data.dir={folder}: {problem}")
        is_known = folder == default_folder(name) or (folder / shards.INDEX).exists()
        if shards.paths(folder) and not is_known:
            raise UnsupportedTrialError(
                f"data.dir={folder}: holds shards that data={name} did not make; choose "
                "another folder"
            )
        if shards.damage(folder):
            _make(folder, name, list(examples()))
    return folder


def _make(folder: Path, name: str, examples: list[tf.train.Example]) -> None:
    paths = [folder / f"train-{shard:05d}-of-{NUM_SHARDS:05d}" for shard in range(NUM_SHARDS)]
    for shard, path in enumerate(paths):
        with tf.io.TFRecordWriter(str(path)) as writer:
            for example in examples[shard::NUM_SHARDS]:
                writer.write(example.SerializeToString())
    shards.write_index(folder, name, paths)


def example(image: tf.Tensor, filename: str, *, label: int, text: str) -> tf.train.Example:
    """Encode an image (H, W, 3) uint8 with ImageNet's fields; its one box is the whole image."""

    def integer(value: int) -> tf.train.Feature:
        return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))

    def real(value: float) -> tf.train.Feature:
        return tf.train.Feature(float_list=tf.train.FloatList(value=[value]))

    def bytes_of(value: bytes) -> tf.train.Feature:
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))

    feature = {
        "image/height": integer(image.shape[0]),
        "image/width": integer(image.shape[1]),
        "image/colorspace": bytes_of(b"RGB"),
        "image/channels": integer(3),
        "image/class/label": integer(label),
        "image/class/synset": bytes_of(text.encode()),
        "image/class/text": bytes_of(text.encode()),
        "image/object/bbox/xmin": real(0.0),
        "image/object/bbox/ymin": real(0.0),
        "image/object/bbox/xmax": real(1.0),
        "image/object/bbox/ymax": real(1.0),
        "image/object/bbox/label": integer(label),
        "image/format": bytes_of(b"JPEG"),
        "image/filename": bytes_of(filename.encode()),
        "image/encoded": bytes_of(tf.io.encode_jpeg(image, quality=90).numpy()),
    }
    return tf.train.Example(features=tf.train.Features(feature=feature))
