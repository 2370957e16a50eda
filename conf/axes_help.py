"""Writes what `python sweep.py --help` says of each axis."""

from __future__ import annotations

import textwrap

from conf.schema import AXES_SET_BY_NAME, choices_of
from scalemark.records.axes import Axis, Engine

WIDTH = 100
_INDENT = " " * 4


def axes_help() -> str:
    """Return two lines or more per axis, in the order of the definitions. Axes that a program of
    the user's own may have, too, are marked.
    """
    return "\n".join(map(_lines_of, AXES_SET_BY_NAME))


def _lines_of(axis: Axis) -> str:
    choices = choices_of(axis)
    among = f"  ({', '.join(choices)})" if choices else ""
    given = str(axis.given).lower() if isinstance(axis.given, bool) else axis.given
    mark = "  *" if Engine.command in axis.engines else ""
    head = f"  {axis.name}={given}{among}{mark}"
    text = textwrap.wrap(axis.help, WIDTH, initial_indent=_INDENT, subsequent_indent=_INDENT)
    return "\n".join([*textwrap.wrap(head, WIDTH, subsequent_indent=_INDENT), *text])
