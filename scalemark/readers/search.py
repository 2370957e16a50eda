"""Tries all readers on a log, and chooses the one to propose."""

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from scalemark.readers.columns import Column
from scalemark.readers.engine import candidates
from scalemark.readers.kinds.hugging_face import FILES, HuggingFaceReader
from scalemark.readers.kinds.json import delimiter_of
from scalemark.readers.log_text import json_of, named_rank, ranks_of, read_text
from scalemark.readers.opening import KINDS, ReadError, Reading, open_reader
from scalemark.readers.words import without_grouping

FIRST_LINES, LAST_LINES = 1_500, 300
"""Lines of a long log that readers are tried on; the one that is proposed reads all."""

_TRAINER_SAYS = frozenset(("learning_rate", "train_runtime"))
_HEADER = re.compile(r'"?[A-Za-z_][\w /.()-]*"?(?:[,;\t] *"?[A-Za-z_][\w /.()-]*"?)+')  # of a table
_BEGIN = 20_000  # characters of a file by which a table is known


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundReader:
    """What one reader finds in a log."""

    read: str  # as in the configuration
    readings: tuple[Reading, ...]
    candidate: Column | None = None  # of the engine that derives patterns
    file: str = ""  # the file that it reads, in place of what the program prints
    like: tuple[str, ...] = ()  # labels of others that may be the speed as well

    @property
    def rated(self) -> list[Reading]:
        return [reading for reading in self.readings if reading.has_rate]

    @property
    def has_throughput(self) -> bool:
        return any(reading.throughput is not None for reading in self.readings)

    @property
    def shown(self) -> list[Reading]:
        return self.rated or list(self.readings)

    @property
    def item(self) -> str:
        items = [reading.item for reading in self.readings]
        if self.candidate:
            items += [self.candidate.role.item, self.candidate.counted]
        return next(filter(None, items), "")

    @property
    def per_gpu(self) -> bool | None:
        known = [reading.per_gpu for reading in self.rated if reading.per_gpu is not None]
        if self.candidate and self.candidate.role.name:
            return self.candidate.role.per_gpu
        return known[-1] if known else None

    @property
    def settings(self) -> dict[str, str]:
        """Return the lines of configuration that read the log, by name."""
        lines = {"read": self.read}
        if self.item:
            lines["item"] = self.item
        if self.candidate and self.candidate.counted:
            lines["items_per_step"] = "1"
        if self.candidate and self.per_gpu:  # other readers say so of each reading
            lines["per_gpu"] = "true"
        return lines

    @property
    def overrides(self) -> str:
        """Return the settings as arguments of `scalemark sweep`, quoted for a shell."""
        read, *others = [f"{name}={value}" for name, value in self.settings.items()]
        return shlex.join([read, *(f"command.{other}" for other in others)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """All that is found in a log, the best first, and the rates of other things than training."""

    fits: tuple[FoundReader, ...]
    others: tuple[Column, ...] = ()
    num_ranks: int = 1  # that print lines of their own
    is_sampled: bool = False  # all readers but the proposed one read a part of the lines

    @property
    def is_unsure(self) -> bool:
        """Return whether nothing says which of several numbers is the speed."""
        return bool(self.fits and self.fits[0].like)

    @property
    def choices(self) -> list[FoundReader]:
        """Return what reads the log: several where the user has to choose."""
        others = self.fits[1:] if self.is_unsure else ()
        return [*self.fits[:1], *(fit for fit in others if fit.candidate and fit.like)]


def search(lines: Sequence[str], path: Path | None = None) -> Search:
    """Return what may be the speed, the one to propose first, also in the file or folder `path`."""
    results = _of_results(path) if path and path.is_file() else None
    if results:
        return Search(fits=(results,))
    folder = path if path and path.is_dir() else None
    if len(lines) <= FIRST_LINES + LAST_LINES:
        return _search(lines, folder)
    sampled = _search([*lines[:FIRST_LINES], *lines[-LAST_LINES:]], folder)
    if not sampled.fits:
        return _search(lines, folder)
    best, *rest = sampled.fits
    readings = readings_of(best.read, lines, folder, ranks_of(lines)) or best.readings
    whole = replace(best, readings=readings)
    return replace(sampled, fits=(whole, *rest), is_sampled=bool(rest))


def _search(lines: Sequence[str], folder: Path | None) -> Search:
    most_ranks = ranks_of(lines)
    of_one_rank, num_ranks = _of_one_rank(lines, most_ranks)
    derived = candidates(list(map(without_grouping, of_one_rank)))
    patterns = list(_by_patterns(derived, lines, most_ranks))
    is_unsure = bool(patterns and patterns[0].like)
    if patterns and patterns[0].candidate:  # several lines of each step are of as many ranks
        num_lines, num_read = len(patterns[0].candidate.places), len(patterns[0].readings)
        num_ranks = max(num_ranks, num_lines // max(1, num_read))
    fits = []
    for reader in (*_by_kinds(lines, folder, most_ranks), *patterns):
        if is_unsure and reader.read == "json":
            continue  # it takes the first of those that are alike
        if any(reading.has_rate or reading.step is not None for reading in reader.readings):
            fits.append(reader)
    others = [candidate for candidate in derived if not candidate.pattern]
    return Search(fits=tuple(sorted(fits, key=_rank)), others=tuple(others), num_ranks=num_ranks)


def _of_results(file: Path) -> FoundReader | None:
    """Return what is found in a file that no program prints: a document of JSON, or a table."""
    if file.name in FILES:
        reading = HuggingFaceReader().read_file(file)
        if reading:
            return FoundReader(read="hugging_face", readings=(reading,), file=file.name)
    text = read_text(file) or ""
    header, row, *_ = [*text[:_BEGIN].splitlines(), "", ""]
    mark = delimiter_of(header)
    is_table = _HEADER.fullmatch(header.strip()) and header.count(mark) == row.count(mark)
    if not (is_table or isinstance(json_of(text), dict | list)):
        return None
    read = f"json:{file.name}"
    found = FoundReader(read=read, readings=readings_of(read, (), file.parent), file=file.name)
    return found if found.rated else None


def _of_one_rank(lines: Sequence[str], most_ranks: int | None) -> tuple[list[str], int]:
    """Return the lines of one rank without what a launcher puts before them, and how many print."""
    named = [named_rank(line, most_ranks) for line in lines]
    counts = Counter(rank for rank, _ in named if rank is not None)
    most = max(counts.values(), default=0)
    talkative = [rank for rank, count in counts.items() if 2 * count > most]
    numbers = [rank for rank in talkative if isinstance(rank, int)]
    kept = min(numbers, default=next(iter(talkative), None))
    return [text for rank, text in named if rank in (None, kept)], max(1, len(talkative))


def _rank(reader: FoundReader) -> int:
    """Order readers: known programs, items per second, times of steps, bars, then steps alone."""
    kind = reader.read.partition(":")[0]
    if not reader.rated and kind not in ("json", "regex"):
        return 6
    if kind not in ("json", "regex", "bars"):
        return 0
    if reader.has_throughput:
        return 1 if kind == "json" else 2
    if kind == "bars":
        return 4
    return 3 if any(reading.step is not None for reading in reader.rated) else 5


def _by_kinds(
    lines: Sequence[str], folder: Path | None, most_ranks: int | None
) -> Iterator[FoundReader]:
    for kind in KINDS:
        if kind == "regex":
            continue
        readings = readings_of(kind, lines, folder, most_ranks)
        # the Trainer of Hugging Face says more than its progress bar, which others show too
        is_of_trainer = any(
            reading.is_total or _TRAINER_SAYS & reading.metrics.keys() for reading in readings
        )
        if kind != "hugging_face" or is_of_trainer:
            yield FoundReader(read=kind, readings=readings)


def _by_patterns(
    derived: Sequence[Column], lines: Sequence[str], most_ranks: int | None
) -> Iterator[FoundReader]:
    fits = [candidate for candidate in derived if candidate.pattern]
    for candidate in fits:
        read = f"regex:{candidate.pattern}"
        like = [other.name for other in fits if other.is_like(candidate)]
        readings = readings_of(read, lines, None, most_ranks)
        if readings:
            yield FoundReader(read=read, readings=readings, candidate=candidate, like=tuple(like))


def readings_of(
    read: str, lines: Iterable[str], folder: Path | None, num_ranks: int | None = None
) -> tuple[Reading, ...]:
    """Return what one reader reads in a log; nothing where it cannot, as of bars that are alike."""
    with suppress(ReadError):
        reader = open_reader(read, num_ranks=num_ranks)
        readings = list(map(reader.read_line, lines))
        if folder:
            readings += reader.read_files(folder)
        return tuple(filter(None, readings))
    return ()
