"""Makes records out of JSON that others wrote, by the types of their fields.

All functions raise ValueError, which names the place of what does not fit.
"""

import json
import math
import types
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import MISSING, asdict, fields, is_dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from typing import Any, Self, TypeVar, Union, get_args, get_origin, get_type_hints

LARGEST_INTEGER = 2**31 - 1  # what every database and TensorFlow's int32 hold

_Record = TypeVar("_Record")
_LARGEST_64_BIT = 2**63 - 1
_MOST_SHOWN = 60  # characters of a value in a message
# levels of JSON that is kept as it is: what walks through it later has a limit, too
_MOST_NESTED = 64
_BIG = (
    "_bytes",
    "_us",
    "least_duration",
    "duration_over_least",
    "data_wait",
    "gap_before",
    "loss_over_least",
)  # ends of names of 64 bit columns


def parsed(text: str) -> Any:
    """Parse JSON, without Python's NaN and Infinity."""
    try:
        return json.loads(text, parse_constant=_no_constant)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def canonical(reported: object) -> str:
    """Return JSON that is the same text for equal values."""
    return json.dumps(
        reported, sort_keys=True, separators=(",", ":"), allow_nan=False, default=_plain
    )


def utc_text(at: datetime) -> str:
    """Return a time in UTC, always with microseconds, so that equal times are equal text."""
    if at.utcoffset() is None:
        raise ValueError(f"{at}: a time without zone")
    return at.astimezone(UTC).isoformat(timespec="microseconds")


class JsonRecord:
    """A dataclass that travels as a JSON object."""

    __slots__ = ()

    def to_json(self) -> str:
        values = asdict(self)  # type: ignore[call-overload]  # every subclass is a dataclass
        return json.dumps(values, sort_keys=True, indent=1, default=_plain)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Raises ValueError."""
        return build(cls, parsed(text))


def build(record: type[_Record], reported: object, where: str = "") -> _Record:
    """Make a dataclass of a JSON object."""
    try:
        return record(**checked(record, reported, where))
    except RecursionError as error:
        raise ValueError(f"{where or 'it'}: nested too deeply") from error


def check_one_of(name: str, value: str, choices: type[StrEnum]) -> None:
    if value not in tuple(choices):
        raise ValueError(f"{name}={_shown(value)}: wanted one of {', '.join(choices)}")


def check_least(name: str, value: float, least: int) -> None:
    if not value >= least:  # false for NaN, too
        raise ValueError(f"{name}={value}: wanted {least} or more")


def storable(text: str) -> str:
    """Replace the characters that no database takes."""
    return text.replace("\0", "\ufffd").encode(errors="backslashreplace").decode()


def checked(record: type[Any], reported: object, where: str = "") -> dict[str, Any]:
    """Return the values for a dataclass's fields, each as the type of its field."""
    values = _object(reported, where)
    kinds, required = _shape(record)  # type: ignore[arg-type]  # of mypy's: a class is hashable
    missing = required - values.keys()
    if missing:
        raise ValueError(f"{_at(where)}{', '.join(sorted(missing))} missing")
    unknown = values.keys() - kinds.keys()
    if unknown:
        raise ValueError(
            f"{_at(where)}unknown: {_shown(', '.join(sorted(unknown)))}; wanted {', '.join(kinds)}"
        )
    made = {}
    for name, value in values.items():
        made[name] = _made(kinds[name], value, f"{where}.{name}" if where else name)
    return made


def check_type(kind: type, value: object, where: str) -> None:
    """Raises ValueError for what is no text, number or truth of this type."""
    _PLAIN[kind](value, where)


def check_json(value: object, where: str, depth: int = 0) -> None:
    """Accept any JSON whose texts can be stored and whose numbers are finite."""
    if depth > _MOST_NESTED:
        raise ValueError(
            f"{where[:_MOST_SHOWN]}...: nested too deeply; wanted {_MOST_NESTED} levels or fewer"
        )
    if isinstance(value, str):
        _text(value, where)
    elif isinstance(value, Mapping):
        for name, item in value.items():
            _text(name, where)
            check_json(item, f"{where}.{_shown(name)}", depth + 1)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            check_json(item, f"{where}[{index}]", depth + 1)
    elif isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{where}={value}: wanted a finite number")
    elif isinstance(value, int) and abs(value) > _LARGEST_64_BIT:
        raise ValueError(f"{where}={_shown(value)}: wanted no more than {_LARGEST_64_BIT}")


