"""The live report's page, and a page that waits until there is something to report."""

from __future__ import annotations

import html
import json
import sys
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from plots.parts import in_words
from plots.report import libraries, page
from plots.source import Source

POLICY = (
    "default-src 'none'; connect-src 'self'; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
"""Nothing from elsewhere, no frame around it. Which scripts may run is reported in the page itself,
by their digests.
"""


def prepare() -> None:
    """Do what takes seconds in which nothing else can run, before anybody is waiting."""
    libraries.vega()


def live_page(source: Source, mark: str, every_s: float) -> str:
    """Raises StoreError when nothing is found."""
    return page.render(
        source, datetime.now(UTC), live=True, scripts=[_script(mark, every_s)], failed=_tell
    )


def report(source: Source) -> dict[str, Any]:
    """Return what a live page shows next. Raises StoreError as above."""
    return page.data(source, datetime.now(UTC), failed=_tell)


def _tell(part: str, error: Exception) -> None:
    """Print to whoever started the server; the page says it to its readers."""
    print(f"plots: not on the page: {part}: {in_words(error)}", file=sys.stderr, flush=True)


def waiting_page(problem: str, every_s: float) -> str:
    """Becomes the live page once there are results."""
    script = _script(None, every_s)
    return _WAITING.format(
        policy=page.policy([script], live=True), script=script, problem=html.escape(problem)
    )


def _script(mark: str | None, every_s: float) -> str:
    return (
        "const settings = "
        f"{json.dumps({'mark': mark, 'every_ms': round(1000 * every_s)})};\n{_live()}"
    )


@cache
def _live() -> str:
    return Path(__file__).with_name("live.js").read_text(encoding="utf-8")


_WAITING = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>Waiting for results – scalemark</title>
<style>
body {{ font: 1rem/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 40rem }}
body {{ padding: 0 1rem; overflow-wrap: anywhere }}
</style>
</head>
<body>
<h1>Waiting for results</h1>
<p id="live" role="status" aria-live="polite">{problem}</p>
<p>This page shows them once they are there.</p>
<script type="module">{script}</script>
</body>
</html>
"""
