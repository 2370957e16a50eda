"""Quotes arguments so that a command can be pasted into a shell."""

from __future__ import annotations

import shlex
from collections.abc import Iterable


def joined(arguments: Iterable[str]) -> str:
    """Return a command line, with invisible characters as escapes: one pastes what one reads."""
    return " ".join(map(_quoted, arguments))


def _quoted(argument: str) -> str:
    if argument.isprintable():
        return shlex.quote(argument)
    quoted = argument.replace("\\", r"\\").replace("'", r"\'")
    return f"$'{''.join(one if one.isprintable() else _escaped(one) for one in quoted)}'"


def _escaped(one: str) -> str:
    return f"\\U{ord(one):08x}" if ord(one) > 0x7F else f"\\x{ord(one):02x}"
