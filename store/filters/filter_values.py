"""What stands behind a filter's operator, read as the type its name has. Raises StoreError with
what was found and wanted.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

import sqlalchemy as sa

from store.errors import StoreError

_MOST_SHOWN = 80  # characters of a value, in a message
_LONGEST_PATTERN = 50_000  # bytes that SQLite takes
_LARGEST = 2**63 - 1
_YES_OR_NO = {"true": True, "yes": True, "false": False, "no": False}


class _Told(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def operator(self) -> str: ...
    @property
    def value(self) -> str: ...


def shortened(text: str) -> str:
    """As a message shows it: not longer than a line, nothing that a terminal would obey."""
    cut = text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."
    return cut if cut.isprintable() else repr(cut)[1:-1]


def checked(text: str, what: str) -> str:
    """Text that every database can hold. Raises StoreError, which calls it `what`."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise StoreError(f"{what}{shortened(text)}: not valid UTF-8") from None
    if "\0" in text:
        raise StoreError(
            f"{what}{shortened(text)}: has a zero byte, which no database takes for text"
        )
    return text


def several(one: _Told, most: int) -> list[str]:
    """Values between commas. A backslash makes a comma, or an equals sign at the beginning, part of
    a value.
    """
    found = [
        re.sub(r"^\\=", "=", value.replace(r"\,", ","))
        for value in re.split(r"(?<!\\),", one.value)
    ]
    if len(found) > most:
        raise StoreError(f"{one}: {len(found)} values; wanted {most} or fewer")
    return found


def single(one: _Told) -> str:
    if "," in one.value:
        raise StoreError(f"{one}: {one.operator} compares with one value; several go with = and !=")
    return one.value


def pattern(one: _Told) -> str:
    if len(one.value.encode()) > _LONGEST_PATTERN:
        raise StoreError(f"{one}: wanted a pattern of {_LONGEST_PATTERN} bytes or fewer")
    return one.value


def whole(one: _Told, value: str) -> int:
    try:
        found = int(value)
    except ValueError:
        raise StoreError(
            f"{one}: {one.name} is a whole number; found {shortened(value) or 'nothing'}"
        ) from None
    if abs(found) > _LARGEST:
        raise StoreError(f"{one}: wanted a whole number between -2**63 and 2**63")
    return found


def whole_number(one: _Told, value: str) -> sa.ColumnElement[Any]:
    return sa.literal(whole(one, value), sa.BigInteger)


def real(one: _Told, value: str) -> float:
    try:
        found = float(value)
    except ValueError:
        raise StoreError(
            f"{one}: {one.name} is a number; found {shortened(value) or 'nothing'}"
        ) from None
    if not math.isfinite(found):
        raise StoreError(f"{one}: wanted a finite number; found {value}")
    return found


def number(one: _Told, value: str) -> sa.ColumnElement[Any]:
    return sa.literal(real(one, value), sa.Double)


def boolean(one: _Told, value: str) -> bool:
    found = _YES_OR_NO.get(value.strip().lower())
    if found is None:
        raise StoreError(
            f"{one}: {one.name} is true or false, yes or no; found {shortened(value) or 'nothing'}"
        )
    return found


ID_BEGINNING = "beginning of a trial's id (4 hexadecimal digits or more)"
"""What may name a trial on command lines: fewer characters than that name one by chance."""


def begins_id(text: str) -> bool:
    """Whether a trial may be named so."""
    return re.fullmatch("[0-9a-f]{4,16}", text) is not None


def beginning_of_id(one: _Told, value: str) -> str:
    if not begins_id(value):
        wanted = "the beginning of a trial's id, 4 to 16 of 0-9 and a-f"
        raise StoreError(f"{one}: wanted {wanted}; found {shortened(value) or 'nothing'}")
    return value


def time_span(one: _Told, value: str) -> tuple[datetime, datetime]:
    """From the first moment that a date or a time means, to the first after: a day, a minute, a
    second or less.
    """
    told = _TIME.fullmatch(value.strip())
    try:
        if told is None:
            raise ValueError
        found = datetime.fromisoformat(value.strip())
        begin = (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
        length = next(length for part, length in _LENGTHS.items() if told[part] is not None)
        return begin, begin + length
    except (ValueError, OverflowError):
        wanted = (
            "a date as 2026-11-21, or a time as 2026-11-21T12:30 (UTC) or 2026-11-21T12:30+02:00"
        )
        raise StoreError(f"{one}: wanted {wanted}; found {shortened(value) or 'nothing'}") from None


_TIME = re.compile(
    r"(?P<day>\d{4}-\d\d-\d\d)([T ](?P<minute>\d\d:\d\d)(?P<second>:\d\d(?P<less>\.\d{1,6})?)?(Z|[+-]\d\d:?\d\d)?)?",
    re.ASCII,
)
_LENGTHS = {
    "less": timedelta(microseconds=1),
    "second": timedelta(seconds=1),
    "minute": timedelta(minutes=1),
    "day": timedelta(days=1),
}
