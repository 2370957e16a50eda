"""Reads numbers as people write them in tables: `5,762`, `29 911`, `2.84M`, `1024 img/s`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_MULTIPLES = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "B": 1e9}
_SPACES = " \u00a0\u2009\u202f'\u2019"  # spaces, narrow ones, and apostrophes group digits too
_FORM = re.compile(
    rf"([+-]?)([\d.,{_SPACES}]*[\d.,])([eE][+-]?\d{{1,3}})?\s*([kKMGB]?)(?:\s*([A-Za-z]+\s*/.*))?",
    re.ASCII,
)
_DIGITS = re.compile(r"\d*", re.ASCII)
_OF_THREE = re.compile(r"[1-9]\d{0,2}([.,])\d{3}", re.ASCII)  # 1,234 or 1.234


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A number of a cell."""

    amount: float
    is_rounded: bool  # by a multiple, as 64k, which may be 64,000 or 65,536
    unit: str  # what follows, as img/s


def read_number(text: str, *, decimal_comma: bool = False) -> Written | None:
    """Return the number of a cell; None where it is none. The other mark groups digits."""
    form = _FORM.fullmatch(text.strip())
    if form is None:
        return None
    sign, digits, exponent, multiple, unit = form.groups()
    plain = _plain(digits, *(",." if decimal_comma else ".,"))
    if plain is None:
        return None
    return Written(
        amount=float(f"{sign}{plain}{exponent or ''}") * _MULTIPLES[multiple],
        is_rounded=bool(multiple),
        unit=unit or "",
    )


def _plain(digits: str, decimal: str, group: str) -> str | None:
    """Return digits without groups and with a point; None where groups are not of three."""
    whole, _, fraction = digits.partition(decimal)
    if not _DIGITS.fullmatch(fraction) or not (whole or fraction):
        return None
    if not _DIGITS.fullmatch(whole):
        grouped = rf"[1-9]\d{{0,2}}(?:([{group}{_SPACES}])\d{{3}})(?:\1\d{{3}})*"
        if not re.fullmatch(grouped, whole, re.ASCII):
            return None
        whole = re.sub(r"\D", "", whole)
    return f"{whole or '0'}.{fraction or '0'}"


def open_mark(cells: Iterable[str]) -> str:
    """Return a number of a column that says 1,234 or 1.234 where nothing tells which mark is the
    decimal one; empty where that is known.
    """
    doubtful = ""
    for cell in cells:
        marks = [character for character in cell if character in ".,"]
        if len(marks) > 1:
            return ""  # 1,234.5 or 1.234.567
        if marks and not _OF_THREE.match(cell.strip()):
            return ""  # 12.5
        if marks:
            doubtful = doubtful or cell
    return doubtful
