"""Axes that a sweep brings itself: `+axes.zero=0,1,2`, and the time of a row."""

from __future__ import annotations

import math
import re
from collections.abc import Container, Mapping
from datetime import date, datetime

from scalemark.records import environment_axes
from scalemark.records.axes import AxisValue

FreeAxes = tuple[tuple[str, AxisValue], ...]
"""Name, with the prefix, and value of each, in the order of the names."""

PREFIX = "axes."
PREFIXES = (PREFIX, environment_axes.PREFIX)

_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}", re.ASCII)
_LONGEST_TEXT = 200
_LARGEST_WHOLE = 2**53  # beyond it a float stands for several whole numbers


def free_axes(values: Mapping[str, object]) -> FreeAxes:
    """Return free axes in canonical form, whether their names have the prefix or not. Raises
    ValueError for an impossible name or value, and for a name that is given twice.
    """
    found: dict[str, AxisValue] = {}
    for name, value in values.items():
        own = str(name).removeprefix(PREFIX)
        if environment_axes.is_variable(own):
            found[own] = environment_axes.checked(bare_name(own), value)
            continue
        if not _NAME.fullmatch(own):
            raise ValueError(
                f"{PREFIX}{own}: wanted a name of lower-case letters, digits and _, with a "
                "letter first and 40 characters at most"
            )
        if f"{PREFIX}{own}" in found:
            raise ValueError(f"{PREFIX}{own} is named twice")
        found[f"{PREFIX}{own}"] = _canonical(own, value)
    return tuple(sorted(found.items()))


def is_free(name: str) -> bool:
    """Return whether it is the full name of a free axis."""
    return name.startswith(PREFIXES)


def bare_name(name: str) -> str:
    """Return a name without the prefix of free axes, if it has one."""
    return name.removeprefix(PREFIX).removeprefix(environment_axes.PREFIX)


def full_name(name: str, known: Container[str]) -> str:
    """Return the name with the prefix that it has among the known names; as it is where it is
    known so, or not at all.
    """
    if name not in known:
        for prefix in PREFIXES:
            if f"{prefix}{name}" in known:
                return f"{prefix}{name}"
    return name


def name_in_records(name: str) -> str:
    """Return the name by which records hold a free axis: the bare one, but of variables."""
    return name.removeprefix(PREFIX)


def name_of_record(name: str) -> str:
    """Invert `name_in_records`."""
    return name if is_free(name) else f"{PREFIX}{name}"


def _canonical(name: str, value: object) -> AxisValue:
    """Return 1 for 1.0 and "1", and "true" for true, so that equal values are one trial and 1 and
    true, which are equal in Python, are two. Text that is written otherwise than the number stays
    text: "2.10" is another version than 2.1, and only text brings a program these characters.
    """
    if isinstance(value, bool):
        return str(value).lower()
    wanted = "text, a number, true or false"
    if isinstance(value, str):
        if 0 < len(value) <= _LONGEST_TEXT and value.isprintable():
            return _number_written_as(value)
        wanted = f"a line of 1 to {_LONGEST_TEXT} printable characters"
    elif isinstance(value, int):
        if abs(value) < _LARGEST_WHOLE:
            return value
        wanted = "a whole number below 2**53"
    elif isinstance(value, float):
        if math.isfinite(value):
            return _whole_if_equal(value)
        wanted = "a finite number"
    raise ValueError(f"{PREFIX}{name}={str(value)[:60]}: wanted {wanted}")


def _number_written_as(text: str) -> AxisValue:
    """Return the number that is shown as this very text; the text where it is of none."""
    try:
        number = float(text)
    except ValueError:
        return text
    found = _whole_if_equal(number)
    return found if str(found) == text and math.isfinite(found) else text


def _whole_if_equal(number: float) -> int | float:
    return int(number) if number.is_integer() and abs(number) < _LARGEST_WHOLE else number


WHEN = "when"


def day_of(value: object) -> date:
    """Return the day of a date, or of a date with a time. Raises ValueError."""
    text = str(value)
    try:
        return datetime.fromisoformat(text).date()
    except ValueError:
        raise ValueError(
            f"{WHEN}={text[:40]}: no date; wanted one as 2026-03-14, or 2026-03-14T23:10:00"
        ) from None
