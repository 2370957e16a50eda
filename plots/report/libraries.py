"""JavaScript that the page brings along, Vega, Vega-Lite and vega-embed in one script; and how text
is packed into a page.
"""

from __future__ import annotations

import base64
import gzip
import re
from functools import cache
from pathlib import Path

_VEGA = Path(__file__).with_name("vega.js")  # scripts/bundle-vega makes it


@cache
def vega() -> str:
    return _VEGA.read_text(encoding="utf-8")


@cache
def packed_vega() -> str:
    return packed(vega())


def packed(text: str) -> str:
    """Compress a text for the page's script, which unpacks it. No HTML parser finds anything in
    the result.
    """
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


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
