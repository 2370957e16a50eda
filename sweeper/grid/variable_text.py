"""Says how to write values of environment variables that Hydra would change, or not read."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from decimal import Decimal
from itertools import islice

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import (
    Override,
    Quote,
    QuotedString,
    RangeSweep,
    Transformer,
)
from hydra.errors import HydraException

from scalemark.records.environment_axes import is_variable
from scalemark.text.redact import masked

_CASTS = frozenset({"int", "float", "bool", "str", "json_str"})
_MOST_WRITTEN_OUT = 20  # values of a range
_ELEMENT = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|(?:[^,()'"\\]|\\.)+""")
"""A value as it was typed, or the name of a function: also within choice(...) and its like."""
_TOKEN = re.compile(rf"{_ELEMENT.pattern}|.", re.DOTALL)


def no_text(override: Override, parser: OverridesParser) -> str:
    """Say how to write a value that Hydra reads as a number and would write differently, before it
    is lost how it was typed; empty where nothing is wrong, as with a cast that changes nothing.
    """
    argument = str(override.input_line)
    remedy = _remedy(argument, parser)
    if remedy and _has_cast(argument) and _texts(remedy, parser) == _texts(argument, parser):
        return ""
    return _refusal(argument, remedy)


def unreadable(argument: str) -> str:
    """Say how to write a value that is not read at all, as int(a) or a list; empty where quotes
    or leaving out a cast do not help, and of other axes.
    """
    if not is_variable(argument.partition("=")[0].lstrip("+~")):
        return ""
    remedy = _remedy(argument, OverridesParser.create())
    return _refusal(argument, remedy) if remedy or _has_cast(argument) else ""


def reads_as(value: str, axis: str, parser: OverridesParser) -> bool:
    """Return whether Hydra reads a text without quotes as what it is."""
    try:
        return bool(parser.parse_override(f"{axis}={Transformer.str(value)}").value() == value)
    except HydraException:  # it has a quote
        return False


def _refusal(argument: str, remedy: str | None) -> str:
    """Return the empty text where the remedy is what was typed."""
    if remedy == argument:
        return ""
    found = f"{masked(argument)}: wanted text, as a variable holds its very characters;"
    if not remedy:
        of_many = f"those that you want of its more than {_MOST_WRITTEN_OUT} values"
        which = of_many if remedy is None else "its values"
        axis = argument.partition("=")[0]
        return f"{found} write out {which}, each in quotes, as in {axis}='0.25','0.50'"
    what_to_do = "leave the cast out" if _has_cast(argument) else "put these in quotes"
    return f'{found} {what_to_do}, as "{masked(remedy)}"'


def _has_cast(argument: str) -> bool:
    given = argument.partition("=")[2]
    return _without_casts(given) != given


def _without_casts(given: str) -> str:
    """Return `choice(1.50,b)` for `choice(str(1.50),b)`, and `1.50` for `str( 1.50 )`."""
    kept: list[str] = []
    opened: list[bool] = []  # of each parenthesis whether it is that of a cast
    follows_cast = False
    for found in _TOKEN.finditer(given):
        token = found[0]
        is_of_cast = follows_cast
        follows_cast = token.strip() in _CASTS and given.startswith("(", found.end())
        if token == "(":
            opened.append(is_of_cast)
        elif token == ")" and opened:
            is_of_cast = opened.pop()
        if not (is_of_cast or follows_cast):
            kept.append(token)
    without = "".join(kept)
    return without if without == given else without.strip()


def _remedy(argument: str, parser: OverridesParser) -> str | None:
    """Return an override without casts, with quotes around what Hydra would rewrite; empty where
    it would not be read as text, and None of a range that is too long to be written out.
    """
    axis, _, typed = argument.partition("=")
    written = _written(axis, _without_casts(typed), parser)
    if written is None:
        return None
    remedy = f"{axis}={written}"
    return remedy if remedy == argument or _texts(remedy, parser) else ""


def _written(axis: str, given: str, parser: OverridesParser) -> str | None:
    try:
        value = parser.parse_override(f"{axis}={given}").value()
    except HydraException:
        value = None
    if isinstance(value, list | dict):
        return QuotedString(text=given, quote=Quote.single).with_quotes()
    if isinstance(value, RangeSweep):
        return _written_out(given, value)

    def as_text(found: re.Match[str]) -> str:
        element, text = found[0], found[0].strip()
        is_function = given.startswith("(", found.end())
        return element.replace(text, f"'{text}'") if not is_function and rewrites(text) else element

    def rewrites(text: str) -> bool:
        try:
            one = parser.parse_override(f"{axis}={text}").value()
        except HydraException:  # a part of a list
            return False
        return isinstance(one, bool | float) or (isinstance(one, int) and str(one) != text)

    return _ELEMENT.sub(as_text, given)


def _written_out(given: str, values: RangeSweep) -> str | None:
    """Return a range of fractions as text, with as many decimals as its step has or its start; None
    of a long one. Return one of whole numbers, without values or without end as it is.
    """
    assert values.start is not None
    assert values.stop is not None
    bounds = (values.start, values.stop, values.step)
    is_endless = not (all(map(math.isfinite, bounds)) and values.step)
    if is_endless or all(isinstance(bound, int) for bound in bounds):
        return given
    found = list(islice(values.range(), _MOST_WRITTEN_OUT + 1))
    if len(found) > _MOST_WRITTEN_OUT:
        return None
    num_decimals = max(_num_decimals(values.start), _num_decimals(values.step))
    return ",".join(f"'{one:z.{num_decimals}f}'" for one in found) or given


def _num_decimals(number: float) -> int:
    return len(f"{Decimal(str(number)):f}".partition(".")[2])


def _texts(argument: str, parser: OverridesParser) -> list[str] | None:
    """Return the values as text, in any order, or the bounds of a range; None of other than text
    and whole numbers, and of what cannot be read or listed.
    """
    try:
        override = parser.parse_override(argument)
        value = override.value()
        values: Iterable[object] = [value]
        if isinstance(value, RangeSweep):
            values = [value.start, value.stop, value.step]
        elif override.is_sweep_override():
            values = override.sweep_iterator()
        found = [one.text if isinstance(one, QuotedString) else one for one in values]
    except HydraException:
        return None
    if any(isinstance(one, bool | float | list | dict) for one in found):
        return None
    return sorted(map(str, found))
