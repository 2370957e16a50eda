"""Quotes arguments so that a command can be pasted into a shell."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable

_WORD = re.compile(
    r"""(?:\$'(?:[^'\\]|\\.)*'|'[^']*'|"(?:[^"\\]|\\.)*"|\\.|[^\s'"\\])+""", re.DOTALL
)
_GOES_ON = " \\"


def joined(arguments: Iterable[str]) -> str:
    """Return a command line, with invisible characters as escapes: one pastes what one reads."""
    return " ".join(map(_quoted, arguments))


def continued(command: str, width: int) -> list[str]:
    """Return a command as lines of a width, which a shell joins by the backslashes at their ends.

    A word that is longer stays whole.
    """
    words = _WORD.findall(command)
    if len(command) <= width or " ".join(words) != command:
        return [command]
    lines = [words[0]]
    for word in words[1:]:
        if len(lines[-1]) + len(f" {word}{_GOES_ON}") <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(f"  {word}")
    return [*(f"{line}{_GOES_ON}" for line in lines[:-1]), lines[-1]]


def _quoted(argument: str) -> str:
    if argument.isprintable():
        return shlex.quote(argument)
    quoted = argument.replace("\\", r"\\").replace("'", r"\'")
    return f"$'{''.join(one if one.isprintable() else _escaped(one) for one in quoted)}'"


def _escaped(one: str) -> str:
    return f"\\U{ord(one):08x}" if ord(one) > 0x7F else f"\\x{ord(one):02x}"