@lru_cache(maxsize=64)
def _shape(record: type[Any]) -> tuple[dict[str, Any], frozenset[str]]:
    """Return the type of each field in their order, and the names without default."""
    assert is_dataclass(record)
    required = []
    for field in fields(record):
        if field.default is MISSING and field.default_factory is MISSING:
            required.append(field.name)
    hints = get_type_hints(record)
    return {field.name: hints[field.name] for field in fields(record)}, frozenset(required)


def _made(wanted: Any, value: object, where: str) -> Any:
    """Check a value by the type of its field, and make it of that type, as a tuple of a list."""
    if wanted in _PLAIN:
        return _PLAIN[wanted](value, where)
    if wanted is Any:
        check_json(value, where)
        return value
    origin, arguments = get_origin(wanted), get_args(wanted)
    if origin in (Union, types.UnionType):
        (some,) = set(arguments) - {types.NoneType}
        return None if value is None else _made(some, value, where)
    if origin is dict:
        items = {}
        for name, item in _object(value, where).items():
            items[_text(name, where)] = _made(arguments[1], item, f"{where}.{_shown(name)}")
        return items
    if origin is tuple:
        return _tuple(arguments, value, where)
    if isinstance(value, wanted):  # a record that is made already
        return value
    return build(wanted, value, where)


def _tuple(kinds: tuple[Any, ...], value: object, where: str) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise ValueError(f"{where}={_shown(value)}: wanted a list")
    if kinds[-1] is Ellipsis:
        kinds = (kinds[0],) * len(value)
    if len(value) != len(kinds):
        raise ValueError(f"{where}={_shown(value)}: wanted a list of {len(kinds)} values")
    made = []
    for index, (kind, item) in enumerate(zip(kinds, value, strict=True)):
        made.append(_made(kind, item, f"{where}[{index}]"))
    return tuple(made)


def _object(value: object, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{_at(where)}found {_shown(value)}, wanted an object")
    return value


def _text(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{where}={_shown(value)}: wanted text")
    if "\0" in value:
        raise ValueError(f"{where}: a NUL character in it, which no database takes")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{where}: half of a surrogate pair in it, which no database takes"
        ) from error
    return value


def _whole(value: object, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{where}={_shown(value)}: wanted a whole number")
    name = where.rpartition(".")[2].partition("[")[0]
    most = LARGEST_INTEGER
    if name.endswith(_BIG) or name == "num_parameters":
        most = _LARGEST_64_BIT
    if not -most <= value <= most:
        raise ValueError(f"{where}={_shown(value)}: wanted no more than {most}")
    return value


def _number(value: object, where: str) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ValueError(f"{where}={_shown(value)}: wanted a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError(f"{where}={_shown(value)}: wanted a finite number")
    return number


def _truth(value: object, where: str) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{where}={_shown(value)}: wanted true or false")
    return value


def _time(value: object, where: str) -> datetime:
    if isinstance(value, str):
        with suppress(ValueError):  # as any other value that is no time
            value = datetime.fromisoformat(value)
    if not isinstance(value, datetime):
        raise ValueError(f"{where}={_shown(value)}: wanted a time, as 2026-01-31T12:00:00+00:00")
    if value.utcoffset() is None:
        raise ValueError(f"{where}={_shown(value)}: a time without zone")
    try:
        return value.astimezone(UTC)
    except OverflowError as error:
        raise ValueError(f"{where}={_shown(value)}: no time in UTC") from error


_PLAIN: dict[Any, Callable[[object, str], Any]] = {
    str: _text,
    int: _whole,
    float: _number,
    bool: _truth,
    datetime: _time,
}


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return utc_text(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    raise TypeError(f"{value!r} cannot be written as JSON")


def _no_constant(name: str) -> float:
    raise ValueError(f"{name}: wanted a finite number")


def _at(where: str) -> str:
    return f"{where}: " if where else ""


def _shown(value: object) -> str:
    text = str(value) if isinstance(value, str | datetime) else repr(value)
    text = text if text.isprintable() else ascii(text)
    if len(text) <= _MOST_SHOWN:
        return text
    return f"{text[:_MOST_SHOWN]}..."
