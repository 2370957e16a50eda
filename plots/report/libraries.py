"""The JavaScript of others that the page brings along: Vega, Vega-Lite and vega-embed in one
module.
"""

from __future__ import annotations

import re
from functools import cache

_GLOBALS = "window.vegaEmbed = vegaEmbed;"


@cache
def vega() -> str:
    """Safe within a script element."""
    import vl_convert  # here, because only a page needs it

    return safe(vl_convert.javascript_bundle(_GLOBALS))


def safe(script: str) -> str:
    """The same script, with nothing in it that would end its element: within strings and patterns a
    backslash changes nothing.
    """
    return re.sub(
        r"<(?=/script|script)|<!(?=--)",
        lambda found: found[0][0] + "\\" + found[0][1:],
        script,
        flags=re.IGNORECASE,
    )
