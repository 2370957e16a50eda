"""Tries all readers on a log, and chooses the one to propose."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from scalemark.readers.engine import LineCandidate, candidates
from scalemark.readers.kinds.hugging_face import FILES, HuggingFaceReader
from scalemark.readers.kinds.json import is_document
from scalemark.readers.kinds.regex import PROGRAMS
from scalemark.readers.log_text import named_rank, read_text
from scalemark.readers.numbers import without_grouping
from scalemark.readers.opening import KINDS, open_reader
from scalemark.readers.reading import ReadError, Reading

_OF_PROGRAMS = ("metric", "mlperf", "mlflow", "hugging_face", "keras", *PROGRAMS)
_TRAINER_SAYS = frozenset(("learning_rate", "train_runtime"))
_HEADER = re.compile(r"[A-Za-z_][\w /.()-]*(?:,[A-Za-z_][\w /.()-]*)+")  # of a table
_MOST_BYTES = 2**26  # of a file of results
_BEGIN = 20_000  # characters of a file by which a table is known
_TRIED = tuple(kind for kind in KINDS if kind not in ("regex", "torchtitan"))


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundReader:
    """What one reader finds in a log."""

    read: str  # as in the configuration
    readings: tuple[Reading, ...]
    candidate: LineCandidate | None = None  # of the engine that derives patterns
    file: str = ""  # the file that it reads, in place of what the program prints
    like: tuple[str, ...] = ()  # labels of others that may be the speed as well

    @property
    def rated(self) -> list[Reading]:
        return [reading for reading in self.readings if reading.has_rate]

    @property
    def has_throughput(self) -> bool:
        return any(reading.throughput is not None for reading in self.readings)

    @property
    def item(self) -> str:
        items = [reading.item for reading in self.readings if reading.item]
        if items or self.candidate is None:
            return items[0] if items else ""
        return self.candidate.role.item or self.candidate.counted

    @property
    def counts_items(self) -> bool:
        """Return whether the numbers of its steps are those of items."""
        return bool(self.candidate and self.candidate.counted)

    @property
    def per_gpu(self) -> bool | None:
        if self.candidate and self.candidate.role.name:
            return self.candidate.role.per_gpu
        known = [reading.per_gpu for reading in self.rated if reading.per_gpu is not None]
        return known[-1] if known else None

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
        if self.candidate and self.per_gpu:  # other readers say so of each reading
            lines["per_gpu"] = "true"
        return lines


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """All that is found in a log, the best first, and the rates of other things than training."""

    fits: tuple[FoundReader, ...]
    others: tuple[LineCandidate, ...]

    @property
    def is_unsure(self) -> bool:
        """Return whether nothing says which of several numbers is the speed."""
        return bool(self.fits and self.fits[0].like)


def search(lines: Sequence[str], path: Path | None = None) -> Search:
    """Return what may be the speed of training: the first is the one to propose.

    `path` is the folder of what a program left, or one file of it.
    """
    results = tuple(_of_results(path)) if path and path.is_file() else ()
    if results:
        return Search(fits=results, others=())
    folder = path if path and path.is_dir() else None
    plain = [without_grouping(line) for line in _of_one_rank(lines)]
    derived = candidates(plain)
    readers = [
        reader
        for reader in (*_by_kinds(lines, folder), *_by_patterns(derived, lines))
        if any(reading.has_rate or reading.step is not None for reading in reader.readings)
    ]
    others = [candidate for candidate in derived if not candidate.pattern]
    return Search(fits=tuple(sorted(readers, key=_rank)), others=tuple(others))


def _of_results(file: Path) -> Iterator[FoundReader]:
    """Yield what readers find in a file that no program prints: a document of JSON, or a table."""
    if file.stat().st_size > _MOST_BYTES:
        return
    text = read_text(file) or ""
    if file.name in FILES:
        reading = HuggingFaceReader().read_file(file)
        if reading:
            yield FoundReader(read="hugging_face", readings=(reading,), file=file.name)
            return
    begin = text[:_BEGIN].splitlines()[:2]
    is_table = len(begin) == 2 and bool(_HEADER.fullmatch(begin[0]))
    if not (is_table and begin[0].count(",") == begin[1].count(",")) and not is_document(text):
        return
    try:
        read = f"json:{file.name}"
        readings = readings_of(read, (), file.parent)
    except ReadError:
        return
    if any(reading.has_rate for reading in readings):
        yield FoundReader(read=read, readings=readings, file=file.name)


def _of_one_rank(lines: Sequence[str]) -> list[str]:
    """Return the lines without what a launcher puts before them; of several ranks those of one."""
    named = [named_rank(line) for line in lines]
    numbers = [rank for rank, _ in named if isinstance(rank, int)]
    texts = [rank for rank, _ in named if isinstance(rank, str)]
    # a line of each rank says the same, and the first ones may say nothing
    kept: int | str | None = None
    if numbers:
        kept = max(set(numbers), key=lambda rank: (numbers.count(rank) * 2 > _most(numbers), -rank))
    elif texts:
        kept = texts[0]
        for rank in texts:
            if texts.count(rank) > 2 * texts.count(kept):
                kept = rank
    return [text for rank, text in named if rank is None or rank == kept]


def _most(ranks: Sequence[int]) -> int:
    return max(ranks.count(rank) for rank in set(ranks))


def _rank(reader: FoundReader) -> int:
    """Order readers: known programs, items per second, times of steps, bars, then steps alone."""
    kind = reader.read.partition(":")[0]
    if kind in _OF_PROGRAMS:
        return 0 if reader.rated else 6
    if reader.has_throughput:
        return 1 if kind == "json" else 2
    if kind == "tqdm":
        return 4
    has_both = bool(reader.rated) and any(reading.step is not None for reading in reader.rated)
    return 3 if has_both else 5


def _by_kinds(lines: Sequence[str], folder: Path | None) -> Iterator[FoundReader]:
    for kind in _TRIED:
        readings = readings_of(kind, lines, folder)
        if kind != "hugging_face" or _is_of_trainer(readings):
            yield FoundReader(read=kind, readings=readings)


def _by_patterns(derived: Sequence[LineCandidate], lines: Sequence[str]) -> Iterator[FoundReader]:
    fits = [candidate for candidate in derived if candidate.pattern]
    for candidate in fits:
        read = f"regex:{candidate.pattern}"
        like = [other.label for other in fits if other.is_like(candidate)]
        try:
            readings = readings_of(read, lines, None)
        except ReadError:
            continue  # a pattern that takes too long for this log
        yield FoundReader(read=read, readings=readings, candidate=candidate, like=tuple(like))


def readings_of(read: str, lines: Iterable[str], folder: Path | None) -> tuple[Reading, ...]:
    """Return what one reader reads in a log. Raises ReadError."""
    reader = open_reader(read)
    of_lines = (reader.read_line(line) for line in lines)
    of_files = reader.read_files(folder) if folder else iter(())
    return tuple(reading for reading in chain(of_lines, of_files) if reading)


def _is_of_trainer(readings: Iterable[Reading]) -> bool:
    """Return whether more than a progress bar was found, which others show too."""
    return any(reading.is_total or _TRAINER_SAYS & reading.metrics.keys() for reading in readings)
