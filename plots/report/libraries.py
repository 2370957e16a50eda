"""JavaScript that the page brings along: Vega, Vega-Lite and vega-embed in one module."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

_VEGA = Path(__file__).with_name("vega.js")  # scripts/bundle-vega makes it


@cache
def vega() -> str:
    """Return it, safe within a script element."""
    return safe(_VEGA.read_text(encoding="utf-8"))


def safe(script: str) -> str:
    """Escape what would end the element of a script: within strings and patterns a backslash
    changes nothing.
    """
    return re.sub(
        r"<(?=/script|script)|<!(?=--)",
        lambda found: found[0][0] + "\\" + found[0][1:],
        script,
        flags=re.IGNORECASE,
    )
