"""Reads numbers as programs print them: `1,234.5`, `1.2k`, `5e-3`, `300ms`, `1:02:03`."""

from __future__ import annotations

import math
import re
from contextlib import suppress

_PLAIN = r"[-+]?(?:\d(?:[\d_]|,(?=\d))*+(?:\.\d++)?+|\.\d++)(?:[eE][-+]?\d+)?+"
NUMBER = rf"(?:{_PLAIN}(?:[kKMGBT](?![A-Za-z0-9]))?|[-+]?(?:nan|inf)\b)"
"""A number within a line; a unit may follow at once, as in `561.94ms`."""

_FORM = re.compile(r"([-+]?)(\d[\d,_]*(?:\.\d*)?|\.\d+)([eE][-+]?\d+)?\s?([kKMGBT]?)")
_MULTIPLES = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "B": 1e9, "T": 1e12}
SECONDS = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1.0),
    **dict.fromkeys(("ms", "msec", "msecs", "millisecond", "milliseconds"), 1e-3),
    **dict.fromkeys(("us", "usec", "µs", "microsecond", "microseconds"), 1e-6),
    **dict.fromkeys(("min", "mins", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hour", "hours"), 3600.0),
}
"""Units of time and what they are in seconds."""

_DURATION = re.compile(r"(.*?[\d.])\s*([a-zµ]+)")
_CLOCK = re.compile(r"(?:(\d+):)?(\d+):(\d+(?:\.\d+)?)")


_GROUPS = re.compile(r"(?<=\d)['\u2019\u00a0\u2009\u202f](?=\d{3}(?!\d))")
_SPACED = re.compile(  # behind a number, a bound, or what a rate is called: nothing else claims it
    r"((?:\d|[|,;(]|/s(?:ec)?\b\s?[:=]?|throughput\s?[:=]?|speed\s?[:=]?)\s+)(\d{1,3}(?: \d{3})+)"
    r"(?=(?:\.\d+)?(?:\s?[A-Za-z]+\s?(?:/|per)\s?s|\s*(?:[|,;)]|$)))",
    re.IGNORECASE,
)
_MAYBE_SPACED = re.compile(r"\d \d{3}(?!\d)")


def without_grouping(line: str) -> str:
    """Return a line whose numbers are not grouped by apostrophes or spaces any more: 12 345 img/s.

    A space groups only where no word before the number claims its first digits, as `step 12 345`.
    """
    line = _GROUPS.sub("", line)
    if not _MAYBE_SPACED.search(line):
        return line
    return _SPACED.sub(lambda match: match[1] + match[2].replace(" ", ""), line)


def number(text: str) -> float | None:
    """Return the number that a text is, which may be nan or infinite; None where it is none.

    A comma before each three digits groups them, a single other one is a decimal comma.
    """
    text = text.strip().rstrip(",.;")
    with suppress(ValueError):
        value = float(text)
        return math.nan if math.isnan(value) else value  # one object: readings compare equal
    form = _FORM.fullmatch(text)
    if not form:
        return None
    sign, digits, exponent, multiple = form.groups()
    plain = _without_groups(digits.replace("_", ""))
    if plain is None:
        return None
    return float(f"{sign}{plain}{exponent or ''}") * _MULTIPLES[multiple]


def usable_rate(text: str) -> float | None:
    """Return a positive, finite number; None for all else, as nan, infinity or zero."""
    rate = number(text)
    return rate if rate is not None and rate > 0 and math.isfinite(rate) else None


def whole(text: str) -> int | None:
    """Return a number without a fraction, as a step is."""
    value = number(text)
    if value is None or not math.isfinite(value) or value != int(value):
        return None
    return int(value)


def seconds(text: str) -> float | None:
    """Return a duration in seconds, from `0.5`, `300ms`, `2 min` or `1:02:03`."""
    text = text.strip()
    clock = _CLOCK.fullmatch(text)
    if clock:
        hours, minutes, rest = clock.groups()
        return int(hours or 0) * 3600 + int(minutes) * 60 + float(rest)
    with_unit = _DURATION.fullmatch(text)
    if not with_unit:
        return number(text)
    amount, unit = number(with_unit[1]), SECONDS.get(with_unit[2])
    return None if amount is None or unit is None else amount * unit


def _without_groups(digits: str) -> str | None:
    whole_part, point, fraction = digits.partition(".")
    first, *groups = whole_part.split(",")
    if not groups:
        return digits
    if first != "0" and all(len(group) == 3 for group in groups):
        return first + "".join(groups) + point + fraction
    return f"{first}.{groups[0]}" if len(groups) == 1 and not point else None
