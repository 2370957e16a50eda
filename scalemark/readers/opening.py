"""Opens the reader that `read=KIND[:ARGUMENT]` names; the folder `kinds/` is the registry."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from importlib import import_module
from inspect import signature
from pathlib import Path

from scalemark.readers.log_text import cleaned, named_rank
from scalemark.readers.words import without_grouping
from scalemark.text.untrusted import quoted
from scalemark.text.wording import did_you_mean


class ReadError(Exception):
    """Raised for a `read=` that names no reader, or a pattern that cannot be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The numbers of one line of output, or of one entry of a file."""

    throughput: float | None = None  # items/s, positive and finite; None where there is no rate
    step: int | None = None  # steps done so far over all epochs, where the program says
    epoch_began: int = field(default=0, compare=False)  # after how many of these
    steps_before: int = 0  # of these, before their numbers began anew without that of an epoch
    unsure_steps: int = 0  # by which `step` may be wrong, as the length of epochs is not known
    steps_fall: bool = False  # their numbers are of steps that are left
    time_s: float | None = None  # on the program's own clock; None: the line's arrival counts
    step_s: float | None = None  # seconds per step, where that is what the program prints
    items_per_step: float | None = None  # of one GPU if per_gpu, else of all
    is_total: bool = False  # of the whole run: kept as reported by the program
    is_mean: bool = False  # over all steps of the run or the epoch, or smoothed; no window of it
    item: str = ""  # what is counted (images, tokens, samples), where the output says
    per_gpu: bool | None = None  # None: the output does not say
    line_words: frozenset[str] = field(
        default=frozenset(), compare=False
    )  # where a pattern is read
    unusable: str = ""  # what stood where a rate was expected, as nan; then there is none
    metrics: Mapping[str, float] = field(default_factory=dict)  # others, as loss; may be nan

    @property
    def has_rate(self) -> bool:
        return self.throughput is not None or self.step_s is not None

    @property
    def is_of_metrics(self) -> bool:
        """Return whether it has nothing but numbers beside the speed."""
        return self == Reading(metrics=self.metrics)


class Reader(ABC):
    """Reads the output of one kind of program. It keeps state: use a new one for each attempt."""

    wanted_item = ""  # what the trial counts: chooses where a program tells of several items
    num_ranks: int | None = None  # of the program, where that is known: see named_rank
    takes_prefixes = False  # it gets what launchers put before lines: the user's words may name it
    rated_ranks: Collection[int | str] = ()  # those named before lines with a rate of any number
    num_repeated = 0  # lines with a rate of a step that was read before

    @abstractmethod
    def read_line(self, line: str) -> Reading | None:
        """Return what a line says; None: nothing. Raises ReadError where a pattern takes long."""

    def at_end(self) -> Iterator[Reading]:
        """Yield what the last lines say, which no line of a rate followed."""
        return iter(())

    def read_files(self, folder: Path) -> Iterator[Reading]:
        """Yield what the files say that the program left in its run folder once it has ended."""
        return iter(())


_FOLDER = Path(__file__).parent / "kinds"
KINDS = tuple(sorted(path.stem for path in _FOLDER.glob("[a-z]*.py")))
"""What may stand before the colon of `read`."""

_OTHER_NAMES = {"tqdm": "bars", "keras": "bars"}

FASTEST_STEP_S = 0.001  # of training: what is counted faster may be items, as environment steps
_MOST_QUOTED = 60


def open_reader(text: str, item: str = "", num_ranks: int | None = None) -> Reader:
    """Return a new reader, as `bars` or `regex:images/sec: ([0-9.,]+)`. Raises ReadError.

    Of several items, as samples and tokens, `item` chooses; at most `num_ranks` ranks print.
    """
    kind, colon, argument = text.partition(":")
    kind, argument = kind.strip(), argument.strip()
    kind = _OTHER_NAMES.get(kind, kind)
    if kind not in KINDS:
        otherwise = f"choose one of {', '.join(KINDS)}, and `scalemark read LOG` says which"
        of_other = did_you_mean(kind.lower(), _OTHER_NAMES, otherwise, form="bars")
        meant = did_you_mean(kind.lower(), KINDS, of_other)
        raise ReadError(f"found read={quoted(kind, _MOST_QUOTED)}, which is no reader; {meant}")
    if colon and not argument:
        raise ReadError(f"found read={kind}: with nothing after the colon; {about(kind)}")
    create = import_module(f"scalemark.readers.kinds.{kind}").create
    takes_argument = bool(signature(create).parameters)  # as bars[:TEXT] does
    if argument and not takes_argument:
        raise ReadError(
            f"found read={kind}:{quoted(argument, _MOST_QUOTED)}, but {kind} takes nothing after "
            f"its name; write read={kind}"
        )
    reader: Reader = create(argument) if takes_argument else create()
    reader.wanted_item, reader.num_ranks = item, num_ranks
    return _Cleaned(reader)


def about(kind: str) -> str:
    """Return what a kind reads, and which argument it takes."""
    said: str = import_module(f"scalemark.readers.kinds.{kind}").ABOUT
    return said


class _Cleaned(Reader):
    """Hands lines to a reader: without colors, and with plain numbers. Of ranks that are named each
    has a reader of its own until the lowest that tells anything is known: the others say the same.
    """

    def __init__(self, reader: Reader) -> None:
        self.wanted_item, self.takes_prefixes = reader.wanted_item, reader.takes_prefixes
        self.num_ranks = reader.num_ranks
        self._readers: dict[int | str | None, Reader] = {None: reader}
        self._rank: int | str | None = None  # the one that is read, or may be
        self._has_told = False
        self.rated_ranks: set[int | str] = set()

    def read_line(self, line: str) -> Reading | None:
        line = cleaned(line)
        rank, rest = named_rank(line, self.num_ranks)
        text = line if self.takes_prefixes else without_grouping(rest)
        if rank is None:  # as of a bar that is drawn anew without a prefix, or of all ranks
            readings = {name: reader.read_line(text) for name, reader in self._readers.items()}
            self._has_told = self._has_told or readings[self._rank] is not None
            self.num_repeated = self._readers[self._rank].num_repeated
            return readings[self._rank]
        is_lower = self._rank is None
        if isinstance(rank, int) and isinstance(self._rank, int):  # hosts have no order
            is_lower = rank < self._rank
        is_left_out = self._has_told and rank != self._rank and not is_lower
        if is_left_out and rank in self.rated_ranks:
            return None
        if rank not in self._readers:
            self._readers[rank] = deepcopy(self._readers[None])
        if is_lower and not self._has_told:
            self._rank = rank
        reading = self._readers[rank].read_line(text)
        if reading and reading.throughput is not None and reading.per_gpu is None:
            self.rated_ranks.add(rank)
        if is_left_out:
            return None
        if reading and not reading.is_of_metrics:
            self._rank, self._has_told = rank, True
        return reading

    def at_end(self) -> Iterator[Reading]:
        return self._readers[self._rank].at_end()

    def read_files(self, folder: Path) -> Iterator[Reading]:
        return self._readers[self._rank].read_files(folder)
