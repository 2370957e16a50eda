"""Writes names, counts, numbers, shell commands and CSV rows as people and programs read them."""

import csv
import difflib
import re
import shlex
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TextIO


def as_typed(value: object) -> str:
    """Return a value as the command line takes it: `true` for True."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


def counted(count: int, what: str) -> str:
    """Return `1 trial` or `3 trials`."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def listed(names: Sequence[str]) -> str:
    """Return `a, b and c`."""
    if len(names) == 1:
        return names[0]
    return f"{', '.join(names[:-1])} and {names[-1]}"


def shortened(names: Sequence[str], most: int) -> list[str]:
    """Return each once; of more than `most` the first ones, and how many more there are."""
    distinct = list(dict.fromkeys(names))
    if len(distinct) <= most:
        return distinct
    return [*distinct[: most - 1], f"{len(distinct) - most + 1} more"]


def did_you_mean(
    name: str, known: Iterable[str], otherwise: str = "", *, form: str = "{}", cutoff: float = 0.6
) -> str:
    """Ask for the nearest known name, written in a form; return `otherwise` where none is near."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=cutoff)
    if near:
        return f"did you mean {form.format(near[0])}?"
    return otherwise


def duration_text(seconds: float) -> str:
    """Return a duration as people say it: 0.4 s, 40 s, 12 min, 3 h 05 min, 2 d 4 h."""
    if 0 < seconds < 1:
        return f"{round(seconds, 1):g} s"
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes:02d} min"
    return f"{hours // 24} d {hours % 24} h"


_HUGE = 1e15  # from here on a float no longer holds every digit


def fixed(value: float, decimals: int) -> str:
    """Return 91.80, or 1.234e+300 for what is 1e15 or more."""
    if abs(value) >= _HUGE:
        return f"{value:.4g}"
    return f"{value:.{decimals}f}"


_NUMBER = re.compile(r"(\d+(?:\.\d+)?)")

SortKey = tuple[tuple[int, float, str], ...]


@lru_cache(maxsize=4096)  # rows of a table say the same again and again
def natural(text: str) -> SortKey:
    """Return a key to sort by, which compares runs of digits as numbers, and these before words."""
    parts = []
    # with one group in the pattern, every second part is a number
    for place, part in enumerate(_NUMBER.split(text)):
        if place % 2:
            parts.append((0, float(part), part))
        elif part:
            parts.append((1, 0.0, part))
    return tuple(parts)


_UNSAFE = re.compile(r"[^\w.,+=@()\[\] -]+", re.ASCII)
_LONGEST = 150  # characters; most file systems take 255 bytes, and more is added to it


def safe_name(text: str) -> str:
    """Replace what is unsafe in a file name, as `/` and `:` of `models/my_model.py:build`."""
    return _UNSAFE.sub("_", text).lstrip(".").strip()[:_LONGEST]


_WORD = re.compile(
    r"""(?:\$'(?:[^'\\]|\\.)*'|'[^']*'|"(?:[^"\\]|\\.)*"|\\.|[^\s'"\\])+""", re.DOTALL
)
_GOES_ON = " \\"


def joined(arguments: Iterable[str]) -> str:
    """Return a command line, with invisible characters as escapes: one pastes what one reads."""
    return " ".join(map(_quoted, arguments))


def continued(command: str, width: int) -> list[str]:
    """Return a command as lines of a width, which a shell joins by the backslashes at their ends.

    A word that is longer stays whole. Each line of a comment is one, so that no shell runs a part
    of it.
    """
    if command.startswith("#"):
        return [f"# {line}" for line in continued(command.removeprefix("# "), width - 2)]
    words = _WORD.findall(command)
    if len(command) <= width or " ".join(words) != command:
        return [command]
    lines = [words[0]]
    for word in words[1:]:
        if len(lines[-1]) + len(f" {word}{_GOES_ON}") <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(f"  {word}")
    return [*(f"{line}{_GOES_ON}" for line in lines[:-1]), lines[-1]]


def _quoted(argument: str) -> str:
    if argument.isprintable():
        return shlex.quote(argument)
    quoted = argument.replace("\\", r"\\").replace("'", r"\'")
    shown = ""
    for character in quoted:
        if character.isprintable():
            shown += character
        elif character.isascii():
            shown += f"\\x{ord(character):02x}"
        else:
            shown += f"\\U{ord(character):08x}"
    return f"$'{shown}'"


_BEGIN_FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n")
_QUOTED = "\r\n"
"""The standard library quotes cells with a character of its own line end, and no other."""


def without_numbers(text: str) -> str:
    """Return what is alike in sentences that give their own numbers."""
    return re.sub(r"[0-9][0-9.,]*", "", text)


def in_all(lists: Sequence[Sequence[str]]) -> list[str]:
    """Return what stands in every list, in the order of the first."""
    shared = set(lists[0]).intersection(*lists)
    return list(filter(shared.__contains__, lists[0]))


def guarded(text: str) -> str:
    """Put an apostrophe before text that a spreadsheet would take for a formula."""
    if text.startswith(_BEGIN_FORMULAS):
        return f"'{text}"
    return text


class CsvLines:
    """Writes rows, each ended by "\\n"."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._writer = csv.writer(self, lineterminator=_QUOTED)

    def write_rows(self, rows: Iterable[Iterable[object]]) -> None:
        self._writer.writerows(rows)

    def write(self, row: str) -> int:
        """Take one row from the standard library."""
        return self._out.write(f"{row.removesuffix(_QUOTED)}\n")
