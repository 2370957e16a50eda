"""Text from outside (processes, trainers, logs, databases, files): without secrets, without controls, and short.

All such text goes through `visible`, `quoted` or `quoted_lines` before it reaches a terminal, a page, a message or the database.
"""

from __future__ import annotations

from functools import lru_cache

from store.redact import without_secrets

MOST_CHARACTERS = 2000
"""Of one message, stored or shown: who wants more looks into the log."""

_MOST_LOOKED_AT = 2**14  # characters; masking takes up to the square of it
_SHORT = 200
_CUT = "…"
_LINES = "\n\t"


def visible(text: str) -> str:
    """Secrets masked, then whatever a terminal would obey (escapes, newlines, other controls) shown as Python writes it."""
    return _visible_cell(text) if len(text) <= _SHORT else _printable(without_secrets(text), "")


def quoted(text: str, most: int = MOST_CHARACTERS) -> str:
    """As `visible`, then cut to so many characters."""
    return _cut(visible(_begin(text, most)), most)


def quoted_lines(text: str, most: int = MOST_CHARACTERS) -> str:
    """As `quoted`, and its lines stay lines: for what is stored, and for messages of ours that quote others.

    What went through it once stays as it is.
    """
    return _cut(_printable(without_secrets(_begin(text, most)), _LINES), most)


@lru_cache(maxsize=4096)  # the cells of a table say the same again and again
def _visible_cell(text: str) -> str:
    return _printable(without_secrets(text), "")


def _printable(text: str, also: str) -> str:
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one in also else _escaped(one) for one in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def _begin(text: str, most: int) -> str:
    """What can matter of a text of megabytes; it ends with a whole word, so that no secret is cut in two before it is masked."""
    looked_at = max(_MOST_LOOKED_AT, 2 * most)
    if len(text) <= looked_at:
        return text
    begin = text[:looked_at]
    *whole, _ = begin.rsplit(maxsplit=1)
    return "".join(whole) or begin


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - len(_CUT)] + _CUT
