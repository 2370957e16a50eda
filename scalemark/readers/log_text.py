"""Reads the lines of a log, of a program that runs, and of files that it left."""

import codecs
import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from scalemark.run_folder import open_regular, read_regular

MOST_CHARACTERS = 16_384
"""Length of a line that readers get; what is beyond is dropped."""

_ENDS = re.compile(rb"[\r\n\x08]+")  # a carriage return or backspaces: the next update of a bar
_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-_]|[\x00-\x07\x0b-\x1f\x7f]"
)

_NAMED_RANKS = re.compile(  # as launchers put them before lines
    r"""\s*(?:
      \[(?:(?P<local>default)|rank|xla:)\s?(?P<torch>\d+)(?:\|\d+)?\]:? # torchrun, PyTorch
    | \[\d+,(?P<mpi>\d+)\](?:<\w+>)?: | \[(?P<horovod>\d+)\]<\w+>: # mpirun, horovodrun
    | (?:rank|worker|gpu)[ -]?(?P<word>\d+):
    | (?P<mere>\[\d+\]:|\d+:(?=\s|\[))                       # horovodrun, srun --label; or a step
    | \((?P<ray>(?:\w+\s)?(?:\w+=)?pid=[^)]*)\)(?:\s\[repeated[^\]]*\])?
    | \[(?P<pod>pod/[^\]]+)\]                               # kubectl logs --prefix
    | (?P<host>(?:[a-z][a-z\d.]*-[\w.-]*\d[\w.-]*|(?:node|host|ip|nid|dgx|cn|compute|gpu|n)[\w.-]*\d
        [\w.-]*|\d+\.\d+\.\d+\.\d+))            # pdsh; a mere number after it is a figure of it
        :(?=\s+(?:[^\s\d.+-]|\d+(?:/\d|%\||it\b|[-:]\d\d|:\s|\s*[|\t])))
    )\s*""",
    re.IGNORECASE | re.VERBOSE,
)


def named_rank(line: str, num_ranks: int | None = None) -> tuple[int | str | None, str]:
    """Return the rank or the host that a launcher names before a line, and the rest of it.

    A mere number, as `10: ` or `[10]: `, may be a step as well: of `num_ranks` or more it is one.
    """
    prefixes = _prefixes(line, num_ranks)
    if not prefixes:
        return None, line
    name, *inner = map(_name_of, prefixes)
    if isinstance(name, str) and inner:  # of several that a host has
        is_of_host = prefixes[1]["local"] or isinstance(inner[0], str)
        name = f"{name} {inner[0]}" if is_of_host else inner[0]
    return name, line[prefixes[-1].end() :]


def _prefixes(line: str, num_ranks: int | None) -> list[re.Match[str]]:
    """Return what a launcher puts before a line, and the program below it, which names its rank."""
    prefixes: list[re.Match[str]] = []
    while len(prefixes) < 2:
        prefix = _NAMED_RANKS.match(line, prefixes[-1].end() if prefixes else 0)
        if not prefix:
            break
        name = _name_of(prefix)
        if prefix.lastgroup == "mere" and isinstance(name, int):
            outer = _name_of(prefixes[0]) if prefixes else ""
            is_of_other = isinstance(outer, int) and outer != name
            if is_of_other or (num_ranks is not None and name >= num_ranks):
                break
        prefixes.append(prefix)
    return prefixes


def _name_of(prefix: re.Match[str]) -> int | str:
    name = prefix[prefix.lastgroup or ""].strip("[]:")
    return int(name) if name.isdigit() else name


_MOST_MERE_RANKS = 64
_COUNTS_UP = 0.9  # of neighbors


def ranks_of(lines: Sequence[str]) -> int | None:
    """Return 0 where mere numbers before lines are no ranks, as steps of epochs; else None."""
    numbers: list[tuple[str, int]] = []  # and the hosts before them
    for line in lines:
        prefixes = _prefixes(line, None)
        if prefixes and prefixes[-1].lastgroup == "mere":
            numbers.append((line[: prefixes[-1].start()], int(_name_of(prefixes[-1]))))
    num_distinct = len(set(numbers))
    num_counting = sum(after[1] == before[1] + 1 for before, after in pairwise(numbers))
    counts_up = num_distinct > _MOST_MERE_RANKS and num_counting > _COUNTS_UP * len(numbers)
    return 0 if 2 * num_distinct > len(numbers) or counts_up else None


