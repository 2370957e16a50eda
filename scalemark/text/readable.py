"""Writes what a stream's encoding lacks in ASCII that people can read."""

from __future__ import annotations

import codecs
import io

TYPE_CHECKING = False  # not that of `typing`: Ctrl-C would show a traceback while it is imported
if TYPE_CHECKING:
    from typing import TextIO

_HANDLER = "scalemark.readable"
_READABLE = {
    **dict.fromkeys("×", "x"),
    **dict.fromkeys("±", "+-"),
    **dict.fromkeys("…", "..."),
    **dict.fromkeys("\N{EN DASH}\N{EM DASH}\N{MINUS SIGN}\N{NON-BREAKING HYPHEN}", "-"),
    **dict.fromkeys("‘’", "'"),
    **dict.fromkeys("“”", '"'),
    **dict.fromkeys("\N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}\N{THIN SPACE}", " "),
    **dict.fromkeys("≈", "~"),
    **dict.fromkeys("≤", "<="),
    **dict.fromkeys("≥", ">="),
    **dict.fromkeys("→", "->"),
    **dict.fromkeys("·•", "*"),
    **dict.fromkeys("µμ", "u"),
    **dict.fromkeys("─━═╌", "-"),
    **dict.fromkeys("│┃║", "|"),
    **dict.fromkeys("┌┐└┘├┤┬┴┼╭╮╰╯┏┓┗┛┡┩╇╞╪╡", "+"),
}


def tolerate(*streams: TextIO | None) -> None:
    """Write what the streams' encodings lack in ASCII, or as escapes; else it ended the program."""
    codecs.register_error(_HANDLER, _replaced)
    for stream in streams:
        # surrogateescape is of the C locale, backslashreplace of stderr
        if isinstance(stream, io.TextIOWrapper) and stream.errors in (
            *("strict", "surrogateescape"),
            "backslashreplace",
        ):
            stream.reconfigure(errors=_HANDLER)


def _replaced(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    found = []
    for character in error.object[error.start : error.end]:
        escaped = character.encode("ascii", "backslashreplace").decode()
        found.append(_READABLE.get(character, escaped))
    return "".join(found), error.end
