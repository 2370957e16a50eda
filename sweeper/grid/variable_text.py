"""Says how to write values of environment variables that Hydra would change, or not read."""

from __future__ import annotations

import re
from collections.abc import Iterable
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
    given, remedy = _given(argument), _remedy(argument, parser)
    is_cast = _without_casts(given) != given
    if is_cast and _texts(parser.parse_override(remedy)) == _texts(override):
        return ""
    return _refusal(argument, remedy)


def unreadable(argument: str) -> str:
    """Say how to write a value that is not read at all, as int(a) or a list; empty where quotes
    or leaving out a cast do not help, and of other axes.
    """
    if not is_variable(argument.partition("=")[0].lstrip("+~")):
        return ""
    return _refusal(argument, _remedy(argument, OverridesParser.create()))


def reads_as(value: str, axis: str, parser: OverridesParser) -> bool:
    """Return whether Hydra reads a text without quotes as what it is."""
    try:
        return bool(parser.parse_override(f"{axis}={Transformer.str(value)}").value() == value)
    except HydraException:  # it has a quote
        return False


def _refusal(argument: str, remedy: str) -> str:
    """Return the empty text where the remedy is what was typed."""
    if remedy == argument:
        return ""
    given = _given(argument)
    what_to_do = "put these in quotes" if given == _without_casts(given) else "leave the cast out"
    return (
        f"{masked(argument)}: wanted text, as a variable holds its very characters; {what_to_do}, "
        f'as "{masked(remedy)}"'
    )


def _given(argument: str) -> str:
    return argument.partition("=")[2]


def _without_casts(given: str) -> str:
    """Return `choice(1.50,b)` for `choice(str(1.50),b)`."""
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
    return "".join(kept)


def _remedy(argument: str, parser: OverridesParser) -> str:
    """Return an override without casts, with quotes around what Hydra would rewrite."""
    axis, _, typed = argument.partition("=")
    given = _without_casts(typed)
    try:
        value = parser.parse_override(f"{axis}={given}").value()
    except HydraException:
        value = None
    if isinstance(value, list | dict):
        return f"{axis}={QuotedString(text=given, quote=Quote.single).with_quotes()}"
    if isinstance(value, RangeSweep):
        return f"{axis}={_written_out(given, value)}"

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

    return f"{axis}={_ELEMENT.sub(as_text, given)}"


def _written_out(given: str, values: RangeSweep) -> str:
    """Return the first values of a range of fractions as text; another range as it is."""
    if all(isinstance(bound, int) for bound in (values.start, values.stop, values.step)):
        return given
    return ",".join(f"'{one}'" for one in islice(values.range(), _MOST_WRITTEN_OUT))


def _texts(override: Override) -> list[str] | None:
    """Return the values as text, in any order, or the bounds of a range; None of other than text
    and whole numbers.
    """
    value = override.value()
    values: Iterable[object] = [value]
    if isinstance(value, RangeSweep):
        values = [value.start, value.stop, value.step]
    elif override.is_sweep_override():
        values = override.sweep_iterator()
    found = [one.text if isinstance(one, QuotedString) else one for one in values]
    if any(isinstance(one, bool | float | list | dict) for one in found):
        return None
    return sorted(map(str, found))
