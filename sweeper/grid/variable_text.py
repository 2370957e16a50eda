"""Refuses values of environment variables that Hydra would change, such as 1.50 or int(3)."""

from __future__ import annotations

import re

from scalemark.records.free_axes import is_env_variable
from scalemark.text.untrusted import masked

_QUOTED = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|\\.""")
_WHOLE = re.compile(r"-?[1-9]\d*|0", re.ASCII)


def variable_problem(argument: str) -> str:
    """Say how to write values of a variable that Hydra would write differently; empty where
    nothing is wrong, and for other axes.
    """
    axis, _, given = argument.partition("=")
    if not is_env_variable(axis.lstrip("+~")):
        return ""
    plain = _QUOTED.sub("", given)
    if not set(plain) & set("()[]{}") and not any(map(_is_changed, plain.split(","))):
        return ""
    remedy = f"write each value in quotes, as {axis}='0.25','0.50'"
    if not set(given) & set("()[]{}'\"\\"):
        quoted = ",".join(f"'{value.strip()}'" for value in given.split(","))
        remedy = f'put quotes around each value: "{masked(f"{axis}={quoted}")}"'
    shown = masked(argument)
    return f"{shown}: a variable holds its very characters, and Hydra would change them; {remedy}"


def _is_changed(value: str) -> bool:
    """Return whether Hydra reads it as true, false, or a number that it writes differently."""
    value = value.strip()
    if value.lower() in ("true", "false"):
        return True
    try:
        float(value)
    except ValueError:
        return False
    return not _WHOLE.fullmatch(value)
