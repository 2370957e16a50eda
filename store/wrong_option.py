"""Says of an option's value that is wrong what was typed, and what was wanted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scalemark.text.untrusted import visible

_WANTED: Mapping[str, str] = {
    "greater_than_equal": "{ge} or more",
    "less_than_equal": "{le} or less",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing_size": "a whole number of fewer digits",
    "float_parsing": "a number",
}
"""The value that is wanted instead, by the type of pydantic's error."""

_LONGEST = 100  # characters of a value


def reworded(message: str, errors: list[Any]) -> str:
    """Return the message of Typer's error, which leaves out what was typed; `errors` are pydantic's
    behind it.
    """
    (first, *_) = errors
    wanted = _WANTED.get(first["type"])
    if wanted is None:
        return message.removeprefix("Value error, ")
    typed = visible(str(first["input"])[:_LONGEST])
    if typed.strip().lower().lstrip("+-") == "nan":  # which no limit holds
        return f"{typed}; wanted a number"
    limits = {}
    for name, limit in first.get("ctx", {}).items():
        is_whole = isinstance(limit, float) and limit.is_integer()
        limits[name] = int(limit) if is_whole else limit
    return f"{typed}; wanted {wanted.format(**limits)}"
