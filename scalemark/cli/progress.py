"""Shows on stderr how far something slow is."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Progress = Callable[[str, int, int], None]
"""Called with what is done, how much of it is done, and of how much."""


def silent(what: str, done: int, total: int) -> None:
    """Show nothing."""


@contextmanager
def shown() -> Iterator[Progress]:
    """Show progress on one line of a terminal, which is cleared at the end; elsewhere nothing."""
    if not sys.stderr.isatty():
        yield silent
        return
    try:
        yield _show
    finally:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _show(what: str, done: int, total: int) -> None:
    share = f" of {total:,}" if total else ""
    print(f"\r\x1b[K{what}: {done:,}{share}", end="", file=sys.stderr, flush=True)
