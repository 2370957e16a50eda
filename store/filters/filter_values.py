"""One filter of a command line, and its value read as the type that its name has.

All functions raise StoreError, which says what was found and what was wanted.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NoReturn

from store.errors import StoreError

_MOST_SHOWN = 80  # characters of a value, in a message
_MOST_VALUES = 10_000  # SQLite takes 32,767 in one statement
_LONGEST_PATTERN = 20_000  # PostgreSQL gives up on expressions of some 50,000
_LARGEST = 2**63 - 1
_YES_OR_NO = {"true": True, "yes": True, "false": False, "no": False}


@dataclass(frozen=True, slots=True)
class Filter:
    """One condition, as `num_gpus>=4`: a name, an operator, and a value."""

    name: str
    operator: str
    value: str

    def __str__(self) -> str:
        return shortened(f"{self.name}{self.operator}{self.value}")

    def refuse(self, wanted: str, value: str) -> NoReturn:
        raise StoreError(f"{self}: {wanted}; found {shortened(value) or 'nothing'}")

    def check_operator(self, operators: Sequence[str]) -> None:
        if self.operator not in operators:
            raise StoreError(
                f"{self}: {self.operator} does not suit {self.name}; wanted one of "
                f"{' '.join(operators)}"
            )


def shortened(text: str) -> str:
    """Cut text to a line, without anything that a terminal would obey."""
    cut = text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."
    return cut if cut.isprintable() else repr(cut)[1:-1]


def checked(text: str, what: str) -> str:
    """Return text that every database can hold. Messages call it `what`."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise StoreError(f"{what}{shortened(text)}: not valid UTF-8") from None
    if "\0" in text:
        raise StoreError(
            f"{what}{shortened(text)}: has a zero byte, which no database takes for text"
        )
    return text


def several(asked: Filter) -> list[str]:
    r"""Split values at commas. `\,` is a comma within a value, and `\=` an equals sign at its
    beginning.
    """
    values = re.split(r"(?<!\\),", asked.value)
    if len(values) > _MOST_VALUES:
        raise StoreError(f"{asked}: {len(values)} values; wanted {_MOST_VALUES} or fewer")
    return [re.sub(r"^\\=", "=", value.replace(r"\,", ",")) for value in values]


def escaped(value: str) -> str:
    """Write a value so that `several` reads it as one."""
    return re.sub("^=", r"\\=", value.replace(",", r"\,"))


def single(asked: Filter) -> str:
    if "," in asked.value:
        raise StoreError(
            f"{asked}: {asked.operator} compares with one value; several go with = and !="
        )
    return asked.value


def pattern(asked: Filter) -> str:
    """Return a regular expression for `*` (any characters) and `?` (one character), which Python,
    SQLite and PostgreSQL read alike.
    """
    if len(asked.value) > _LONGEST_PATTERN:
        raise StoreError(f"{asked}: wanted a pattern of {_LONGEST_PATTERN} characters or fewer")
    escaped = re.escape(asked.value).replace(r"\*", ".*").replace(r"\?", ".")
    return rf"(?s)\A{escaped}\Z"


def whole(asked: Filter, value: str) -> int:
    try:
        number = int(value)
    except ValueError:
        asked.refuse(f"{asked.name} is a whole number", value)
    if abs(number) > _LARGEST:
        raise StoreError(f"{asked}: wanted a whole number between -2**63 and 2**63")
    return number


def real(asked: Filter, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        asked.refuse(f"{asked.name} is a number", value)
    if not math.isfinite(number):
        asked.refuse("wanted a finite number", value)
    return number


def boolean(asked: Filter, value: str) -> bool:
    answer = _YES_OR_NO.get(value.strip().lower())
    if answer is None:
        asked.refuse(f"{asked.name} is true or false, yes or no", value)
    return answer


ID_BEGINNING = "beginning of a trial's id (4 hexadecimal digits or more)"
"""What may name a trial on command lines: fewer characters than that name one by chance."""


def begins_id(text: str) -> bool:
    return re.fullmatch("[0-9a-f]{4,16}", text) is not None


def beginning_of_id(asked: Filter, value: str) -> str:
    if not begins_id(value):
        asked.refuse("wanted the beginning of a trial's id, 4 to 16 of 0-9 and a-f", value)
    return value


def time_span(asked: Filter, value: str) -> tuple[datetime, datetime]:
    """Return the first moment that a date or a time means, and the first moment after it."""
    form = _TIME.fullmatch(value.strip())
    try:
        if form is None:
            raise ValueError
        moment = datetime.fromisoformat(value.strip())
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        begin = moment.astimezone(UTC)
        length = next(length for part, length in _LENGTHS.items() if form[part] is not None)
        return begin, begin + length
    except (ValueError, OverflowError):
        asked.refuse(
            "wanted a date as 2026-11-21, or a time as 2026-11-21T12:30 (UTC) or "
            "2026-11-21T12:30+02:00",
            value,
        )


_TIME = re.compile(
    r"(?P<day>\d{4}-\d\d-\d\d)"
    r"([T ](?P<minute>\d\d:\d\d)(?P<second>:\d\d(?P<less>\.\d{1,6})?)?(Z|[+-]\d\d:?\d\d)?)?",
    re.ASCII,
)
_LENGTHS = {  # from the finest part, so that the first one that is given counts
    "less": timedelta(microseconds=1),
    "second": timedelta(seconds=1),
    "minute": timedelta(minutes=1),
    "day": timedelta(days=1),
}
