"""Makes text from outside (processes, logs, databases, files) safe: no secrets, no control
characters, and short.

All such text goes through `visible`, `quoted` or `quoted_lines` before it reaches a terminal, a
page, a message or the database.
"""

from __future__ import annotations

from functools import lru_cache

from scalemark.text.redact import without_secrets

MOST_CHARACTERS = 2000
"""Length of one message, stored or shown; the log has the rest."""

_MOST_SHOWN = 2**14  # characters of a cell: some are megabytes
_SHORT = 200
_CUT = "…"
_LINES = "\n\t"


def visible(text: str) -> str:
    """Mask secrets, and show what a terminal would obey (escapes, newlines) as Python writes it."""
    return _visible_cell(text) if len(text) <= _SHORT else quoted(text, _MOST_SHOWN)


def quoted(text: str, most: int = MOST_CHARACTERS) -> str:
    """Return visible text, cut to so many characters."""
    return _cut(_shown(_begin(text, most), ""), most)


def quoted_lines(text: str, most: int = MOST_CHARACTERS) -> str:
    """Return quoted text whose lines stay lines. Doing it again changes nothing."""
    return _cut(_shown(_begin(text, most), _LINES), most)


@lru_cache(maxsize=4096)  # the cells of a table say the same again and again
def _visible_cell(text: str) -> str:
    return _shown(text, "")


def _shown(text: str, also: str) -> str:
    masked = without_secrets(text)
    if masked.isprintable():
        return masked
    printable = "".join(
        one if one.isprintable() or one in also else _escaped(one) for one in masked
    )
    return without_secrets(printable)  # an escape may have become a part of a name


def _escaped(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def _begin(text: str, most: int) -> str:
    """Cut a text of megabytes after a whole word, so that no secret is cut before it is masked."""
    looked_at = max(_MOST_SHOWN, 2 * most)
    if len(text) <= looked_at:
        return text
    begin = text[:looked_at]
    whole = begin.rsplit(maxsplit=1)[:-1]  # empty where there is but one word, or none
    return whole[0] if whole else begin


def _cut(text: str, most: int) -> str:
    """Cut text, but never within a mask: half a mask would be masked again."""
    if len(text) <= most:
        return text
    begin = text[: most - len(_CUT)]
    while without_secrets(begin + _CUT) != begin + _CUT:
        begin = begin[:-1].rstrip()
    return begin + _CUT
