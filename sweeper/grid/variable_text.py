"""Refuses values of environment variables that Hydra would change, such as 1.50 or int(3)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, QuotedString, RangeSweep, Transformer
from hydra.errors import HydraException

from scalemark.records.free_axes import is_env_variable
from scalemark.text.untrusted import masked

_QUOTED = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""")
_CAST = re.compile(r"\b(?:int|float|bool|str|json_str)\(")


def no_text(override: Override) -> str:
    """Say how to write a value that Hydra would write differently; empty where nothing is wrong."""
    argument = str(override.input_line)
    axis, _, given = argument.partition("=")
    if _CAST.search(_QUOTED.sub("", given)):
        return _refusal(axis, given)
    try:
        for value in _values(override):
            if isinstance(value, QuotedString):
                continue
            is_rewritten = isinstance(value, int) and str(value) not in _words(given)
            if isinstance(value, bool | float | list | dict) or is_rewritten:
                return _refusal(axis, given)
    except HydraException:  # as of sort(3,1.5), whose values cannot be compared
        return _refusal(axis, given)
    return ""


def unreadable(argument: str) -> str:
    """Say how to write a value that Hydra cannot read at all, such as int(a) or a list; empty for
    other axes, and where quotes would not help.
    """
    axis, _, given = argument.partition("=")
    if not is_env_variable(axis.lstrip("+~")):
        return ""
    is_changed = given.startswith(("[", "{")) or _CAST.match(given)
    return _refusal(axis, given) if is_changed else ""


def reads_as(value: str, axis: str, parser: OverridesParser) -> bool:
    """Return whether Hydra reads a text without quotes as what it is."""
    try:
        return bool(parser.parse_override(f"{axis}={Transformer.str(value)}").value() == value)
    except HydraException:  # it has a quote
        return False


def _values(override: Override) -> Iterable[object]:
    value = override.value()
    if isinstance(value, RangeSweep):
        bounds = (value.start, value.step)
        # a range of whole numbers is written as it is
        return [bound for bound in bounds if isinstance(bound, float)]
    if override.is_sweep_override():
        return override.sweep_iterator()
    return [value]


def _words(given: str) -> list[str]:
    """Return the parts of what was typed between commas and parentheses."""
    for sign in ",()":
        given = given.replace(sign, " ")
    return given.split()


def _refusal(axis: str, given: str) -> str:
    """Show the values in quotes where what was typed is a plain list of them."""
    remedy = f"write each value in quotes, as {axis}='0.25','0.50'"
    if not set(given) & set("()[]{}'\"\\"):
        quoted = ",".join(f"'{value.strip()}'" for value in given.split(","))
        remedy = f'put quotes around each value: "{masked(f"{axis}={quoted}")}"'
    shown = masked(f"{axis}={given}")
    return f"{shown}: a variable holds its very characters, and Hydra would change them; {remedy}"
