"""Makes sets of TFRecords once, and finds the record that made a pipeline fail."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import filelock
import tensorflow as tf

from scalemark.host import shards
from scalemark.host.files import cache_folder
from trainer.errors import BadDataError, UnsupportedTrialError

NUM_SHARDS = 8
ORIGINALS = Path(__file__).resolve().parent / "data" / "originals"


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


# TensorFlow reports where the header begins when that is damaged, else where the data does.
NUM_HEADER_BYTES = 12
# Raised when the files have changed since; then TensorFlow's own words are all there is.
_FILES_HAVE_CHANGED = (tf.errors.OpError, OSError)

# position in the pipeline; path, index in the file, record
Suspect = tuple[tf.Tensor, tuple[tf.Tensor, tf.Tensor, tf.Tensor]]


def located(path: tf.Tensor) -> tf.data.Dataset:
    """Read a file's records as (path, index, record), in place of TFRecordDataset."""
    records = tf.data.TFRecordDataset(path).enumerate()
    return records.map(lambda index, record: (path, index, record))


def unusable(
    error: tf.errors.OpError,
    suspects: Iterable[Suspect],
    problem: Callable[[tf.Tensor, tf.Tensor], str | None],
) -> BadDataError:
    """Name the first suspect whose record has a problem at its position."""
    with suppress(*_FILES_HAVE_CHANGED):
        for position, (path, index, record) in suspects:
            reason = problem(record, position)
            if reason:
                name, number = path.numpy().decode(), int(index)
                begin, _ = list(shards.record_bounds(Path(name)))[number]
                return BadDataError(f"{name}: record {number} (at byte {begin}) {reason}")
    return BadDataError(f"the data cannot be used: {reported(error)}")


def unreadable(error: tf.errors.OpError, paths: Sequence[str]) -> BadDataError:
    """Name the file whose framing is broken; other errors name their file themselves."""
    found = re.search(r"record at (\d+)", str(error))
    if found and isinstance(error, tf.errors.DataLossError):
        with suppress(*_FILES_HAVE_CHANGED):
            for path in paths:
                at = _record_at(path, int(found.group(1)))
                if at and not _can_be_read(path, at[0]):
                    return BadDataError(f"{path}: record {at[0]} (at byte {at[1]}) is damaged")
    return BadDataError(f"the data cannot be read: {reported(error)}")


def reported(error: tf.errors.OpError) -> str:
    """Return TensorFlow's message in one line, without the names of nodes."""
    (line, *_) = error.message.splitlines() or [""]
    return re.sub(r"\{\{.*?\}\}\s*|\s*\[Op:.*", "", line).strip() or type(error).__name__


def _record_at(path: str, offset: int) -> tuple[int, int] | None:
    """Return index and begin of the record whose length or data begins there, if any."""
    for index, (begin, _) in enumerate(shards.record_bounds(Path(path))):
        if begin + NUM_HEADER_BYTES >= offset:
            return (index, begin) if offset in (begin, begin + NUM_HEADER_BYTES) else None
    return None


def _can_be_read(path: str, index: int) -> bool:
    try:
        return sum(1 for _ in tf.data.TFRecordDataset(path).take(index + 1)) == index + 1
    except tf.errors.DataLossError:
        return False
