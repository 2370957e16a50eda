"""Finds the file and record that made a pipeline of TFRecords fail; runs only once one has."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import tensorflow as tf

from scalemark.host import shards
from trainer.errors import BadDataError

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