class Lines:
    """Cuts bytes as they arrive into lines without escapes, of bounded length. A line is as old as
    its last character: bars of tqdm and Keras 3 wait for the next one to be ended.
    """

    def __init__(self) -> None:
        self._begun = b""  # of a line that has not ended, at most MOST_CHARACTERS
        self._begun_s = 0.0  # when the last of that came
        self._utf16: codecs.IncrementalDecoder | None = None
        self._is_first = True

    def feed(self, chunk: bytes, arrival_s: float = 0.0) -> Iterator[tuple[str, float]]:
        """Yield the lines that end within a chunk, and when the last character of each came."""
        if self._is_first and chunk:
            self._is_first = False
            if chunk.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):  # of PowerShell
                self._utf16 = codecs.getincrementaldecoder("utf-16")(errors="replace")
        if self._utf16:
            chunk = self._utf16.decode(chunk).encode(errors="replace")
        *ended, rest = _ENDS.split(chunk.replace(b"\0", b""))
        for piece in ended:
            line = cleaned((self._begun + piece)[:MOST_CHARACTERS].decode(errors="replace"))
            if line:
                yield line, arrival_s if piece else self._begun_s
            self._begun = b""
        self._begun = (self._begun + rest[:MOST_CHARACTERS])[:MOST_CHARACTERS]
        if rest:
            self._begun_s = arrival_s

    def end(self) -> Iterator[tuple[str, float]]:
        """Yield the last line, where the output ends without a newline."""
        yield from self.feed(b"\n")


def cleaned(line: str) -> str:
    """Return a line as a terminal would show it last: no colors, no control characters."""
    if line.isprintable():
        return line[:MOST_CHARACTERS]
    for shown in reversed(re.split(r"[\r\n\x08]+", line[:MOST_CHARACTERS])):
        if shown.strip():
            return _ESCAPES.sub("", shown)
    return ""


def read_text(path: Path) -> str | None:
    """Return the text of a file; None where it cannot be read or is no text."""
    try:
        return read_regular(path)
    except (OSError, ValueError):
        return None


def json_of(text: str | None) -> object:
    """Return what a text of JSON holds; None where it is none."""
    try:
        content: object = json.loads(text or "null")
    except (ValueError, RecursionError):
        return None
    return content


HALF_BYTES = 2**21
"""How much is read of the begin of a log, and of its end."""

OUTPUT_FILE = "log.txt"  # what our run folders call the output of a program
_NEIGHBORS = 40  # before the last line
_NUMBERS = re.compile(r"[\d.,]+")
_PRINTED = bytes(range(32, 256)) + b"\t\n\r\x08\x0c\x1b"
_MOST_CONTROLS = 0.1  # of the bytes of a text
_PACKED = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7z": "xz", b"\x28\xb5": "zstd", b"PK": "zip"}
_DATABASE = b"SQLite format 3\0"


class LogError(Exception):
    """A file cannot be read as a log. The text says what was found, and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogText:
    """The lines of a log without colors and control characters."""

    lines: tuple[str, ...]
    num_bytes: int  # of all files
    is_whole: bool  # whether nothing in the midst was left out


def log_text(path: Path) -> LogText:
    """Return the lines of a file, or of the output in a run folder. Raises LogError."""
    try:
        path = path.resolve(strict=True)
        if not path.is_dir():
            return _text_of(path)
        output = path / OUTPUT_FILE
        if output.is_file() and not output.is_symlink():
            return _text_of(output)
    except (OSError, RuntimeError) as error:
        reason = error.strerror if isinstance(error, OSError) else ""
        raise LogError(reason or str(error)) from error
    return LogText(lines=(), num_bytes=0, is_whole=True)


def _text_of(path: Path) -> LogText:
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        begin = file.read(HALF_BYTES)
        _refuse_binary(begin)
        rest_at = max(HALF_BYTES, size - HALF_BYTES)
        file.seek(rest_at)
        end = file.read(HALF_BYTES)
    is_whole = rest_at == HALF_BYTES
    if is_whole:
        lines = _lines(begin + end)
    else:  # without the lines that are cut, of which a number may be half
        last_end = max(begin.rfind(b"\n"), begin.rfind(b"\r"))  # bars may have no other
        first_end = _ENDS.search(end)
        lines = _lines(begin[: last_end + 1])
        if first_end:
            lines += _lines(end[first_end.end() :])
    return LogText(lines=tuple(lines), num_bytes=size, is_whole=is_whole)


def _lines(content: bytes) -> list[str]:
    """Return lines, but a last one that may be cut in its number only where no other is like it."""
    lines = Lines()
    texts = [line for line, _ in lines.feed(content)]
    for last, _ in lines.end():
        forms = [_NUMBERS.sub("", line) for line in texts[-_NEIGHBORS:]]
        if not last[-1].isdigit() or _NUMBERS.sub("", last) not in forms:
            texts.append(last)
    return texts


def _refuse_binary(begin: bytes) -> None:
    for mark, name in _PACKED.items():
        if begin.startswith(mark):
            raise LogError(f"it is packed by {name}; unpack it first")
    if begin.startswith(_DATABASE):
        raise LogError("it is a SQLite database; wanted the text that a program printed")
    if begin.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return
    text = begin.replace(b"\0", b"")  # a log that was cut while it was written has some
    num_controls = len(text.translate(None, _PRINTED))
    num_others = text.decode(errors="replace").count("\ufffd")
    if begin and num_controls + num_others >= _MOST_CONTROLS * len(text):
        raise LogError("it is binary; wanted the text that a program printed")
