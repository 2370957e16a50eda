"""Compiles patterns of users, and bounds the time that they take: some take exponential time.

Python's `re` tries alternatives until one fits. A repeat within a repeat, as `(a+)+$`, has so many
that a line of fifty characters takes longer than the training. Three bounds: such patterns are
refused, a pattern sees the first characters of a line, and a timer ends what still takes too long.
"""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from scalemark.readers.reading import ReadError
from scalemark.text.untrusted import quoted

MOST_CHARACTERS = 2_000
"""How much of a line a pattern sees."""

MOST_S = 1.0
"""How long a pattern may take for one line."""

_MANY = re.compile(r"[*+]|\{\d*,\d*\}")
_PIECE = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|[()]|[*+?|]|\{\d*,\d*\}|.", re.DOTALL)
_MOST_SHOWN = 100


class _TooLongError(Exception):
    pass


def compiled(text: str) -> re.Pattern[str]:
    """Return a pattern. Raises ReadError for one that cannot be used, with what to do."""
    try:
        pattern = re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise ReadError(f"{_shown(text)} is no regular expression: {error}") from error
    inner = _repeated_repeat(text)
    if inner:
        raise ReadError(
            f"{_shown(text)} may take exponential time: {quoted(inner, 40)} repeats what "
            "itself repeats or has alternatives; write a class for it, as [0-9.,]+"
        )
    return pattern


def matched(pattern: re.Pattern[str], line: str) -> re.Match[str] | None:
    """Return the first match in the begin of a line. Raises ReadError where that takes MOST_S."""
    try:
        with _timer():
            return pattern.search(line[:MOST_CHARACTERS])
    except _TooLongError:
        raise ReadError(
            f"{_shown(pattern.pattern)} took more than {MOST_S:g} s for a line of "
            f"{min(len(line), MOST_CHARACTERS)} characters; write a pattern without repeats "
            "that can begin and end in many places, as [0-9.,]+ instead of .*"
        ) from None


def _repeated_repeat(text: str) -> str:
    """Return a repeated group that holds a repeat or an alternative; empty: there is none."""
    begins: list[int] = []
    inside: list[bool] = []  # whether the group has a repeat or an alternative
    closed: tuple[int, bool] | None = None  # the group that ended just before
    for piece in _PIECE.finditer(text):
        token = piece[0]
        if closed and _MANY.fullmatch(token) and closed[1]:
            is_possessive = text[piece.end() : piece.end() + 1] == "+"
            if not is_possessive:
                return text[closed[0] : piece.end()]
        closed = None
        if token == "(":
            begins.append(piece.start())
            inside.append(False)
        elif token == ")" and begins:
            has_repeat = inside.pop()
            closed = (begins.pop(), has_repeat)
            if inside:
                inside[-1] = inside[-1] or has_repeat
        elif inside and (token in "*+|?" or _MANY.fullmatch(token)):
            is_of_syntax = token == "?" and text[piece.start() - 1] == "("
            inside[-1] = inside[-1] or not is_of_syntax
    return ""


@contextmanager
def _timer() -> Iterator[None]:
    """End what takes MOST_S; only the main thread can be ended so, others have no timer."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGALRM, _too_long)
    rest_s, interval_s = signal.setitimer(signal.ITIMER_REAL, MOST_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, rest_s, interval_s)
        signal.signal(signal.SIGALRM, before or signal.SIG_DFL)


def _too_long(_: int, __: FrameType | None) -> None:
    raise _TooLongError


def _shown(text: str) -> str:
    return f"regex {quoted(text, _MOST_SHOWN)!r}"
