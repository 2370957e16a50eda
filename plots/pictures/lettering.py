"""Measures text as it is drawn, and breaks lines so that they fit."""

from __future__ import annotations

import re
from functools import lru_cache

from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.ft2font import FT2Font, LoadFlags

from scalemark.text.untrusted import visible

_POINTS_PER_INCH = 72
_LINE = 1.3  # height of a line, times its letters' size
_HINTING = 1.03  # rendered letters stand on whole pixels, and are that much wider at most
# a line may end after these, within names and paths, too
_PARTS = re.compile(r"[^\s_/,=-]*[\s_/,=-]*")


def width_in(text: str, size_pt: float, *, bold: bool = False) -> float:
    """Return the width of the longest line, in inches."""
    font = _font(bold)
    font.set_size(size_pt, _POINTS_PER_INCH)
    widest = 0
    for line in text.split("\n"):
        font.set_text(line, 0.0, flags=LoadFlags.NO_HINTING)
        widest = max(widest, font.get_width_height()[0])
    return _HINTING * widest / 64 / _POINTS_PER_INCH


def height_in(text: str, size_pt: float) -> float:
    """Return the height of all lines, in inches."""
    return (text.count("\n") + 1) * size_pt * _LINE / _POINTS_PER_INCH


@lru_cache(maxsize=10_000)
def wrapped(text: str, size_pt: float, within_in: float, *, bold: bool = False) -> str:
    """Break the text into lines that are no wider. Characters that no font can draw are shown as
    Python writes them.
    """
    lines = [""]
    for part in parts(drawable(text)):
        if width_in((lines[-1] + part).rstrip(), size_pt, bold=bold) <= within_in:
            lines[-1] += part
            continue
        lines.append("")
        for character in part:
            if (
                lines[-1]
                and width_in((lines[-1] + character).rstrip(), size_pt, bold=bold) > within_in
            ):
                lines.append("")
            lines[-1] += character
    return "\n".join(line.rstrip() for line in lines if line.strip())


def parts(text: str) -> list[str]:
    """Split a text into parts that stay on one line where they can."""
    return [part for part in _PARTS.findall(text) if part]


def drawable(text: str) -> str:
    """Escape controls, and characters that the font lacks."""
    known = _font(bold=False).get_charmap()
    return "".join(
        one if ord(one) in known else one.encode("unicode_escape").decode("ascii")
        for one in visible(text)
    )


@lru_cache
def _font(bold: bool) -> FT2Font:
    return get_font(findfont(FontProperties(weight="bold" if bold else "normal")))
