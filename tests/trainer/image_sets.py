"""Small sets of shards in ImageNet's schema, written record by record, so that a test can spoil one."""

from pathlib import Path

import tensorflow as tf

SHARD = "train-{:05d}-of-{:05d}"


def jpeg(gray: int, px: int = 8) -> bytes:
    """A square of one gray."""
    return tf.io.encode_jpeg(tf.fill((px, px, 3), tf.constant(gray, tf.uint8)), quality=100).numpy()


def record(label: object, encoded: bytes | None) -> bytes:
    """A serialized Example; None leaves a field out."""
    feature = {}
    if label is not None:
        feature["image/class/label"] = tf.train.Feature(
            int64_list=tf.train.Int64List(value=[label])
        )
    if encoded is not None:
        feature["image/encoded"] = tf.train.Feature(bytes_list=tf.train.BytesList(value=[encoded]))
    return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()


def good(label: int) -> bytes:
    return record(label, jpeg(20 * label))


def write(folder: Path, *shards: list[bytes]) -> list[Path]:
    """One file per list of records."""
    folder.mkdir(exist_ok=True)
    paths = [folder / SHARD.format(number, len(shards)) for number in range(len(shards))]
    for path, records in zip(paths, shards, strict=True):
        with tf.io.TFRecordWriter(str(path)) as writer:
            for each in records:
                writer.write(each)
    return paths
