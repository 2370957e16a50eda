"""Tries all readers on a log, and chooses the one to propose."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from scalemark.readers.derived import Derived, derive
from scalemark.readers.opening import KINDS, open_reader
from scalemark.readers.reading import ReadError, Reading

_OF_PROGRAMS = (
    *("metric", "mlperf", "torchtitan", "tf_cnn_benchmarks"),
    *("mlflow", "hugging_face", "keras"),
)
_TRAINER_SAYS = frozenset(("learning_rate", "train_runtime"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What one reader found in a log."""

    read: str  # as in the configuration
    readings: tuple[Reading, ...]
    derived: Derived | None = None

    @property
    def rated(self) -> list[Reading]:
        return [reading for reading in self.readings if reading.has_rate]

    @property
    def has_throughput(self) -> bool:
        return any(reading.throughput is not None for reading in self.readings)

    @property
    def item(self) -> str:
        said = [reading.item for reading in self.readings if reading.item]
        if said:
            return said[0]
        if self.derived is None:
            return ""
        return self.derived.rate.item if self.derived.rate else self.derived.counted

    @property
    def counts_items(self) -> bool:
        """Return whether the numbers of its steps are those of items."""
        return bool(self.derived and self.derived.counted)

    @property
    def per_gpu(self) -> bool | None:
        if self.derived and self.derived.rate:
            return self.derived.rate.per_gpu
        said = [reading.per_gpu for reading in self.rated if reading.per_gpu is not None]
        return said[-1] if said else None

    @property
    def num_unusable(self) -> int:
        return sum(bool(reading.unusable) for reading in self.readings)

    @property
    def settings(self) -> dict[str, str]:
        """Return the lines of configuration that read the log, by name."""
        lines = {"read": self.read}
        if self.item:
            lines["item"] = self.item
        if self.counts_items:
            lines["items_per_step"] = "1"
        if self.derived and self.per_gpu:  # other readers say so of each reading
            lines["per_gpu"] = "true"
        return lines


def search(lines: Sequence[str], folder: Path | None) -> list[Found]:
    """Return what each reader found, the best first: it is the one to propose."""
    found = [
        one
        for one in (*_by_kinds(lines, folder), *_by_pattern(lines))
        if any(reading.has_rate or reading.step is not None for reading in one.readings)
    ]
    return sorted(found, key=_rank)


def _rank(found: Found) -> int:
    """Order what was found: known programs, items per second, bars, then times of steps."""
    kind = found.read.partition(":")[0]
    if kind in _OF_PROGRAMS:
        return 0 if found.rated else 4
    if found.has_throughput:
        return 1 if kind == "json" else 2
    return 3 if kind == "tqdm" else 5


def _by_kinds(lines: Sequence[str], folder: Path | None) -> Iterator[Found]:
    for kind in KINDS:
        if kind == "regex":
            continue  # it needs a pattern
        readings = readings_of(kind, lines, folder)
        if kind != "hugging_face" or _is_of_trainer(readings):
            yield Found(read=kind, readings=readings)


def _by_pattern(lines: Sequence[str]) -> Iterator[Found]:
    derived = derive(lines)
    if derived:
        read = f"regex:{derived.pattern}"
        try:
            yield Found(read=read, readings=readings_of(read, lines, None), derived=derived)
        except ReadError:
            return  # a pattern that took too long for this log


def readings_of(read: str, lines: Iterable[str], folder: Path | None) -> tuple[Reading, ...]:
    """Return what one reader reads in a log. Raises ReadError."""
    reader = open_reader(read)
    of_lines = (reader.read_line(line) for line in lines)
    of_files = reader.read_files(folder) if folder else iter(())
    return tuple(reading for reading in chain(of_lines, of_files) if reading)


def _is_of_trainer(readings: Iterable[Reading]) -> bool:
    """Return whether more than a progress bar was found, which others show too."""
    return any(reading.is_total or _TRAINER_SAYS & reading.metrics.keys() for reading in readings)
